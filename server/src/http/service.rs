//! What the HTTP layer asks of the search side: small traits, so that the routes are tested without an index on
//! disk.

use std::sync::Arc;

use dpr_core::Embedding;

use super::index::IndexBody;
use crate::data::Passage;
use crate::index::milvus::MilvusIndex;
use crate::index::{IndexManifest, LiveIndex, Put, Snapshot, VectorIndex as _};
use crate::search::{Filter, Fusion, Hit, Method, SearchError, Searcher, TextSearcher};
use crate::update::{PassageUpdater, UpdateError};

/// Finds passages for question vectors. One instance serves all requests, from many threads at once.
pub trait PassageSearch: Send + Sync + 'static {
    /// The `k` best passages for each vector, best first, of those that `filter` allows. Runs on the calling thread.
    ///
    /// # Errors
    /// Those of the search itself; what the client can get wrong has been checked before, but for a filter that allows
    /// none.
    fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError>;

    /// The index, as `GET /v1/index` describes it; its `model` and `dim` are what vectors are checked by.
    fn describe(&self) -> IndexBody;
}

impl PassageSearch for LiveIndex {
    fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        search_in(&self.snapshot(), vectors, k, filter)
    }

    fn describe(&self) -> IndexBody {
        let snapshot = self.snapshot();
        let (base, manifest) = (snapshot.base(), &snapshot.base().manifest);
        IndexBody {
            count: snapshot.len(),
            dim: manifest.dim,
            kind: manifest.kind.to_string(),
            model: manifest.model_fingerprint.clone(),
            metric: manifest.metric.clone(),
            version: base.version().to_owned(),
            number: base.number(),
            added: snapshot.added(),
            removed: snapshot.removed(),
            changes: snapshot.changes(),
        }
    }
}

impl PassageSearch for MilvusIndex {
    fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        let all = Filter::default();
        let Filter { ids, titles } = filter.unwrap_or(&all);
        let found = Self::search(self, vectors, k, ids, titles)?;
        if filter.is_some() && found.iter().all(Vec::is_empty) {
            return Err(SearchError::NothingWanted);
        }
        Ok(found.into_iter().map(|found| found.into_iter().map(Hit::from).collect()).collect())
    }

    fn describe(&self) -> IndexBody {
        let described = self.described();
        IndexBody {
            count: self.count(),
            dim: described.dim,
            kind: "milvus".to_owned(),
            model: described.model_fingerprint.clone(),
            metric: IndexManifest::INNER_PRODUCT.to_owned(),
            version: self.version().to_owned(),
            // Milvus changes a collection in place.
            number: 1,
            added: 0,
            removed: 0,
            changes: 0,
        }
    }
}

/// Searches an index as it was at one moment: all vectors of a request in the same.
pub(super) fn search_in(
    snapshot: &Arc<Snapshot>,
    vectors: &[Embedding],
    k: usize,
    filter: Option<&Filter>,
) -> Result<Vec<Vec<Hit>>, SearchError> {
    let searcher = Searcher::of(Arc::clone(snapshot));
    match filter.map(|filter| filter.rows(snapshot)).transpose()? {
        None => vectors.iter().map(|vector| searcher.search(vector, k)).collect(),
        Some(wanted) => vectors.iter().map(|vector| searcher.search_among(vector, k, &wanted)).collect(),
    }
}

/// Finds passages for questions sent as text, where the operator lets them in.
pub trait TextSearch: Send + Sync + 'static {
    /// The `k` best passages, best first. Runs on the calling thread.
    ///
    /// # Errors
    /// [`SearchError`]: a blank question, a method that the index was not built for.
    fn search_text(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
    ) -> Result<Vec<Hit>, SearchError>;
}

impl TextSearch for TextSearcher {
    fn search_text(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
    ) -> Result<Vec<Hit>, SearchError> {
        self.search(question, method, fusion, k)
    }
}

/// Adds and deletes passages of the index that is searched, where the operator lets them in.
pub trait PassageUpdates: Send + Sync + 'static {
    /// Adds passages, or puts them in the place of those that have their ids; those without a vector are encoded. Runs
    /// on the calling thread. When it returns, the change is on disk and in every search that begins.
    ///
    /// # Errors
    /// [`UpdateError`]; then nothing has changed.
    fn put(&self, passages: Vec<(Passage, Option<Embedding>)>) -> Result<Put, UpdateError>;

    /// Deletes passages by their ids, likewise; how many.
    ///
    /// # Errors
    /// As [`PassageUpdates::put`].
    fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError>;
}

impl PassageUpdates for PassageUpdater {
    fn put(&self, passages: Vec<(Passage, Option<Embedding>)>) -> Result<Put, UpdateError> {
        Self::put(self, passages)
    }

    fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        Self::delete(self, ids)
    }
}
