//! Recall against exact search.

use dpr_core::Embedding;

use super::{ExactIndex, LoadedIndex, Matrix, QueryError, ScoredRow, VectorIndex as _};

/// Recall@k of `index` against exact search over the same vectors, in `[0, 1]`, asking with up to `questions` of its
/// own vectors spread evenly.
///
/// A row that scores as high as the last of the exact ones counts as found: equal scores have no true order.
///
/// # Errors
/// The errors of [`VectorIndex::search`](super::VectorIndex::search).
pub fn recall_against_exact(index: &LoadedIndex, k: usize, questions: usize) -> Result<f64, QueryError> {
    let queries = sample(index.matrix(), questions);
    let truth = Truth::of(&index.exact(), &queries, k)?;
    Ok(truth.recall(&index.index.search_batch(&queries, k)?))
}

/// Up to `count` rows, spread evenly, as questions.
pub(super) fn sample(matrix: &Matrix, count: usize) -> Vec<Embedding> {
    let step = matrix.count().div_ceil(count.max(1)).max(1);
    let rows = (0..matrix.count()).step_by(step);
    // A row of zeros cannot be a query.
    rows.filter_map(|row| Embedding::new(matrix.row(row).to_vec(), matrix.dim()).ok()).collect()
}

/// The results of exact search for some queries: the truth that recall is measured by.
pub(super) struct Truth(Vec<Vec<ScoredRow>>);

impl Truth {
    pub(super) fn of(exact: &ExactIndex, queries: &[Embedding], k: usize) -> Result<Self, QueryError> {
        exact.search_batch(queries, k).map(Self)
    }

    /// Returns the share of these results that is in `found`, a list for each query.
    pub(super) fn recall(&self, found: &[Vec<ScoredRow>]) -> f64 {
        let (mut hits, mut all) = (0, 0);
        for (truth, found) in self.0.iter().zip(found) {
            let Some(last) = truth.last() else { continue };
            hits += found.iter().filter(|row| row.score >= last.score).count().min(truth.len());
            all += truth.len();
        }
        if all == 0 { 1.0 } else { hits as f64 / all as f64 }
    }
}
