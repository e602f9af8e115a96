//! The options of inverted indexes, and the trait of what can be searched by words.

use super::{Analyzer, Scoring, SparseError};
use crate::ranking::ScoredRow;
use crate::{CancelToken, RowSet};

/// The options of building an inverted index.
#[derive(Clone, Copy, Debug)]
pub struct SparseOptions {
    /// The analyzer by which text becomes terms.
    pub analyzer: Analyzer,
    /// Threads that analyse and collect postings, 64 at most; 0 means one for each processor.
    pub threads: usize,
}

/// Passages that can be searched by words.
pub trait WordIndex: std::fmt::Debug + Send + Sync {
    /// The best `k` passages for each question, in their order, each list best first; passages that share no term with
    /// a question are not found.
    ///
    /// # Errors
    /// The errors of [`SparseIndex`](super::SparseIndex).
    fn search_batch(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        self.search_batch_until(questions, k, scoring, None, &CancelToken::never())
    }

    /// Searches as [`search_batch`](Self::search_batch) does, among the rows of `allowed` alone where it is given,
    /// until `cancel` says to stop. Scores are those of a search among all passages; returns fewer than `k` only where
    /// fewer of `allowed` share a term with the question.
    ///
    /// # Errors
    /// The errors of [`search_batch`](Self::search_batch), and [`SparseError::Stopped`].
    fn search_batch_until(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError>;
}
