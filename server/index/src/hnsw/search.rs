//! Beam search in the graph: for a query, and for a row whose neighbours are looked for.

use std::collections::BinaryHeap;

use dpr_core::kernel::search::prefetch;

use crate::ranking::{Candidate, TopK};
use crate::{CancelToken, RowSet};

/// The rows that a search has visited. Clearing it costs what was visited, so that one set serves many searches.
#[derive(Debug)]
pub(super) struct VisitedSet {
    words: Vec<u64>,
    touched: Vec<u32>,
}

impl VisitedSet {
    pub(super) fn new(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], touched: Vec::new() }
    }

    /// Adds a row and returns `true` if it was not in the set.
    fn insert(&mut self, row: u32) -> bool {
        let (word, bit) = (&mut self.words[row as usize / 64], 1 << (row % 64));
        let is_new = *word & bit == 0;
        if is_new {
            *word |= bit;
            self.touched.push(row);
        }
        is_new
    }

    fn clear(&mut self) {
        for row in self.touched.drain(..) {
            self.words[row as usize / 64] = 0;
        }
    }
}

/// What a search asks of a layer of the graph.
pub(super) trait LayerView {
    /// Returns the rows that `row` is linked to.
    fn links(&self, row: u32) -> &[u32];

    /// Prepares for the links of `row` to be read.
    #[inline(always)]
    fn prefetch_links(&self, _row: u32) {}

    /// Replaces `scores` by the scores of `rows`. Rows that score below `floor` may be left out of both.
    fn score(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>);
}

/// Searches an upper layer greedily from `here`: returns the first row that scores higher than all its neighbours
/// that the layer scores.
pub(super) fn descend(mut here: Candidate, layer: &mut impl LayerView) -> Candidate {
    let (mut near, mut scores) = (Vec::new(), Vec::new());
    loop {
        near.clear();
        near.extend_from_slice(layer.links(here.row));
        layer.score(&mut near, here.score, &mut scores);
        let candidates = near.iter().zip(&scores).map(|(row, score)| Candidate { score: *score, row: *row });
        match candidates.max() {
            Some(best) if best > here => here = best,
            _ => return here,
        }
    }
}

/// Rows whose links are followed between two looks at whether to stop.
const LOOK_ROWS: usize = 64;

/// The greatest beam that is kept sorted: in a greater one, inserting costs more than a heap.
const SORTED: usize = 2048;

/// The best candidates of a beam search, best first, each followed or not yet.
struct Beam {
    limit: usize,
    found: Vec<Candidate>,
    followed: Vec<bool>,
    /// All before this place were followed.
    next: usize,
}

impl Beam {
    fn new(limit: usize) -> Self {
        Self { limit, found: Vec::with_capacity(limit + 1), followed: Vec::with_capacity(limit + 1), next: 0 }
    }

