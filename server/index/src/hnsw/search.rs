//! Beam search in the graph: for a query, and for a row whose neighbours are looked for.

use std::collections::BinaryHeap;

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

/// Searches an upper layer greedily from `here`: returns the first row that scores higher than all its neighbours.
pub(super) fn descend<'a>(
    mut here: Candidate,
    links: impl Fn(u32) -> &'a [u32],
    mut score: impl FnMut(&[u32], &mut Vec<f32>),
) -> Candidate {
    let mut scores = Vec::new();
    loop {
        let links = links(here.row);
        score(links, &mut scores);
        let candidates = links.iter().zip(&scores).map(|(row, score)| Candidate { score: *score, row: *row });
        match candidates.max() {
            Some(best) if best > here => here = best,
            _ => return here,
        }
    }
}

/// Rows whose links are followed between two looks at whether to stop.
const LOOK_ROWS: usize = 64;

/// Searches a layer with a beam of `ef` candidates from `starts` on, and returns the best `ef` rows found (algorithm
/// 2 of the paper). Only `allowed` rows are returned, if these are given; the search passes through the others too.
/// It ends early once `cancel` says to stop.
pub(super) fn search_layer<'a>(
    starts: &[Candidate],
    ef: usize,
    allowed: Option<&RowSet>,
    visited: &mut VisitedSet,
    cancel: &CancelToken,
    links: impl Fn(u32) -> &'a [u32],
    mut score: impl FnMut(&[u32], &mut Vec<f32>),
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
        fresh.extend(links(here.row).iter().copied().filter(|row| visited.insert(*row)));
        score(&fresh, &mut scores);
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
