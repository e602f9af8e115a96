//! Recall against exact search.

use dpr_core::Embedding;

use super::{ExactIndex, LoadedIndex, Matrix, QueryError, ScoredRow, VectorIndex as _};

/// Results that recall looks at unless told otherwise: what the DPR paper's top-20 needs.
pub const RECALL_DEPTH: usize = 20;

/// Returns how many rows of `exact`, the results of exact search, best first, are among those with the scores `found`.
///
/// A row that scores as high as the last of the exact ones counts as found: equal scores have no true order.
///
/// ```
/// use dpr_index::{ScoredRow, rows_found};
///
/// let exact = [ScoredRow { row: 1, score: 9.0 }, ScoredRow { row: 2, score: 8.0 }];
/// assert_eq!(rows_found(&exact, [9.0, 8.0]), 2);
/// assert_eq!(rows_found(&exact, [9.0, 7.5]), 1);
/// ```
pub fn rows_found(exact: &[ScoredRow], found: impl IntoIterator<Item = f32>) -> usize {
    let Some(last) = exact.last() else { return 0 };
    found.into_iter().filter(|score| *score >= last.score).count().min(exact.len())
}

/// Recall@k of `index` against exact search over the same vectors, in `[0, 1]`, asking with up to `questions` of its
/// own vectors spread evenly; found is what [`rows_found`] counts.
///
/// # Errors
/// The errors of [`VectorIndex::search`](super::VectorIndex::search).
pub fn recall_against_exact(index: &LoadedIndex, k: usize, questions: usize) -> Result<f64, QueryError> {
    let queries = sample(index.matrix()?, questions);
    let truth = Truth::of(&index.exact()?, &queries, k)?;
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
            hits += rows_found(truth, found.iter().map(|row| row.score));
            all += truth.len();
        }
        if all == 0 { 1.0 } else { hits as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(scores: &[f32]) -> Vec<ScoredRow> {
        scores.iter().enumerate().map(|(row, score)| ScoredRow { row, score: *score }).collect()
    }

    #[test]
    fn a_row_that_scores_as_the_last_exact_one_counts_and_no_more_count_than_there_are() {
        let exact = rows(&[9.0, 8.0, 7.0]);
        assert_eq!(rows_found(&exact, [9.0, 8.0, 7.0]), 3);
        assert_eq!(rows_found(&exact, [9.0, 7.0, 6.9]), 2);
        assert_eq!(rows_found(&exact, [7.0; 5]), 3);
        assert_eq!(rows_found(&exact, []), 0);
        assert_eq!(rows_found(&[], [9.0]), 0);
    }

    #[test]
    fn recall_is_the_share_found_of_all_that_exact_search_finds() {
        let truth = Truth(vec![rows(&[9.0, 8.0]), rows(&[3.0, 2.0]), Vec::new()]);
        assert_eq!(truth.recall(&[rows(&[9.0, 8.0]), rows(&[3.0, 1.0]), Vec::new()]), 0.75);
        assert_eq!(Truth(Vec::new()).recall(&[]), 1.0);
    }
}
