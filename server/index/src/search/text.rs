//! Search by the question's text, where the server may see it: by operators, and by services that were let in.

use std::fmt;
use std::sync::Arc;

use dpr_core::TextEncoder;

use super::{Backend, Filter, Fusion, HYBRID_DEPTH, Hit, Method, Ranker, SearchError, Searcher};
use crate::sparse::Scoring;
use crate::{CancelToken, VectorIndex as _};
use dpr_data::normalise_question;

/// Encodes questions and searches an index for them, as it is when each is asked.
///
/// Passages that were added since the index was built are found by their vectors and by their words, those that were
/// deleted by neither.
pub struct TextSearcher {
    backend: Arc<dyn Backend>,
    encoder: TextEncoder,
}

impl fmt::Debug for TextSearcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSearcher").field("device", &self.encoder.device_name()).finish_non_exhaustive()
    }
}

impl TextSearcher {
    /// Searches `backend`; `encoder` is of the model it was built by ([`Searcher::check_model`]).
    pub fn new(backend: Arc<dyn Backend>, encoder: TextEncoder) -> Self {
        Self { backend, encoder }
    }

    /// Returns whether the index can be searched by words.
    pub fn has_words(&self) -> bool {
        self.backend.snapshot().is_some_and(|snapshot| snapshot.base().has_sparse())
    }

    /// Returns an estimate of the work of a search, as [`Backend::cost`] does: a word of the question is read in at most
    /// all passages.
    pub fn cost(&self, question: &str, method: Method, k: usize, filter: Option<&Filter>) -> u64 {
        let depth = if method == Method::Hybrid { HYBRID_DEPTH } else { k };
        let vectors = if method.needs_vectors() { self.backend.cost(1, depth, filter) } else { 0 };
        if !method.needs_words() {
            return vectors;
        }
        let rows = self.backend.snapshot().map_or(0, |snapshot| snapshot.len());
        vectors.saturating_add((question.split_whitespace().count() as u64).saturating_mul(rows as u64))
    }

    /// The best `k` passages for `question`, best first.
    ///
    /// # Errors
    /// [`SearchError`]: a blank question, an index without words where `method` needs them, `k` = 0.
    pub fn search(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
    ) -> Result<Vec<Hit>, SearchError> {
        self.search_until(question, method, fusion, k, None, &CancelToken::never())
    }

    /// Searches as [`search`](Self::search) does, among the passages that `filter` allows, until `cancel` says to stop.
    /// A filter leaves scores as they are: hybrid ranking combines the best of both lists that it allows.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), [`SearchError::NothingAllowed`] for a filter that allows no passage, and
    /// [`SearchError::Stopped`].
    pub fn search_until(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        cancel.check()?;
        let question = &normalise_question(question);
        let snapshot = self.backend.snapshot();
        let has_words = snapshot.as_ref().is_some_and(|snapshot| snapshot.base().has_sparse());
        if method.needs_words() && !has_words {
            return Err(SearchError::NoSparse);
        }
        let vectors =
            if method.needs_vectors() { vec![self.encoder.encode_question(question)?] } else { Vec::new() };
        let Some(snapshot) = snapshot else {
            return Ok(self.backend.search_until(&vectors, k, filter, cancel)?.pop().unwrap_or_default());
        };
        let allowed = Filter::allowed(filter, &snapshot, cancel)?;
        let ranker = Ranker {
            words: has_words.then_some(snapshot.as_ref()),
            vectors: Some(snapshot.as_ref()),
            allowed: allowed.as_ref(),
            bm25: Scoring::PAPER,
            depth: HYBRID_DEPTH,
        };
        let rows = ranker.rank_until(method, &[question], &vectors, k, fusion, cancel)?;
        let searcher = Searcher::of(Arc::clone(&snapshot));
        searcher.hits(rows.into_iter().flatten().collect(), cancel)
    }
}
