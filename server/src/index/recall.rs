//! How much of exact search another index finds.

use dpr_core::Embedding;

use super::{IndexError, LoadedIndex, VectorIndex as _};

/// Recall@k of `index` against exact search over the same vectors, in `[0, 1]`, asking with up to `sample` of its
/// own vectors spread evenly.
///
/// A row that scores as high as the last of the exact ones counts as found: equal scores have no true order.
///
/// # Errors
/// Those of [`VectorIndex::search`](super::VectorIndex::search).
pub fn recall_against_exact(index: &LoadedIndex, k: usize, sample: usize) -> Result<f64, IndexError> {
    let matrix = index.matrix();
    let exact = index.exact();
    let step = matrix.count().div_ceil(sample.max(1)).max(1);
    let queries = (0..matrix.count()).step_by(step);
    // A row of zeros is no query.
    let queries: Vec<_> =
        queries.filter_map(|row| Embedding::new(matrix.row(row).to_vec(), matrix.dim()).ok()).collect();
    let (mut found, mut asked) = (0, 0);
    for (truth, got) in exact.search_batch(&queries, k)?.iter().zip(index.index.search_batch(&queries, k)?) {
        let Some(last) = truth.last() else { continue };
        found += got.iter().filter(|row| row.score >= last.score).count().min(truth.len());
        asked += truth.len();
    }
    Ok(if asked == 0 { 1.0 } else { found as f64 / asked as f64 })
}
