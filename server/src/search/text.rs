//! Questions as text, for callers on this side: operators, and services that were let in.

use std::fmt;
use std::sync::Arc;

use dpr_core::TextEncoder;

use super::{Fusion, HYBRID_DEPTH, Hit, Method, Ranker, SearchError, Searcher};
use crate::data::normalise_question;
use crate::sparse::Scoring;

/// Encodes questions and searches an index for them.
pub struct TextSearcher {
    searcher: Arc<Searcher>,
    encoder: TextEncoder,
}

impl fmt::Debug for TextSearcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSearcher").field("device", &self.encoder.device_name()).finish_non_exhaustive()
    }
}

impl TextSearcher {
    /// Searches the index of `searcher`; `encoder` is of the model it was built by ([`Searcher::check_model`]).
    pub fn new(searcher: Arc<Searcher>, encoder: TextEncoder) -> Self {
        Self { searcher, encoder }
    }

    /// Whether the index can be searched by words.
    pub fn has_words(&self) -> bool {
        self.searcher.index().sparse().is_some()
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
        let (index, question) = (self.searcher.index(), &normalise_question(question));
        if method.needs_words() && !self.has_words() {
            return Err(SearchError::NoSparse);
        }
        let vectors =
            if method.needs_vectors() { vec![self.encoder.encode_question(question)?] } else { Vec::new() };
        let ranker = Ranker {
            words: index.sparse(),
            vectors: Some(index.index.as_ref()),
            bm25: Scoring::PAPER,
            depth: HYBRID_DEPTH,
        };
        let rows = ranker.rank(method, &[question], &vectors, k, fusion)?;
        Ok(rows.into_iter().flatten().map(|hit| self.searcher.hit(hit)).collect())
    }
}
