//! What the HTTP layer asks of the search side: two small traits, so that the routes are tested
//! without an index on disk.

use dpr_core::Embedding;

use super::index::IndexBody;
use crate::search::{Fusion, Hit, Method, SearchError, Searcher, TextSearcher};

/// Finds passages for question vectors. One instance serves all requests, from many threads at once.
pub trait PassageSearch: Send + Sync + 'static {
    /// The `k` best passages for each vector, best first. Runs on the calling thread.
    ///
    /// # Errors
    /// Those of the search itself; what the client can get wrong has been checked before.
    fn search(&self, vectors: &[Embedding], k: usize) -> Result<Vec<Vec<Hit>>, SearchError>;

    /// The index, as `GET /v1/index` describes it; its `model` and `dim` are what vectors are checked by.
    fn describe(&self) -> IndexBody;
}

impl PassageSearch for Searcher {
    fn search(&self, vectors: &[Embedding], k: usize) -> Result<Vec<Vec<Hit>>, SearchError> {
        vectors.iter().map(|vector| Searcher::search(self, vector, k)).collect()
    }

    fn describe(&self) -> IndexBody {
        let manifest = &self.index().manifest;
        IndexBody {
            count: self.index().index.len(),
            dim: self.dim(),
            kind: manifest.kind.to_string(),
            model: self.model_fingerprint().to_owned(),
            metric: manifest.metric.clone(),
            version: self.index().version().to_owned(),
        }
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
