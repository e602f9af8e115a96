//! Recall of an approximate index against an exact one.

use serde::Serialize;

use dpr_index::{ScoredRow, rows_found};

/// The share of the true nearest passages that an index finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recall {
    /// Passages looked at.
    pub k: usize,
    /// Mean share of the exact first `k` among the first `k` found, from 0 to 1.
    pub mean: f64,
    /// Share of the queries for which all of them were found.
    pub perfect: f64,
    /// The worst query's share.
    pub worst: f64,
}

/// Returns recall@k of `found` against `exact`, a list of rows for each query in both, best first.
///
/// Found is what [`rows_found`] counts: which of two rows with equal scores comes first says nothing about the index.
/// An empty input has recall 1.
pub fn recall(found: &[Vec<ScoredRow>], exact: &[Vec<ScoredRow>], k: usize) -> Recall {
    let shares: Vec<f64> = found.iter().zip(exact).map(|(found, exact)| share(found, exact, k)).collect();
    if shares.is_empty() {
        return Recall { k, mean: 1.0, perfect: 1.0, worst: 1.0 };
    }
    let count = shares.len() as f64;
    Recall {
        k,
        mean: shares.iter().sum::<f64>() / count,
        perfect: shares.iter().filter(|share| **share >= 1.0).count() as f64 / count,
        worst: shares.iter().copied().fold(1.0, f64::min),
    }
}

fn share(found: &[ScoredRow], exact: &[ScoredRow], k: usize) -> f64 {
    let exact = &exact[..k.min(exact.len())];
    if exact.is_empty() {
        return 1.0;
    }
    rows_found(exact, found.iter().take(k).map(|row| row.score)) as f64 / exact.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(usize, f32)]) -> Vec<ScoredRow> {
        list.iter().map(|(row, score)| ScoredRow { row: *row, score: *score }).collect()
    }

    #[test]
    fn recall_is_the_share_of_the_true_nearest() {
        let exact = vec![rows(&[(1, 9.0), (2, 8.0), (3, 7.0)]), rows(&[(4, 3.0), (5, 2.0), (6, 1.0)])];
        let found = vec![rows(&[(1, 9.0), (2, 8.0), (3, 7.0)]), rows(&[(4, 3.0), (7, 0.5), (8, 0.1)])];
        let report = recall(&found, &exact, 2);
        assert_eq!(report, Recall { k: 2, mean: 0.75, perfect: 0.5, worst: 0.5 });
    }

    #[test]
    fn an_equal_score_in_another_row_is_no_miss() {
        let exact = vec![rows(&[(1, 9.0), (2, 8.0)])];
        let found = vec![rows(&[(1, 9.0), (3, 8.0)])];
        assert_eq!(recall(&found, &exact, 2).mean, 1.0);
    }

    #[test]
    fn a_small_index_has_fewer_than_k() {
        let exact = vec![rows(&[(1, 9.0)])];
        assert_eq!(recall(&exact, &exact, 20).mean, 1.0);
        assert_eq!(recall(&[rows(&[])], &exact, 20).mean, 0.0);
    }
}
