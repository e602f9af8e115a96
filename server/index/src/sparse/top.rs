//! The best rows of a search by words so far.

use crate::RowSet;
use crate::ranking::{Candidate, ScoredRow};

/// The least number of candidates above `k` at which the best `k` are chosen.
const LEAST_SPARE: usize = 64;

/// The best `k` rows so far of those that may be found, and some that came after them: the best are chosen when there
/// are half as many again, which takes less time than a heap that keeps them in order.
pub(super) struct TopK<'a> {
    candidates: Vec<Candidate>,
    k: usize,
    /// Number of candidates at which the best `k` are chosen.
    full: usize,
    least: f32,
    allowed: Option<&'a RowSet>,
}

impl<'a> TopK<'a> {
    pub(super) fn new(k: usize, allowed: Option<&'a RowSet>) -> Self {
        let full = k.saturating_add((k / 2).max(LEAST_SPARE));
        Self { candidates: Vec::new(), k, full, least: f32::MIN_POSITIVE, allowed }
    }

    /// Returns a score, above 0, that every row which is still to be found among the best has at least.
    pub(super) fn least(&self) -> f32 {
        self.least
    }

    /// Takes a row that may be found, if it might be among the best.
    #[inline]
    pub(super) fn offer(&mut self, score: f32, row: u32) {
        if score >= self.least && self.allowed.is_none_or(|allowed| allowed.contains(row as usize)) {
            self.candidates.push(Candidate { score, row });
            if self.candidates.len() >= self.full {
                self.choose();
            }
        }
    }

    /// Chooses the best `k` and raises the threshold.
    pub(super) fn choose(&mut self) {
        if self.k > 0 && self.candidates.len() >= self.k {
            let (_, last, _) = self.candidates.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
            self.least = last.score.max(f32::MIN_POSITIVE);
            self.candidates.truncate(self.k);
        }
    }

    /// Returns the best `k` rows, best first, equal scores by row.
    pub(super) fn into_rows(mut self) -> Vec<ScoredRow> {
        self.choose();
        self.candidates.sort_unstable_by(|a, b| b.cmp(a));
        self.candidates
            .iter()
            .map(|found| ScoredRow { row: found.row as usize, score: found.score })
            .collect()
    }
}
