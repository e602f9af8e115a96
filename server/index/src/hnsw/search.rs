//! Beam search in the graph: for a query, and for a row whose neighbours are looked for.

use std::collections::BinaryHeap;

use dpr_core::kernel::search::prefetch;

use super::beam::{Placed, Stage};
use super::buffers::Buffers;
use crate::ranking::{Candidate, TopK};
use crate::{CancelToken, RowSet};

/// What a search asks of a layer of the graph.
pub(super) trait LayerView {
    /// Returns the rows that `row` is linked to.
    fn links(&self, row: u32) -> &[u32];

    /// Prepares for the links of `row` to be read.
    #[inline(always)]
    fn prefetch_links(&self, _row: u32) {}

    /// Replaces `scores` by the scores of `rows`. Rows that score below `floor` may be left out of both.
    fn score(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>);

    /// Replaces `scores` by estimates of the scores of `rows`, which cost less, and returns `true`; rows whose
    /// estimates are below `floor` by more than their margins may be left out of both. Returns `false` and changes
    /// nothing if the layer has no estimates.
    #[inline(always)]
    fn estimate(&mut self, _rows: &mut Vec<u32>, _floor: f32, _scores: &mut Vec<f32>) -> bool {
        false
    }

    /// Returns what the score of `row` may be above its estimate.
    #[inline(always)]
    fn margin(&self, _row: u32) -> f32 {
        0.0
    }

    /// Prefetches what `row` is scored by.
    #[inline(always)]
    fn prefetch_row(&self, _row: u32) {}
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

/// Rows that a search visits for each candidate of its beam, about.
const VISITED: usize = 32;

/// Searches a layer with a beam of `ef` candidates from `starts` on, and returns the best `ef` rows found, best first
/// (algorithm 2 of the paper), of which the best `wanted` matter. Only `allowed` rows are returned, if these are given;
/// the search passes through the others too. It ends early once `cancel` says to stop.
pub(super) fn search_layer(
    starts: &[Candidate],
    (ef, wanted): (usize, usize),
    allowed: Option<&RowSet>,
    buffers: &mut Buffers,
    cancel: &CancelToken,
    layer: &mut impl LayerView,
) -> Vec<Candidate> {
    match allowed {
        None if ef <= SORTED => search_sorted(starts, (ef, wanted), buffers, cancel, layer),
        _ => search_heaps(starts, ef, allowed, buffers, cancel, layer).into_sorted(),
    }
}

/// Searches a layer with one sorted beam: what is followed and what is found are the same rows. Where the layer
/// estimates scores, a row enters the beam by its estimate and is scored once it is among the best that were not
/// followed; what had no place in the beam is scored in the end, where it may yet be among the best `wanted`.
fn search_sorted(
    starts: &[Candidate],
    (ef, wanted): (usize, usize),
    Buffers { visited, beam, rows, scores }: &mut Buffers,
    cancel: &CancelToken,
    layer: &mut impl LayerView,
) -> Vec<Candidate> {
    visited.clear();
    visited.reserve(ef * VISITED);
    beam.begin(ef);
    for start in starts.iter().filter(|start| visited.insert(start.row)) {
        beam.offer(*start, Stage::Scored);
    }
    let mut followed = 0_usize;
    loop {
        let here = match beam.peek() {
            Some(Placed { candidate, stage: Stage::Scored | Stage::Followed }) => candidate,
            next => {
                match next {
                    Some(_) => beam.take_estimated(rows),
                    None => beam.take_left_out(rows, wanted, |row| layer.margin(row)),
                }
                if rows.is_empty() {
                    break;
                }
                layer.score(rows, f32::NEG_INFINITY, scores);
                for (row, score) in rows.iter().zip(&*scores) {
                    beam.offer(Candidate { score: *score, row: *row }, Stage::Scored);
                }
                continue;
            }
        };
        if followed.is_multiple_of(LOOK_ROWS) && cancel.is_stopped() {
            break;
        }
        followed += 1;
        beam.follow();
        visited.insert_all(layer.links(here.row), rows);
        // Most likely the next to be followed.
        if let Some(next) = beam.peek() {
            prefetch(layer.links(next.candidate.row));
            if next.stage == Stage::Estimated {
                beam.estimated().for_each(|row| layer.prefetch_row(row));
            }
        }
        let floor = beam.floor();
        let stage = match layer.estimate(rows, floor, scores) {
            true => Stage::Estimated,
            false => {
                layer.score(rows, floor, scores);
                Stage::Scored
            }
        };
        for (row, score) in rows.iter().zip(&*scores) {
            if beam.offer(Candidate { score: *score, row: *row }, stage) {
                match beam.is_next(*row) {
                    true => prefetch(layer.links(*row)),
                    false => layer.prefetch_links(*row),
                }
            }
        }
    }
    beam.candidates()
}

/// Searches a layer with a heap of what is to be followed and another of what is found.
fn search_heaps(
    starts: &[Candidate],
    ef: usize,
    allowed: Option<&RowSet>,
    Buffers { visited, rows: fresh, scores, .. }: &mut Buffers,
    cancel: &CancelToken,
    layer: &mut impl LayerView,
) -> TopK {
    visited.clear();
    let is_allowed = |row: u32| allowed.is_none_or(|allowed| allowed.contains(row as usize));
    let mut top = TopK::new(ef);
    let mut open = BinaryHeap::new();
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
        visited.insert_all(layer.links(here.row), fresh);
        layer.score(fresh, top.floor(), scores);
        for (row, score) in fresh.iter().zip(&*scores) {
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
            let mut buffers = Buffers::new(rows);
            for ef in [1, 2, 7, 50, 3000] {
                let start = |row: usize| Candidate { score: layer.scores[row], row: row as u32 };
                let starts = [start(0), start(rows / 2), start(0)];
                let found = search_sorted(&starts, (ef, ef), &mut buffers, &never, &mut layer);
                let heaps = search_heaps(&starts, ef, None, &mut buffers, &never, &mut layer).into_sorted();
                assert_eq!(found, heaps, "{rows} rows, ef {ef}");
                for allowed in [None, Some(&RowSet::all(rows))] {
                    let found = search_layer(&starts, (ef, ef), allowed, &mut buffers, &never, &mut layer);
                    assert_eq!(found, heaps, "{rows} rows, ef {ef}");
                }
            }
        }
    }

