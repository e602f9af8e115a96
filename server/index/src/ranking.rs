//! Scored rows and the top-k heap that every search fills.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A row of an index and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredRow {
    /// Row, from 0: the position of the passage in the corpus.
    pub row: usize,
    /// Greater is better: an inner product of vectors, or a sparse score.
    pub score: f32,
}

/// A scored row within a search, ordered: the greater one has the higher score, or the lower row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) score: f32,
    pub(crate) row: u32,
}

impl Eq for Candidate {}

impl Candidate {
    /// Returns a number that orders as candidates do: the score in the order of `f32::total_cmp`, then the row. One
    /// comparison without a branch is what a binary search of a beam needs.
    #[inline]
    fn key(self) -> u64 {
        let bits = self.score.to_bits();
        let ordered = bits ^ if bits >> 31 == 0 { 1 << 31 } else { u32::MAX };
        u64::from(ordered) << 32 | u64::from(!self.row)
    }
}

impl Ord for Candidate {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best `k` of the candidates that were offered (top-k).
#[derive(Debug)]
pub(crate) struct TopK {
    k: usize,
    heap: BinaryHeap<std::cmp::Reverse<Candidate>>,
}

impl TopK {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::with_capacity(k + 1) }
    }

    /// Offers a candidate and returns `true` if it is among the best `k` so far.
    pub(crate) fn offer(&mut self, candidate: Candidate) -> bool {
        if self.heap.len() < self.k {
            self.heap.push(std::cmp::Reverse(candidate));
            return true;
        }
        match self.heap.peek_mut() {
            Some(mut worst) if candidate > worst.0 => {
                worst.0 = candidate;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.heap.len() >= self.k
    }

    pub(crate) fn worst(&self) -> Option<Candidate> {
        self.heap.peek().map(|worst| worst.0)
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        for candidate in other.heap {
            self.offer(candidate.0);
        }
        self
    }

    /// Returns the candidates that were kept, best first.
    pub(crate) fn into_sorted(self) -> Vec<Candidate> {
        // Of `Reverse`, so the best come first.
        self.heap.into_sorted_vec().into_iter().map(|candidate| candidate.0).collect()
    }

    /// Offers the scores of the rows from `start` on; rows that were offered before are lower.
    pub(crate) fn offer_all(&mut self, start: usize, scores: &[f32]) {
        let mut floor = self.floor();
        for (row, score) in (start..).zip(scores) {
            // An equal score of a later row is no better.
            if *score > floor {
                // Rows fit u32: building and opening refuse more.
                self.offer(Candidate { score: *score, row: row as u32 });
                floor = self.floor();
            }
        }
    }

    /// Returns the score that the next candidate must exceed.
    pub(crate) fn floor(&self) -> f32 {
        match self.worst() {
            Some(worst) if self.is_full() => worst.score,
            _ if self.k == 0 => f32::INFINITY,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Returns the best `k` candidates as rows, best first.
    pub(crate) fn into_rows(self, k: usize) -> Vec<ScoredRow> {
        let sorted = self.into_sorted().into_iter();
        sorted.take(k).map(|c| ScoredRow { row: c.row as usize, score: c.score }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_order_by_score_and_then_by_row() {
        let scores =
            [f32::NEG_INFINITY, -1.5, -f32::MIN_POSITIVE, -0.0, 0.0, 1e-40, 1.5, f32::INFINITY, f32::NAN];
        let of_score = |score: f32| [7, 3].map(|row| Candidate { score, row });
        let sorted: Vec<Candidate> = scores.into_iter().flat_map(of_score).collect();
        for (at, candidate) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(candidate.cmp(other), at.cmp(&other_at), "{candidate:?} {other:?}");
            }
        }
    }

    #[test]
    fn equal_scores_rank_by_row_in_any_order_of_offers() {
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]] {
            let mut top = TopK::new(3);
            for row in order {
                top.offer(Candidate { score: if row == 3 { 2.0 } else { 1.0 }, row });
            }
            let rows: Vec<_> = top.into_rows(3).into_iter().map(|r| r.row).collect();
            assert_eq!(rows, [3, 0, 1]);
        }
    }
}
