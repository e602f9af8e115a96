//! Fusion of a sparse and a dense ranking.

use std::collections::HashMap;

use crate::ranking::{Candidate, ScoredRow, TopK};

/// Passages of each list that are combined unless said otherwise (paper §5: the union of both top-2000).
pub const HYBRID_DEPTH: usize = 2000;

/// The rule of fusion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fusion {
    /// `BM25 + lambda * sim` (paper §5, lambda 1.1), lambda at least 0. A passage that one list lacks gets that list's
    /// least score; where the sparse list ends before it is full, it gets 0, since it shares no word with the question.
    /// The best lambda depends on how long the vectors are: for those of length 1 it is ten times the paper's.
    Linear {
        /// Weight of the inner product.
        lambda: f32,
    },
    /// Sum of `1 / (constant + rank)`, which needs no scores (Cormack et al. 2009, constant 60).
    ReciprocalRank {
        /// Added to every rank; the greater it is, the less the first ranks count.
        constant: f32,
    },
}

impl Fusion {
    /// Linear fusion with the paper's weight (§5).
    pub const PAPER: Self = Self::Linear { lambda: 1.1 };
    /// Reciprocal rank fusion with the constant of Cormack et al.
    pub const RECIPROCAL: Self = Self::ReciprocalRank { constant: 60.0 };
}

/// Returns the best `k` rows of the union of two rankings, best first, equal scores by row. `depth` is how many rows
/// each list was asked for.
pub fn fuse(
    sparse: &[ScoredRow],
    dense: &[ScoredRow],
    fusion: Fusion,
    depth: usize,
    k: usize,
) -> Vec<ScoredRow> {
    let (from_sparse, from_dense) = match fusion {
        Fusion::Linear { lambda } => {
            let mut from_sparse = weighted(sparse, 1.0);
            if sparse.len() < depth {
                from_sparse.missing = 0.0;
            }
            (from_sparse, weighted(dense, lambda))
        }
        Fusion::ReciprocalRank { constant } => (reciprocal(sparse, constant), reciprocal(dense, constant)),
    };
    let mut sums: HashMap<usize, f32> = HashMap::with_capacity(sparse.len() + dense.len());
    for (list, scores) in [(sparse, &from_sparse), (dense, &from_dense)] {
        for (hit, score) in list.iter().zip(&scores.ranked) {
            // Every row starts with both lists' scores of missing rows; where a list has it, that is replaced.
            *sums.entry(hit.row).or_insert(from_sparse.missing + from_dense.missing) +=
                score - scores.missing;
        }
    }
    let mut top = TopK::new(k.min(sums.len()));
    for (row, score) in sums {
        // Rows of an index are below u32::MAX.
        if let Ok(row) = u32::try_from(row) {
            top.offer(Candidate { score, row });
        }
    }
    top.into_rows(k)
}

/// The scores that a list gives to its rows, and the score of a row that is not in it.
struct Scores {
    ranked: Vec<f32>,
    missing: f32,
}

fn weighted(list: &[ScoredRow], weight: f32) -> Scores {
    let ranked: Vec<f32> = list.iter().map(|hit| weight * hit.score).collect();
    let missing = ranked.iter().copied().reduce(f32::min).unwrap_or(0.0);
    Scores { ranked, missing }
}

fn reciprocal(list: &[ScoredRow], constant: f32) -> Scores {
    Scores { ranked: (1..=list.len()).map(|rank| 1.0 / (constant + rank as f32)).collect(), missing: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rows: &[(usize, f32)]) -> Vec<ScoredRow> {
        rows.iter().map(|(row, score)| ScoredRow { row: *row, score: *score }).collect()
    }

    #[test]
    fn a_missing_score_is_the_lists_least() {
        let (sparse, dense) = (list(&[(1, 9.0), (2, 4.0)]), list(&[(3, 5.0), (1, 2.0)]));
        let fused = fuse(&sparse, &dense, Fusion::Linear { lambda: 2.0 }, 2, 10);
        assert_eq!(fused, list(&[(3, 14.0), (1, 13.0), (2, 8.0)]));
        assert_eq!(fuse(&sparse, &dense, Fusion::Linear { lambda: 2.0 }, 2, 1), list(&[(3, 14.0)]));
    }

    #[test]
    fn a_passage_without_a_word_of_the_question_gets_nothing_for_words() {
        let (sparse, dense) = (list(&[(1, 9.0)]), list(&[(3, 5.0), (1, 4.0)]));
        let fused = fuse(&sparse, &dense, Fusion::PAPER, 2000, 10);
        assert_eq!(fused.iter().map(|hit| hit.row).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(fused[1].score, 5.5);
    }

    #[test]
    fn reciprocal_ranks_add_up() {
        let (sparse, dense) = (list(&[(1, 9.0), (2, 4.0)]), list(&[(2, 5.0)]));
        let fused = fuse(&sparse, &dense, Fusion::ReciprocalRank { constant: 1.0 }, 2, 10);
        assert_eq!(fused.iter().map(|hit| hit.row).collect::<Vec<_>>(), [2, 1]);
        assert!((fused[0].score - (1.0 / 3.0 + 1.0 / 2.0)).abs() < 1e-6);
    }

    #[test]
    fn one_empty_list_leaves_the_other() {
        let dense = list(&[(3, 5.0), (1, 2.0)]);
        let rows = |hits: Vec<ScoredRow>| hits.into_iter().map(|hit| hit.row).collect::<Vec<_>>();
        assert_eq!(rows(fuse(&[], &dense, Fusion::PAPER, 2, 5)), [3, 1]);
        assert_eq!(rows(fuse(&dense, &[], Fusion::RECIPROCAL, 2, 5)), [3, 1]);
        assert!(fuse(&[], &[], Fusion::PAPER, 2, 5).is_empty());
    }
}
