//! Compaction: a new version of the passages that are alive, with an empty write-ahead log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use super::catch_up::Next;
use super::commit::Inner;
use super::marker::{self, Marker};
use super::snapshot::Snapshot;
use super::{CompactionPolicy, IndexWriter};
use crate::directory::pointer::Publisher;
use crate::directory::writing::{Draft, Writing};
use crate::sparse::SparseOptions;
use crate::vectors::rows;
use crate::{BuildError, CompactError, IndexDir, IndexManifest, IndexOptions, LoadedIndex, VectorIndex as _};
use dpr_files::progress::{Progress, Silent};
use dpr_files::{Background, lock};

/// Rounds of catching up with the log before updates have to wait for the last one.
const ROUNDS: usize = 8;
/// Bytes of the log that are few enough for the last round.
const LITTLE: u64 = 1 << 20;

/// Time between two looks at whether compaction is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Returns the threads that build a new version while searches go on: a quarter of the processors.
fn background_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(4)
}

impl IndexWriter {
    /// Compacts whenever `policy` says so, on a thread of its own that ends when the returned value is dropped, and
    /// refuses passages while the delta is as large as it may be. After a failure, or where a process was killed in
    /// the middle of a compaction, the next one waits for a minute, and twice as long after each further one, up to a
    /// day; the updates stay in the log.
    ///
    /// # Errors
    /// An I/O error when the system starts no threads.
    pub fn compact_in_background(self: &Arc<Self>, policy: CompactionPolicy) -> std::io::Result<Background> {
        if let Ok(mut inner) = self.inner() {
            inner.limit = policy.max_delta;
        }
        let (writer, mut failed) = (Arc::downgrade(self), None::<(u32, Instant)>);
        // A pool of its own: work of searches must not wait behind that of a build.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(background_threads()).build();
        let pool = pool.map_err(std::io::Error::other)?;
        let (live, mut told) = (Arc::clone(self.live()), false);
        let compaction = Background::every("compaction", LOOK_EVERY, move |stop| {
            let Some(writer) = writer.upgrade() else { return };
            let waits = failed.is_some_and(|(times, at)| at.elapsed() < marker::pause(times));
            if waits || !policy.is_due(&writer.live().snapshot()) {
                return;
            }
            if let Some(wait) = marker::wait(&writer.dir, SystemTime::now()) {
                if !std::mem::replace(&mut told, true) {
                    let seconds = wait.as_secs();
                    tracing::warn!(
                        "compaction waits for {seconds} s: a process was killed in the middle of one"
                    );
                }
                return;
            }
            tracing::info!("building a new version of the index out of its updates");
            let compact = || pool.install(|| writer.compact(background_threads(), stop, &Silent));
            match catch_unwind(AssertUnwindSafe(compact)) {
                Ok(Ok(_)) => {
                    failed = None;
                    writer.live().log_version();
                }
                Ok(Err(CompactError::Build(BuildError::Interrupted))) => {}
                outcome => {
                    let error = match outcome {
                        Ok(Err(error)) => error.to_string(),
                        _ => "it panicked".to_owned(),
                    };
                    tracing::error!("the updates stay in the log, no new version was built: {error}");
                    failed = Some((failed.map_or(1, |(times, _)| times + 1), Instant::now()));
                    writer.live().health.compaction_failed();
                }
            }
        })?;
        live.health.set_background(compaction.state());
        Ok(compaction)
    }