    /// A layer that estimates scores, by what is added to them, and remembers which rows it scored.
    struct Estimated {
        layer: Scored,
        errors: Vec<f32>,
        scored: Vec<u32>,
    }

    impl LayerView for Estimated {
        fn links(&self, row: u32) -> &[u32] {
            self.layer.links(row)
        }

        fn score(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) {
            self.layer.score(rows, floor, scores);
            self.scored.extend_from_slice(rows);
        }

        fn estimate(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) -> bool {
            let estimate = |row: &u32| self.layer.scores[*row as usize] + self.errors[*row as usize];
            rows.retain(|row| estimate(row) >= floor);
            scores.clear();
            scores.extend(rows.iter().map(estimate));
            true
        }
    }

    /// Returns a layer of so many rows in random order, each linked to about `degree` with the nearest scores and to
    /// `degree` random ones.
    fn ordered(rows: usize, degree: usize, error: f32) -> Estimated {
        let mut random = SplitMix::new(11);
        let mut order: Vec<usize> = (0..rows).collect();
        random.shuffle(&mut order);
        let (mut links, mut scores) = (vec![Vec::new(); rows], vec![0.0; rows]);
        for (place, row) in order.iter().enumerate() {
            scores[*row] = -(place as f32);
            let near =
                (place.saturating_sub(degree / 2)..(place + degree / 2 + 1).min(rows)).map(|at| order[at]);
            let far = (0..degree).map(|_| random.below(rows));
            links[*row] = near.chain(far).map(|row| row as u32).collect();
        }
        let errors = (0..rows).map(|_| error * random.normal() as f32).collect();
        Estimated { layer: Scored { links, scores }, errors, scored: Vec::new() }
    }

    #[test]
    fn estimates_that_are_exact_find_what_scores_find_and_score_fewer_rows() {
        let (mut layer, never) = (ordered(3000, 8, 0.0), CancelToken::never());
        let start = Candidate { score: layer.layer.scores[0], row: 0 };
        let mut buffers = Buffers::new(3000);
        for ef in [1, 2, 30, 200] {
            layer.scored.clear();
            let found = search_sorted(&[start], (ef, ef), &mut buffers, &never, &mut layer);
            let met = buffers.visited.touched.len();
            assert_eq!(
                found,
                search_sorted(&[start], (ef, ef), &mut buffers, &never, &mut layer.layer),
                "ef {ef}"
            );
            assert!(layer.scored.len() < met, "ef {ef}: {} of {met}", layer.scored.len());
        }
    }

    #[test]
    fn what_a_search_by_estimates_finds_has_its_scores_and_no_row_is_scored_twice() {
        for error in [0.5, 5.0, 500.0, f32::INFINITY] {
            let (mut layer, never) = (ordered(3000, 8, error), CancelToken::never());
            let start = Candidate { score: layer.layer.scores[0], row: 0 };
            let found = search_sorted(&[start], (100, 50), &mut Buffers::new(3000), &never, &mut layer);
            assert!(found.is_sorted_by(|a, b| a > b), "{error}");
            assert!(
                found.iter().all(|found| found.score == layer.layer.scores[found.row as usize]),
                "{error}"
            );
            let scored = layer.scored.len();
            layer.scored.sort_unstable();
            layer.scored.dedup();
            assert_eq!(layer.scored.len(), scored, "{error}: scored once");
            if error <= 5.0 {
                // The best 50 of all rows, which lie within the beam by ten errors.
                assert!(found[..50].iter().enumerate().all(|(at, row)| row.score == -(at as f32)), "{error}");
            }
        }
    }
}
