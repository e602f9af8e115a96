//! Top-k retrieval accuracy (paper §5): for how many questions one of the first `k` passages is right.

use serde::Serialize;

use super::TopK;
use super::ranking::{CUT, mean_reciprocal_rank, top_k};

/// Accuracy over a set of questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Questions measured.
    pub questions: usize,
    /// The accuracy at each requested `k`, ascending.
    pub top_k: Vec<TopK>,
    /// Mean reciprocal rank of the first right passage, 0 beyond rank 10.
    pub mrr_at_10: f64,
}

impl Accuracy {
    /// Returns the accuracy of the ranks that [`Judge::first_right`](super::Judge::first_right) returns.
    pub fn of(first_right: &[Option<usize>], ks: &[usize]) -> Self {
        Self {
            questions: first_right.len(),
            top_k: top_k(first_right, ks),
            mrr_at_10: mean_reciprocal_rank(first_right, CUT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_is_the_share_of_questions_with_a_right_passage_within_k() {
        let accuracy = Accuracy::of(&[Some(1), Some(2), None, None], &[3, 1, 2]);
        let top: Vec<_> = accuracy.top_k.iter().map(|top| (top.k, top.accuracy)).collect();
        assert_eq!(top, [(1, 0.25), (2, 0.5), (3, 0.5)]);
        assert_eq!((accuracy.questions, accuracy.mrr_at_10), (4, (1.0 + 0.5) / 4.0));
    }
}
