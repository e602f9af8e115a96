//! Compaction: a new version of the passages that are alive, with an empty write-ahead log.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::IndexWriter;
use super::catch_up::Next;
use super::snapshot::Snapshot;
use super::writer::Inner;
use crate::directory::build::{Draft, Writing};
use crate::directory::pointer::Publisher;
use crate::sparse::SparseOptions;
use crate::vectors::rows;
use crate::{
    BuildError, CompactError, GraphBuilder, IndexDir, IndexManifest, IndexOptions, LoadedIndex, OpenError,
    VectorIndex as _,
};
use dpr_files::Background;
use dpr_files::progress::{Progress, Silent};

/// The number of changes at which a new version is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactionPolicy {
    /// Rows added and removed, as a share of the passages built in.
    pub share: f64,
    /// Rows added and removed, whatever the share.
    pub rows: usize,
}

impl Default for CompactionPolicy {
    /// A tenth, or 20,000 rows: that many take 2 ms to score beside the graph, at 768 dimensions.
    fn default() -> Self {
        Self { share: 0.1, rows: 20_000 }
    }
}

/// Rounds of catching up with the log before updates have to wait for the last one.
const ROUNDS: usize = 8;
/// Bytes of the log that are few enough for the last round.
const LITTLE: u64 = 1 << 20;

/// Changes below which no new version is built.
const LEAST: usize = 100;

impl CompactionPolicy {
    /// Returns `true` if a snapshot has changed that much.
    pub fn is_due(&self, snapshot: &Snapshot) -> bool {
        let share = (self.share * snapshot.kept().rows() as f64) as usize;
        snapshot.burden() > share.max(LEAST).min(self.rows) && !snapshot.is_empty()
    }
}

/// Time between two looks at whether compaction is due, and after one that failed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Returns the threads that build a new version while searches go on: a quarter of the processors.
fn background_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(4)
}

impl IndexWriter {
    /// Compacts whenever `policy` says so, on a thread of its own that ends when the returned value is dropped. A
    /// failure is logged and tried again after a minute; the updates stay in the log.
    ///
    /// # Errors
    /// An I/O error when the system starts no threads.
    pub fn compact_in_background(self: &Arc<Self>, policy: CompactionPolicy) -> std::io::Result<Background> {
        let (writer, mut failed) = (Arc::downgrade(self), None::<Instant>);
        // A pool of its own: work of searches must not wait behind that of a build.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(background_threads()).build();
        let pool = pool.map_err(std::io::Error::other)?;
        Background::every("compaction", LOOK_EVERY, move |stop| {
            let Some(writer) = writer.upgrade() else { return };
            let waits = failed.is_some_and(|at| at.elapsed() < AGAIN_AFTER);
            if waits || !policy.is_due(&writer.live().snapshot()) {
                return;
            }
            tracing::info!("building a new version of the index out of its updates");
            match pool.install(|| writer.compact(background_threads(), stop, &Silent)) {
                Ok(_) => {
                    failed = None;
                    writer.live().log_version();
                }
                Err(CompactError::Build(BuildError::Interrupted)) => {}
                Err(error) => {
                    tracing::error!("the updates stay in the log, no new version was built: {error}");
                    failed = Some(Instant::now());
                }
            }
        })
    }

    /// Builds a new version of what is live, of the same kind, with the same parameters and analyzer, and puts it in
    /// use; none when nothing changed. Searches and updates go on meanwhile: changes that arrive are in the new
    /// version's log.
    ///
    /// `threads` index words, where the index has some; 0 means one for each processor. `stop` gives up.
    ///
    /// # Errors
    /// [`CompactError`]: no passage is left, a full disk, or `stop` was set. The version in use stays.
    pub fn compact(
        &self,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<Option<IndexManifest>, CompactError> {
        let _alone = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, position) = {
            let inner = self.inner()?;
            (inner.state.snapshot(), inner.log.position())
        };
        if snapshot.changes() == 0 {
            return Ok(None);
        }
        if snapshot.is_empty() {
            return Err(CompactError::NothingLeft { path: self.dir.clone() });
        }
        let draft = self.draft(&snapshot, threads, stop, progress)?;
        drop(snapshot);
        let Draft { publisher, staged, manifest, json } = draft;
        publisher.place(staged)?;
        let sha256 = dpr_core::model::sha256_hex(&json);
        // Read back before updates have to wait, and before it is relied on.
        let opened = LoadedIndex::open_version(&self.dir, publisher.next(), &sha256);
        let put_in_use = opened
            .map_err(CompactError::from)
            .and_then(|base| self.put_in_use(base, &publisher, &json, position));
        put_in_use.inspect_err(|_| self.withdraw(&publisher))?;
        publisher.tidy();
        Ok(Some(manifest))
    }

    /// Puts a version that was made of the index as it was at `position` of the log in use, with what arrived since.
    fn put_in_use(
        &self,
        base: LoadedIndex,
        publisher: &Publisher,
        manifest: &[u8],
        position: (u64, u64),
    ) -> Result<(), CompactError> {
        let dir = IndexDir::new(&self.dir);
        let before = self.inner()?.log.path().to_path_buf();
        let mut next = Next::new(base, &dir.log_path(publisher.next()), &before, position)?;
        // Most of it while updates go on, so that they wait for the rest alone.
        for _ in 0..ROUNDS {
            let position = self.inner()?.log.position();
            if next.catch_up(position)? < LITTLE {
                break;
            }
        }
        let mut inner = self.inner()?;
        next.catch_up(inner.log.position())?;
        publisher.switch(manifest, Some(&|_| Ok(()))).inspect_err(|error| {
            // If the pointer was switched all the same, what is acknowledged from now on would be lost with the old log.
            if dir.pointer().is_ok_and(|now| now.version == publisher.next()) {
                inner.log.give_up(error);
            }
        })?;
        let Next { state, log, .. } = next;
        self.live.set(state.snapshot());
        let old = std::mem::replace(&mut *inner, Inner { state, log });
        drop(inner);
        // The old version's memory may take a while to give back: nobody waits for that.
        drop(old);
        Ok(())
    }

    /// Removes a version that was not put in use.
    fn withdraw(&self, publisher: &Publisher) {
        let now = IndexDir::new(&self.dir).pointer();
        if now.is_ok_and(|now| now.version != publisher.next()) {
            publisher.withdraw();
        }
    }

    fn draft(
        &self,
        snapshot: &Snapshot,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<Draft, BuildError> {
        let manifest = &snapshot.base().manifest;
        let options = IndexOptions {
            kind: manifest.kind,
            builder: GraphBuilder::default(),
            storage: manifest.storage,
            hnsw: manifest.hnsw.unwrap_or_default(),
            sparse: manifest.sparse.map(|sparse| SparseOptions { analyzer: sparse.analyzer, threads }),
            stop: Arc::clone(stop),
        };
        let publisher = IndexDir::new(&self.dir).publisher_with(Arc::clone(&self.lock))?;
        let mut draft = Writing::new(publisher, &self.dir, &options)?;
        let passages = snapshot
            .passages()
            .map(|live| live.map(|live| live.0))
            .collect::<Result<Vec<_>, _>>()
            .map_err(OpenError::from)?;
        // From one file to the other: vectors that are not looked at need not be in memory.
        let matrix = draft.stream_vectors(
            manifest.dim,
            passages.len(),
            &mut |out| snapshot.vectors().try_for_each(|vector| rows::write(vector, out)),
            |row| passages[row].id.as_str(),
        )?;
        draft.complete(&manifest.model_fingerprint, &Arc::new(matrix), &passages, &options, progress)
    }
}
