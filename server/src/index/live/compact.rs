//! A new version out of what is live.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use super::Updater;
use super::append::LogWriter;
use super::log::write_new;
use super::sector::{FRAMES, Header};
use super::snapshot::Snapshot;
use super::state::State;
use super::update::Inner;
use crate::index::build::{Draft, write_version};
use crate::index::{
    GraphBuilder, IndexDir, IndexError, IndexManifest, IndexOptions, LoadedIndex, Matrix, VectorIndex as _,
};
use crate::progress::Progress;
use crate::sparse::SparseOptions;

/// When changes are many enough to build a new version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// Rows added and removed, as a share of the passages built in.
    pub share: f64,
    /// Rows added and removed, whatever the share.
    pub rows: usize,
}

impl Default for Compaction {
    /// A tenth, or 20,000 rows: that many take 2 ms to score beside the graph, at 768 dimensions.
    fn default() -> Self {
        Self { share: 0.1, rows: 20_000 }
    }
}

/// Changes below which a new version is not worth its files.
const LEAST: usize = 100;

impl Compaction {
    /// Whether a snapshot has changed that much.
    pub fn is_due(&self, snapshot: &Snapshot) -> bool {
        let share = (self.share * snapshot.kept().rows() as f64) as usize;
        snapshot.burden() > share.max(LEAST).min(self.rows) && !snapshot.is_empty()
    }
}

impl Updater {
    /// Builds a new version of what is live, of the same kind, with the same parameters and analyzer, and puts it in
    /// use; none when nothing changed. Searches and updates go on meanwhile: what arrives is in the new version's log.
    ///
    /// `threads` index words, where the index has some; 0 means one for each processor. `stop` gives up.
    ///
    /// # Errors
    /// [`IndexError`]: no passage is left, a full disk, or [`IndexError::Interrupted`]. The version in use stays.
    pub fn compact(
        &self,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<Option<IndexManifest>, IndexError> {
        let _alone = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, (start, before)) = {
            let inner = self.inner()?;
            (inner.state.snapshot(), inner.log.position())
        };
        if snapshot.changes() == 0 {
            return Ok(None);
        }
        if snapshot.is_empty() {
            return Err(IndexError::NothingLeft { path: self.dir.clone() });
        }
        let draft = self.draft(&snapshot, threads, stop, progress)?;
        drop(snapshot);
        let Draft { publisher, staged, manifest, json } = draft;
        publisher.place(staged)?;
        let sha256 = dpr_core::model::sha256_hex(&json);
        // Read back before anybody is asked to wait, and before it is relied on.
        let opened = LoadedIndex::open_version(&self.dir, publisher.next(), &sha256);
        let base = opened.inspect_err(|_| publisher.withdraw())?;
        let mut state = State::new(Arc::new(base));

        let mut inner = self.inner()?;
        let frames = inner.log.tail(start).inspect_err(|_| publisher.withdraw())?;
        let changes = inner.log.position().1 - before;
        let header = Header { base: sha256, dim: manifest.dim };
        let switched = publisher.switch(
            &json,
            Some(&|path| write_new(path, &header, &mut frames.as_slice(), frames.len() as u64, changes)),
        );
        let path = IndexDir::new(&self.dir).log_path(publisher.next());
        let opened = switched
            .and_then(|_| LogWriter::open(&path, header.clone(), &mut |changes| state.apply(changes)));
        match opened {
            Ok(log) => {
                debug_assert_eq!(log.position().0, FRAMES + frames.len() as u64);
                self.live.set(state.snapshot());
                let old = std::mem::replace(&mut *inner, Inner { state, log });
                drop(inner);
                // The old version's memory may take a while to give back: nobody waits for that.
                drop(old);
                publisher.tidy();
                Ok(Some(manifest))
            }
            Err(error) => {
                // If the pointer was switched all the same, what is acknowledged from now on would be lost with the
                // old log.
                let now = IndexDir::new(&self.dir).pointer();
                if now.is_ok_and(|now| now.version == publisher.next()) {
                    inner.log.give_up(&error);
                }
                Err(error)
            }
        }
    }

    fn draft(
        &self,
        snapshot: &Snapshot,
        threads: usize,
        stop: &Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<Draft, IndexError> {
        let manifest = &snapshot.base().manifest;
        let mut passages = Vec::with_capacity(snapshot.len());
        let mut rows = Vec::with_capacity(snapshot.len() * manifest.dim);
        for (passage, vector) in snapshot.passages() {
            passages.push(passage.clone());
            rows.extend_from_slice(vector);
        }
        let matrix = Matrix::new(rows, passages.len(), manifest.dim, |row| passages[row].id.as_str())?;
        let options = IndexOptions {
            kind: manifest.kind,
            builder: GraphBuilder::default(),
            storage: manifest.storage,
            hnsw: manifest.hnsw.unwrap_or_default(),
            sparse: manifest.sparse.map(|sparse| SparseOptions { analyzer: sparse.analyzer, threads }),
            stop: Arc::clone(stop),
        };
        let publisher = IndexDir::new(&self.dir).publisher_with(Arc::clone(&self.lock))?;
        let model = &manifest.model_fingerprint;
        write_version(publisher, &self.dir, model, &Arc::new(matrix), &passages, &options, progress)
    }
}
