//! Approximate search through a hierarchical navigable small-world graph (Malkov and Yashunin 2016).
//!
//! `hnsw_rs` builds the graph; its links are then kept in a [`Graph`] of our own and walked here. That is for
//! these reasons: `hnsw_rs` reloads its own dump only as a value that borrows from its reader, so that an index
//! could not be swapped while serving; it ends the process or panics on damaged files; the dump stores every
//! vector a second time; and walking by the inner product itself needs no augmented vectors and gives the very
//! scores that exact search gives. The graph can also be repaired where pruning left a passage unreachable.
//!
//! Limit: where vectors differ in length several times over, the phi form puts the long ones, which answer most
//! questions, far from all others, and recall falls well below 0.99 (0.67 at a ratio of 13 between random vectors).
//! Sentence encoders give lengths that are equal or differ by some percent. `dpr index` measures and warns.

mod build;
mod graph;

use std::collections::BinaryHeap;
use std::sync::Arc;

use dpr_core::Embedding;
use serde::{Deserialize, Serialize};

use super::{ExactIndex, IndexError, IndexKind, Matrix, RowSet, ScoredRow, VectorIndex};
use crate::ranking::{Candidate, Top};

pub(super) use build::build;
pub(super) use graph::Graph;

/// Parameters of the graph, named as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HnswParams {
    /// Links of a passage to others on the upper layers; twice as many on the lowest.
    pub m: usize,
    /// Candidates kept while a passage is linked.
    pub ef_construction: usize,
    /// Candidates kept while searching, at least; a search for `k` keeps at least `1.5 k`.
    pub ef_search: usize,
}

impl Default for HnswParams {
    /// Recall@20 over 0.99 on sentence vectors of 384 to 768 dimensions, 2,000 to 100,000 of them.
    fn default() -> Self {
        Self { m: 24, ef_construction: 200, ef_search: 160 }
    }
}

impl HnswParams {
    /// Refuses what `hnsw_rs` would panic on or end the process for.
    pub(super) fn check(self) -> Result<(), IndexError> {
        let limits = [
            // The library keeps `m` in a byte, and draws layers by 1 / ln m.
            ("m", self.m, 2, 255),
            ("ef_construction", self.ef_construction, 1, 1 << 20),
            ("ef_search", self.ef_search, 1, 1 << 20),
        ];
        for (name, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(IndexError::Parameter { name, value, min, max });
            }
        }
        Ok(())
    }
}

/// Rows that a walk scores for each candidate it keeps, about.
const LINKS_PASSED: usize = 10;

/// An index that walks a graph towards the question.
#[derive(Debug)]
pub struct HnswIndex {
    matrix: Arc<Matrix>,
    graph: Graph,
    ef_search: usize,
    exact: ExactIndex,
}

impl HnswIndex {
    pub(super) fn new(matrix: Arc<Matrix>, graph: Graph, ef_search: usize) -> Self {
        let exact = ExactIndex::new(Arc::clone(&matrix));
        Self { matrix, graph, ef_search, exact }
    }

    fn candidate(&self, query: &[f32], row: u32) -> Candidate {
        Candidate { score: self.matrix.score(query, row as usize), row }
    }

    /// Goes down the upper layers, on each to the row that none of its neighbours beats.
    fn descend(&self, query: &[f32]) -> Candidate {
        let mut here = self.candidate(query, self.graph.entry());
        let mut scores = Vec::new();
        for layer in (1..self.graph.layers()).rev() {
            loop {
                let links = self.graph.links(layer, here.row);
                self.matrix.scores_at(query, links, &mut scores);
                let candidates =
                    links.iter().zip(&scores).map(|(row, score)| Candidate { score: *score, row: *row });
                match candidates.max() {
                    Some(best) if best > here => here = best,
                    _ => break,
                }
            }
        }
        here
    }

    /// The best `ef` rows found from `start` on the lowest layer; of `wanted` alone, if given, though over all.
    fn walk(&self, query: &[f32], start: Candidate, ef: usize, wanted: Option<&RowSet>) -> Top {
        let is_wanted = |row: u32| wanted.is_none_or(|wanted| wanted.contains(row as usize));
        let mut seen = vec![0_u64; self.len().div_ceil(64)];
        let mut is_new = |row: u32| {
            let (word, bit) = (&mut seen[row as usize / 64], 1 << (row % 64));
            let new = *word & bit == 0;
            *word |= bit;
            new
        };
        let mut top = Top::new(ef);
        let mut open = BinaryHeap::new();
        let (mut new, mut scores) = (Vec::new(), Vec::new());
        // From the graph's entry every row can be reached, which is not sure of where the descent ended.
        for first in [start, self.candidate(query, self.graph.entry())] {
            if is_new(first.row) {
                open.push(first);
                if is_wanted(first.row) {
                    top.offer(first);
                }
            }
        }
        while let Some(here) = open.pop() {
            if top.is_full() && top.worst().is_some_and(|worst| here < worst) {
                break;
            }
            new.clear();
            new.extend(self.graph.links(0, here.row).iter().copied().filter(|row| is_new(*row)));
            self.matrix.scores_at(query, &new, &mut scores);
            for (row, score) in new.iter().zip(&scores) {
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
}

impl VectorIndex for HnswIndex {
    fn dim(&self) -> usize {
        self.matrix.dim()
    }

    fn len(&self) -> usize {
        self.matrix.count()
    }

    fn kind(&self) -> IndexKind {
        IndexKind::Hnsw
    }

    fn set_ef_search(&mut self, ef: usize) {
        self.ef_search = ef;
    }

    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, IndexError> {
        let k = self.matrix.check(query, k)?;
        let ef = self.ef_search.max(k + k / 2);
        // Walking to so many rows costs more than looking at all of them.
        if ef >= self.len() / 2 {
            return self.exact.search(query, k);
        }
        let values = query.as_slice();
        let top = self.walk(values, self.descend(values), ef, None);
        if top.len() < k {
            return self.exact.search(query, k);
        }
        Ok(top.into_rows(k))
    }

    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        wanted: &RowSet,
    ) -> Result<Vec<ScoredRow>, IndexError> {
        let k = self.matrix.check(query, k)?.min(wanted.len());
        let ef = self.ef_search.max(k + k / 2);
        // Of the rows the walk passes, as many are wanted as of all; exact search looks at those that are, alone.
        let passed = ef.saturating_mul(LINKS_PASSED).saturating_mul(self.len()) / wanted.len().max(1);
        if passed >= wanted.len() {
            return self.exact.search_among(query, k, wanted);
        }
        let values = query.as_slice();
        let top = self.walk(values, self.descend(values), ef, Some(wanted));
        if top.len() < k {
            return self.exact.search_among(query, k, wanted);
        }
        Ok(top.into_rows(k))
    }
}
