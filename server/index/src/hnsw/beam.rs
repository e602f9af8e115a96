//! The beam of a search: its best candidates in order, and what was done with each.

use std::cmp::Ordering;

use crate::ranking::Candidate;

/// Candidates that are scored at a time, of those that a beam has estimates of: their codes are fetched side by side.
const SCORED: usize = 8;

/// What was done with a candidate of a beam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its score is an estimate.
    Estimated,
    Scored,
    /// It was scored, and the rows that it is linked to were looked at.
    Followed,
}

/// A candidate of a beam and its stage, in one array: every insertion shifts what follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) candidate: Candidate,
    pub(super) stage: Stage,
}

/// The best candidates of a beam search, best first.
#[derive(Debug, Default)]
pub(super) struct Beam {
    limit: usize,
    found: Vec<Placed>,
    /// All before this place were followed.
    next: usize,
    /// Estimated candidates for which the beam had no place, or none any more.
    pub(super) left_out: Vec<Candidate>,
}

impl Beam {
    /// Empties the beam for a search that keeps `limit` candidates.
    #[inline]
    pub(super) fn begin(&mut self, limit: usize) {
        (self.limit, self.next) = (limit, 0);
        self.found.clear();
        self.found.reserve(limit + 1);
        self.left_out.clear();
    }

    /// Returns the score that a candidate must have at least.
    #[inline]
    pub(super) fn floor(&self) -> f32 {
        match self.found.last() {
            Some(worst) if self.found.len() == self.limit => worst.candidate.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Adds a candidate, unless there are as many better ones as the beam keeps, and returns `true` if it did.
    #[inline]
    pub(super) fn offer(&mut self, candidate: Candidate, stage: Stage) -> bool {
        if self.found.len() == self.limit {
            let worst = self.found.last().map(|worst| worst.candidate);
            if worst.is_none_or(|worst| candidate.score < worst.score || candidate < worst) {
                if stage == Stage::Estimated {
                    self.left_out.push(candidate);
                }
                return false;
            }
            if let Some(Placed { candidate: worst, stage: Stage::Estimated }) = self.found.pop() {
                self.left_out.push(worst);
            }
        }
        let at = self.found.partition_point(|better| better.candidate > candidate);
        self.found.insert(at, Placed { candidate, stage });
        self.next = self.next.min(at);
        true
    }

    /// Returns `true` if the candidate that was offered last is the best that was not followed.
    #[inline]
    pub(super) fn is_next(&self, row: u32) -> bool {
        self.found.get(self.next).is_some_and(|next| next.candidate.row == row)
    }

    /// Returns the best candidate that was not followed.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Placed> {
        let followed = self.found[self.next..].iter().take_while(|placed| placed.stage == Stage::Followed);
        self.next += followed.count();
        self.found.get(self.next).copied()
    }

    /// Marks the candidate that [`peek`](Self::peek) returned as followed. Call it before any other is offered.
    #[inline]
    pub(super) fn follow(&mut self) {
        self.found[self.next].stage = Stage::Followed;
        self.next += 1;
    }

    /// Returns the best estimated candidates, [`SCORED`] at most, of twice as many that come next.
    #[inline]
    pub(super) fn estimated(&self) -> impl Iterator<Item = u32> {
        let next = &self.found[self.next..self.found.len().min(self.next + 2 * SCORED)];
        let estimated = next.iter().filter(|placed| placed.stage == Stage::Estimated);
        estimated.take(SCORED).map(|placed| placed.candidate.row)
    }

    /// Takes the candidates that [`estimated`](Self::estimated) names out of the beam.
    #[inline]
    pub(super) fn take_estimated(&mut self, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend(self.estimated());
        let (mut kept, mut taken) = (self.next, 0);
        for at in self.next..self.found.len() {
            if taken < rows.len() && self.found[at].stage == Stage::Estimated {
                taken += 1;
            } else {
                self.found[kept] = self.found[at];
                kept += 1;
            }
        }
        self.found.truncate(kept);
    }

    /// Takes the candidates that had no place and may yet score above the last of the best `wanted`: whose estimates
    /// are not below it by more than their margins.
    #[inline]
    pub(super) fn take_left_out(&mut self, rows: &mut Vec<u32>, wanted: usize, margin: impl Fn(u32) -> f32) {
        let last = wanted.checked_sub(1).and_then(|last| self.found.get(last));
        let floor = last.map_or(f32::NEG_INFINITY, |last| last.candidate.score);
        // A margin that is not a number rules nothing out.
        let may_be_found =
            |left: &Candidate| (left.score + margin(left.row)).partial_cmp(&floor) != Some(Ordering::Less);
        rows.clear();
        rows.extend(self.left_out.drain(..).filter(may_be_found).map(|left| left.row));
    }

    /// Returns the candidates, best first.
    #[inline]
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        self.found.iter().map(|placed| placed.candidate).collect()
    }
}
