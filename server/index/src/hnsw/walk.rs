//! Walking over links towards what is asked: for a search, and for a row that looks for its neighbours.

use std::collections::BinaryHeap;

use crate::RowSet;
use crate::ranking::{Candidate, Top};

/// Rows that a walk has been at; cleared by what it touched, so that one serves many walks.
#[derive(Debug)]
pub(super) struct Seen {
    words: Vec<u64>,
    touched: Vec<u32>,
}

impl Seen {
    pub(super) fn new(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], touched: Vec::new() }
    }

    /// Whether the row was not there; it is from now on.
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

/// From `here` to the row that none of those it is linked to beats.
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

/// The best `ef` rows found from `starts` on; of `wanted` alone, if given, though the way leads over all.
pub(super) fn walk<'a>(
    starts: &[Candidate],
    ef: usize,
    wanted: Option<&RowSet>,
    seen: &mut Seen,
    links: impl Fn(u32) -> &'a [u32],
    mut score: impl FnMut(&[u32], &mut Vec<f32>),
) -> Top {
    seen.clear();
    let is_wanted = |row: u32| wanted.is_none_or(|wanted| wanted.contains(row as usize));
    let mut top = Top::new(ef);
    let mut open = BinaryHeap::new();
    let (mut fresh, mut scores) = (Vec::new(), Vec::new());
    for start in starts {
        if seen.insert(start.row) {
            open.push(*start);
            if is_wanted(start.row) {
                top.offer(*start);
            }
        }
    }
    while let Some(here) = open.pop() {
        if top.is_full() && top.worst().is_some_and(|worst| here < worst) {
            break;
        }
        fresh.clear();
        fresh.extend(links(here.row).iter().copied().filter(|row| seen.insert(*row)));
        score(&fresh, &mut scores);
        for (row, score) in fresh.iter().zip(&scores) {
            let next = Candidate { score: *score, row: *row };
            if top.is_full() && top.worst().is_some_and(|worst| next < worst) {
                continue;
            }
            open.push(next);
            if is_wanted(next.row) {
                top.offer(next);
            }
        }
    }
    top
}
