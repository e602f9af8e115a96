//! An index that is searched before all of its files are checked: what a search reads is checked before it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use dpr_core::Embedding;

use super::files::{Files, Searchable};
use crate::deferred::{Damage, Deferred};
use crate::sparse::SparseIndex;
use crate::{
    CancelToken, FileError, IndexKind, IndexManifest, Matrix, OpenError, QueryError, RowSet, ScoredRow,
    Storage, StoredPassages, VectorIndex, exact, hnsw,
};

/// Files of an open index that were not checked when it was opened, and the thread that checks them.
#[derive(Debug)]
pub(super) struct Unchecked {
    damage: Arc<Damage>,
    searchable: Arc<Deferred<Searchable>>,
    sparse: Arc<Deferred<Option<SparseIndex>>>,
    passages: Option<Arc<Deferred<()>>>,
    matrix: Arc<Matrix>,
    is_stopped: Arc<AtomicBool>,
}

impl Unchecked {
    /// Checks the sizes of `files`, and puts off their checksums.
    ///
    /// # Errors
    /// [`FileError::Missing`] and [`FileError::Size`].
    pub(super) fn new(
        files: &Files,
        matrix: &Arc<Matrix>,
        passages: &StoredPassages,
        damage: Arc<Damage>,
    ) -> Result<Self, FileError> {
        files.check_searchable_sizes()?;
        files.check_sparse_sizes()?;
        let (later, vectors) = (files.clone(), Arc::clone(matrix));
        let searchable = Deferred::new(&damage, move || later.searchable(&vectors));
        let later = files.clone();
        let sparse = Deferred::new(&damage, move || {
            later.sparse().map_err(|error| match error {
                OpenError::File(error) => error,
                other => later.corrupt_words(&other),
            })
        });
        Ok(Self {
            damage,
            searchable: Arc::new(searchable),
            sparse: Arc::new(sparse),
            passages: passages.put_off_check(),
            matrix: Arc::clone(matrix),
            is_stopped: Arc::default(),
        })
    }

    /// Returns the record of damage.
    pub(super) fn damage(&self) -> &Damage {
        &self.damage
    }

    pub(super) fn searchable(&self) -> Result<&Searchable, FileError> {
        self.searchable.get()
    }

    pub(super) fn sparse(&self) -> Result<Option<&SparseIndex>, FileError> {
        self.sparse.get().map(Option::as_ref)
    }

    /// Returns the index for searches.
    pub(super) fn index(&self, manifest: &IndexManifest) -> CheckingIndex {
        CheckingIndex {
            searchable: Arc::clone(&self.searchable),
            matrix: Arc::clone(&self.matrix),
            damage: Arc::clone(&self.damage),
            kind: manifest.kind,
            storage: manifest.storage,
            ef_search: manifest.hnsw.map(|params| params.ef_search),
        }
    }

    /// Checks all vectors now.
    pub(super) fn check_vectors(&self) -> Result<(), FileError> {
        self.matrix.rows();
        self.damage.check()
    }

    /// Starts the thread that checks every file, in the order in which searches need them. It ends when `self` is
    /// dropped.
    pub(super) fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let (searchable, sparse) = (Arc::clone(&self.searchable), Arc::clone(&self.sparse));
        let (passages, matrix, damage) =
            (self.passages.clone(), Arc::clone(&self.matrix), Arc::clone(&self.damage));
        let (is_stopped, begun) = (Arc::clone(&self.is_stopped), Instant::now());
        Builder::new().name("index-check".to_owned()).spawn(move || {
            let goes_on = || !is_stopped.load(Ordering::Relaxed);
            // Failures are recorded as damage.
            let _ = searchable.get();
            if goes_on()
                && let Some(passages) = passages
            {
                let _ = passages.get();
            }
            if goes_on() {
                let _ = sparse.get();
            }
            matrix.check_until(&is_stopped);
            if goes_on() && damage.found().is_none() {
                let seconds = begun.elapsed().as_secs_f64();
                tracing::debug!("every file of the index is checked, {seconds:.1} s after it was opened");
            }
        })
    }
}

impl Drop for Unchecked {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// A searchable index whose quantized vectors and graph are checked at the first search, and each vector when it is
/// first read; no search answers from bytes that were not checked.
#[derive(Debug)]
pub(super) struct CheckingIndex {
    searchable: Arc<Deferred<Searchable>>,
    matrix: Arc<Matrix>,
    damage: Arc<Damage>,
    kind: IndexKind,
    storage: Storage,
    /// Candidates that a search of the graph keeps, where there is a graph.
    ef_search: Option<usize>,
}

impl CheckingIndex {
    fn search<T>(
        &self,
        search: impl FnOnce(&dyn VectorIndex) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let (index, _) = self.searchable.get()?;
        let found = search(index.as_ref());
        // Damaged vectors are recorded while they are read.
        self.damage.check()?;
        found
    }
}

impl VectorIndex for CheckingIndex {
    fn dim(&self) -> usize {
        self.matrix.dim()
    }

    fn len(&self) -> usize {
        self.matrix.count()
    }

    fn kind(&self) -> IndexKind {
        self.kind
    }

    fn search_until(
        &self,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        self.search(|index| index.search_until(query, k, allowed, cancel))
    }

    fn cost(&self, queries: usize, k: usize, filtered: bool) -> u64 {
        let shape = (self.len(), self.dim());
        match self.ef_search {
            Some(ef_search) => queries as u64 * hnsw::cost(ef_search, shape, k, filtered),
            None => exact::cost(self.storage, shape, queries, filtered),
        }
    }

    fn search_batch_until(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        self.search(|index| index.search_batch_until(queries, k, cancel))
    }
}