    /// Returns the score that a candidate must have at least.
    fn floor(&self) -> f32 {
        match self.found.last() {
            Some(worst) if self.found.len() == self.limit => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Adds a candidate, unless there are as many better ones as the beam keeps, and returns `true` if it did.
    #[inline]
    fn offer(&mut self, candidate: Candidate) -> bool {
        if self.found.len() == self.limit {
            if self.found.last().is_none_or(|worst| candidate.score < worst.score || candidate < *worst) {
                return false;
            }
            self.found.pop();
            self.followed.pop();
        }
        let at = self.found.partition_point(|better| *better > candidate);
        self.found.insert(at, candidate);
        self.followed.insert(at, false);
        self.next = self.next.min(at);
        true
    }

    /// Returns the best candidate that was not followed, which now is.
    fn follow(&mut self) -> Option<Candidate> {
        let at = self.next + self.followed[self.next..].iter().position(|followed| !followed)?;
        self.followed[at] = true;
        self.next = at + 1;
        Some(self.found[at])
    }

    /// Returns the best candidate that was not followed.
    fn peek(&self) -> Option<Candidate> {
        let at = self.followed[self.next..].iter().position(|followed| !followed)?;
        Some(self.found[self.next + at])
    }
}

/// Searches a layer with a beam of `ef` candidates from `starts` on, and returns the best `ef` rows found, best first
/// (algorithm 2 of the paper). Only `allowed` rows are returned, if these are given; the search passes through the
/// others too. It ends early once `cancel` says to stop.
pub(super) fn search_layer(
    starts: &[Candidate],
    ef: usize,
    allowed: Option<&RowSet>,
    visited: &mut VisitedSet,
    cancel: &CancelToken,
    layer: &mut impl LayerView,
) -> Vec<Candidate> {
    match allowed {
        None if ef <= SORTED => search_sorted(starts, ef, visited, cancel, layer),
        _ => search_heaps(starts, ef, allowed, visited, cancel, layer).into_sorted(),
    }
}

/// Searches a layer with one sorted beam: what is followed and what is found are the same rows.
fn search_sorted(
    starts: &[Candidate],
    ef: usize,
    visited: &mut VisitedSet,
    cancel: &CancelToken,
    layer: &mut impl LayerView,
) -> Vec<Candidate> {
    visited.clear();
    let mut beam = Beam::new(ef);
    for start in starts.iter().filter(|start| visited.insert(start.row)) {
        beam.offer(*start);
    }
    let (mut fresh, mut scores) = (Vec::new(), Vec::new());
    let mut followed = 0_usize;
    while let Some(here) = beam.follow() {
        if followed.is_multiple_of(LOOK_ROWS) && cancel.is_stopped() {
            break;
        }
        followed += 1;
        fresh.clear();
        fresh.extend(layer.links(here.row).iter().copied().filter(|row| visited.insert(*row)));
        // Most likely the next to be followed.
        if let Some(next) = beam.peek() {
            prefetch(layer.links(next.row));
        }
        layer.score(&mut fresh, beam.floor(), &mut scores);
        for (row, score) in fresh.iter().zip(&scores) {
            if beam.offer(Candidate { score: *score, row: *row }) {
                layer.prefetch_links(*row);
            }
        }
    }
    beam.found
}

/// Searches a layer with a heap of what is to be followed and another of what is found.
fn search_heaps(
    starts: &[Candidate],
    ef: usize,
    allowed: Option<&RowSet>,
    visited: &mut VisitedSet,
    cancel: &CancelToken,
    layer: &mut impl LayerView,
) -> TopK {
    visited.clear();
    let is_allowed = |row: u32| allowed.is_none_or(|allowed| allowed.contains(row as usize));
    let mut top = TopK::new(ef);
    let mut open = BinaryHeap::new();
    let (mut fresh, mut scores) = (Vec::new(), Vec::new());
    for start in starts {
        if visited.insert(start.row) {
            open.push(*start);
            if is_allowed(start.row) {
                top.offer(*start);
            }
        }
    }
    let mut followed = 0_usize;
    while let Some(here) = open.pop() {
        if followed.is_multiple_of(LOOK_ROWS) && cancel.is_stopped() {
            break;
        }
        followed += 1;
        if top.is_full() && top.worst().is_some_and(|worst| here < worst) {
            break;
        }
        fresh.clear();
        fresh.extend(layer.links(here.row).iter().copied().filter(|row| visited.insert(*row)));
        layer.score(&mut fresh, top.floor(), &mut scores);
        for (row, score) in fresh.iter().zip(&scores) {
            let next = Candidate { score: *score, row: *row };
            if top.is_full() && top.worst().is_some_and(|worst| next < worst) {
                continue;
            }
            open.push(next);
            if is_allowed(next.row) {
                top.offer(next);
            }
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::random::SplitMix;

    /// A layer whose rows have these scores; those below the floor are left out.
    struct Scored {
        links: Vec<Vec<u32>>,
        scores: Vec<f32>,
    }

    impl LayerView for Scored {
        fn links(&self, row: u32) -> &[u32] {
            &self.links[row as usize]
        }

        fn score(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) {
            rows.retain(|row| self.scores[*row as usize] >= floor);
            scores.clear();
            scores.extend(rows.iter().map(|row| self.scores[*row as usize]));
        }
    }

    #[test]
    fn a_sorted_beam_finds_what_two_heaps_find() {
        let mut random = SplitMix::new(5);
        for (rows, degree) in [(1, 0), (10, 2), (300, 4), (2000, 8)] {
            let links: Vec<Vec<u32>> = (0..rows)
                .map(|row| {
                    let next = (row + 1) % rows;
                    (0..degree).map(|_| random.below(rows) as u32).chain([next as u32]).collect()
                })
                .collect();
            // Few values, so that many rows have equal scores.
            let scores: Vec<f32> = (0..rows).map(|_| random.below(rows / 3 + 1) as f32 - 5.0).collect();
            let (mut layer, never) = (Scored { links, scores }, CancelToken::never());
            let mut visited = VisitedSet::new(rows);
            for ef in [1, 2, 7, 50, 3000] {
                let start = |row: usize| Candidate { score: layer.scores[row], row: row as u32 };
                let starts = [start(0), start(rows / 2), start(0)];
                let found = search_sorted(&starts, ef, &mut visited, &never, &mut layer);
                let heaps = search_heaps(&starts, ef, None, &mut visited, &never, &mut layer).into_sorted();
                assert_eq!(found, heaps, "{rows} rows, ef {ef}");
                for allowed in [None, Some(&RowSet::all(rows))] {
                    let found = search_layer(&starts, ef, allowed, &mut visited, &never, &mut layer);
                    assert_eq!(found, heaps, "{rows} rows, ef {ef}");
                }
            }
        }
    }
}
