//! What the HTTP layer asks of text search: a small trait, so that the routes are tested without an encoder.

use dpr_index::search::{Fusion, Hit, Method, SearchError, TextSearcher};

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