    /// Builds a new version of what is live, of the same kind, with the same parameters, builder and analyzer, and puts
    /// it in use; none when nothing changed. Searches and updates go on meanwhile: changes that arrive are in the new
    /// version's log.
    ///
    /// `threads` index words, where the index has some; 0 means one for each processor. `stop` gives up.
    ///
    /// # Errors
    /// [`CompactError`]: no passage is left, a full disk, an update that panicked, or `stop` was set. The version in
    /// use stays.
    pub fn compact(
        &self,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<Option<IndexManifest>, CompactError> {
        let _alone = lock(&self.compacting);
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
        self.lock.check()?;
        let _marker = Marker::begin(&self.dir, SystemTime::now())?;
        let draft = self.draft(&snapshot, threads, stop, progress)?;
        drop(snapshot);
        let Draft { publisher, staged, manifest, json } = draft;
        publisher.place(staged)?;
        let sha256 = dpr_core::model::sha256_hex(&json);
        // Read back before updates have to wait, and before it is relied on.
        let opened = LoadedIndex::open_version(&self.dir, publisher.next(), &sha256);
        let put_in_use = opened.map_err(CompactError::from).and_then(|base| {
            self.preparation.run(&base, stop)?;
            self.live.arrivals.tell(&base);
            self.put_in_use(base, &publisher, &json, position)
        });
        put_in_use.inspect_err(|_| publisher.withdraw())?;
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
            // If the pointer was switched all the same, what is acknowledged from now on would be lost with the old
            // log.
            if !publisher.is_not_in_use() {
                inner.log.give_up(error);
                inner.record_health(&self.live);
            }
        })?;
        let Next { state, log, .. } = next;
        self.live.set(state.snapshot());
        let limit = inner.limit;
        let old = std::mem::replace(&mut *inner, Inner { state, log, limit });
        inner.record_health(&self.live);
        drop(inner);
        // The old version's memory may take a while to give back: nobody waits for that.
        drop(old);
        Ok(())
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
            builder: manifest.builder,
            storage: manifest.storage,
            hnsw: manifest.hnsw.unwrap_or_default(),
            sparse: manifest.sparse.map(|sparse| SparseOptions { analyzer: sparse.analyzer, threads }),
            stop: Arc::clone(stop),
        };
        // All vectors are read below: damage ends this before anything is written.
        snapshot.base().matrix()?;
        let publisher = IndexDir::new(&self.dir).publisher_with(Arc::clone(&self.lock))?;
        let mut draft = Writing::new(publisher, &self.dir, &options)?;
        // From one file to the other: vectors and passages that are not looked at need not be in memory.
        let matrix = draft.stream_vectors(
            manifest.dim,
            snapshot.len(),
            &mut |out| {
                let mut vectors = snapshot.vectors();
                vectors.try_for_each(|vector| rows::write(vector.map_err(std::io::Error::other)?, out))
            },
            |row| {
                snapshot.stream().nth(row).map_or_else(String::new, |passage| match passage {
                    Ok(passage) => passage.id.clone(),
                    Err(error) => error.to_string(),
                })
            },
        )?;
        draft.complete(&manifest.model_fingerprint, &Arc::new(matrix), snapshot, &options, progress)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::Ordering;

    use super::super::DeltaLimit;
    use super::super::testing::{build, build_kind, build_with, new};
    use super::*;
    use crate::directory::pointer::COMPACTING;
    use crate::{GraphBuilder, HnswParams, IndexKind};

    /// Looks for a file whenever progress is reported.
    struct Look {
        path: PathBuf,
        seen: AtomicBool,
    }

    impl Progress for Look {
        fn start(&self, _: &'static str, _: &'static str, _: u64) {
            self.seen.store(self.path.exists(), Ordering::SeqCst);
        }

        fn advance(&self, _: u64) {}
        fn finish(&self) {}
    }

    #[test]
    fn a_version_whose_preparation_is_stopped_is_not_put_in_use() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = IndexWriter::open(root.path(), "a test").unwrap().with_preparation(|_, stop| {
            stop.store(true, Ordering::Relaxed);
            Err("told to stop".into())
        });
        writer.put(vec![new("a", 1)]).unwrap();
        let stopped = writer.compact(1, &Arc::default(), &Silent).unwrap_err();
        assert!(matches!(stopped, CompactError::Build(BuildError::Interrupted)), "{stopped}");
        let dir = IndexDir::new(root.path());
        assert_eq!(dir.current_version().unwrap(), 1);
        assert!(!dir.version_path(2).exists() && !dir.log_path(2).exists(), "it is withdrawn");
        assert_eq!(writer.live().snapshot().changes(), 1);
    }

    #[test]
    fn the_end_of_a_compaction_that_is_told_to_stop_can_be_waited_for_and_is_no_kill() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let (begun, has_begun) = std::sync::mpsc::channel();
        let writer =
            Arc::new(IndexWriter::open(root.path(), "a test").unwrap().with_preparation(move |_, stop| {
                begun.send(())?;
                while !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                Ok(())
            }));
        writer.put(vec![new("a", 1)]).unwrap();
        let max_delta = DeltaLimit { rows: 1, ..DeltaLimit::NONE };
        let policy = CompactionPolicy { max_delta, ..CompactionPolicy::default() };
        let compaction = writer.compact_in_background(policy).unwrap();
        has_begun.recv_timeout(Duration::from_secs(50)).unwrap();
        let background = writer.live().background().unwrap();
        assert!(!background.wait_for_end(Duration::ZERO) && root.path().join(COMPACTING).exists());
        drop(compaction);
        assert!(background.wait_for_end(Duration::from_secs(50)));
        let left = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: std::collections::BTreeSet<_> = left.collect();
        assert_eq!(left, [".lock", "current", "updates-1.log", "v-1"].map(Into::into).into());
    }

    #[test]
    fn a_compaction_builds_the_graph_by_the_builder_of_the_index() {
        let root = tempfile::tempdir().unwrap();
        let hnsw = HnswParams { m: 6, ef_construction: 40, ef_search: 50 };
        for builder in [GraphBuilder::Parallel, GraphBuilder::HnswRs] {
            let [live, built] = ["live", "built"].map(|name| root.path().join(format!("{name}-{builder:?}")));
            let options = IndexOptions { kind: IndexKind::Hnsw, builder, hnsw, ..IndexOptions::default() };
            build_with(&live, 300, &options);
            let writer = IndexWriter::open(&live, "a test").unwrap();
            writer.put(vec![new("p300", 300)]).unwrap();
            let compacted = writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
            assert_eq!((compacted.kind, compacted.hnsw), (IndexKind::Hnsw, Some(hnsw)));
            // The same passages at once: the same files, the graph among them.
            assert_eq!(compacted, build_with(&built, 301, &options));
            assert_eq!(LoadedIndex::open(&live).unwrap().manifest.builder, builder, "read back");
            let json = fs_err::read_to_string(live.join("v-2/manifest.json")).unwrap();
            let is_named = json.contains("\"builder\": \"hnsw_rs\"");
            assert_eq!(is_named, builder == GraphBuilder::HnswRs, "{json}");
            assert_eq!(json.contains("builder"), is_named, "the default is not written: {json}");
        }
    }

    #[test]
    fn the_marker_is_there_while_a_compaction_runs_and_not_after_it_ended_or_failed() {
        let root = tempfile::tempdir().unwrap();
        build_kind(root.path(), 300, IndexKind::Hnsw);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        writer.put(vec![new("a", 1)]).unwrap();
        let look = Look { path: root.path().join(COMPACTING), seen: AtomicBool::new(false) };
        writer.compact(1, &Arc::default(), &look).unwrap().unwrap();
        assert!(look.seen.load(Ordering::SeqCst) && !look.path.exists());

        writer.put(vec![new("b", 1)]).unwrap();
        let stopped = writer.compact(1, &Arc::new(AtomicBool::new(true)), &Silent).unwrap_err();
        assert!(matches!(stopped, CompactError::Build(BuildError::Interrupted)), "{stopped}");
        assert!(!look.path.exists());
        assert_eq!(writer.live().health().log_broken, None);
    }
}
