//! Text search for the HTTP layer: a small trait, so that the routes are tested without an encoder.

use dpr_index::CancelToken;
use dpr_index::search::{Filter, Fusion, Hit, Method, SearchError, TextSearcher};

/// Finds passages for questions sent as text, where the operator lets them in.
pub trait TextSearch: Send + Sync + 'static {
    /// Returns the `k` best passages among those that `filter` allows, best first. Runs on the calling thread, until
    /// `cancel` says to stop.
    ///
    /// # Errors
    /// [`SearchError`]: a blank question, a method that the index was not built for, a filter that allows no passage,
    /// [`SearchError::Stopped`].
    fn search_text(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError>;

    /// Returns the method of searches that name none.
    fn default_method(&self) -> Method {
        Method::Hybrid
    }

    /// Returns an estimate of the work of a search, as [`Backend::cost`](dpr_index::search::Backend::cost) does.
    fn cost(&self, _question: &str, _method: Method, _k: usize, _filter: Option<&Filter>) -> u64 {
        0
    }
}

impl TextSearch for TextSearcher {
    fn search_text(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        self.search_until(question, method, fusion, k, filter, cancel)
    }

    fn default_method(&self) -> Method {
        if self.has_words() { Method::Hybrid } else { Method::Dense }
    }

    fn cost(&self, question: &str, method: Method, k: usize, filter: Option<&Filter>) -> u64 {
        Self::cost(self, question, method, k, filter)
    }
}
