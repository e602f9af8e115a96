//! A new version out of what is live.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use super::Updater;
use super::next::Next;
use super::snapshot::Snapshot;
use super::update::Inner;
use crate::index::build::{Draft, write_version};
use crate::index::store::Publisher;
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

/// Times that the log is caught up with before updates are asked to wait, and bytes that are worth no other time.
const ROUNDS: usize = 8;
const LITTLE: u64 = 1 << 20;

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
        let (snapshot, position) = {
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
        let put_in_use = opened.and_then(|base| self.put_in_use(base, &publisher, &json, position));
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
    ) -> Result<(), IndexError> {
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
    ) -> Result<Draft, IndexError> {
        let manifest = &snapshot.base().manifest;
        let mut passages = Vec::with_capacity(snapshot.len());
        let mut rows = Vec::with_capacity(snapshot.len() * manifest.dim);
        for live in snapshot.passages() {
            let (passage, vector) = live?;
            passages.push(passage);
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
