//! Rows by score: what every search returns, and the best of those seen so far.

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

/// A candidate; the greater one ranks first: higher score, then lower row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) score: f32,
    pub(crate) row: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.row.cmp(&self.row))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Keeps the best `k` candidates of those offered.
#[derive(Debug)]
pub(crate) struct TopK {
    k: usize,
    heap: BinaryHeap<std::cmp::Reverse<Candidate>>,
}

impl TopK {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::with_capacity(k + 1) }
    }

    /// Whether the candidate is among the best `k` so far.
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

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
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

    /// Those kept, best first.
    pub(crate) fn into_sorted(self) -> Vec<Candidate> {
        // Of `Reverse`, so the best come first.
        self.heap.into_sorted_vec().into_iter().map(|candidate| candidate.0).collect()
    }

    /// Offers scores of the rows from `start` on, which are greater than all offered before.
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

    /// The score that the next must beat.
    pub(crate) fn floor(&self) -> f32 {
        match self.worst() {
            Some(worst) if self.is_full() => worst.score,
            _ if self.k == 0 => f32::INFINITY,
            _ => f32::NEG_INFINITY,
        }
    }

    /// The first `k` of those kept, best first.
    pub(crate) fn into_rows(self, k: usize) -> Vec<ScoredRow> {
        let sorted = self.into_sorted().into_iter();
        sorted.take(k).map(|c| ScoredRow { row: c.row as usize, score: c.score }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
