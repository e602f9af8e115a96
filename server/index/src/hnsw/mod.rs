//! Approximate search through a hierarchical navigable small-world graph (Malkov and Yashunin 2016).
//!
//! The graph is built here ([`build`]), or by `hnsw_rs` ([`build_with_library`]), and kept in a [`Graph`] that is walked by
//! the vectors in eight bits; the best of what the walk finds are scored again by the vectors themselves, so that a row
//! has the very score that exact search gives it. `hnsw_rs` is not what searches, for these reasons: it reloads its own dump
//! only as a value that borrows from its reader, so that an index could not be swapped while serving; it ends the process
//! or panics on damaged files; and the dump stores every vector a second time. Nor is it what builds by default: it is
//! alike on every run on one thread only. Either graph is repaired where pruning left a passage unreachable.
//!
//! Limit: where vectors differ in length several times over, the phi form puts the long ones, which answer most
//! questions, far from all others, and recall falls well below 0.99 (0.67 at a ratio of 13 between random vectors).
//! Sentence encoders give lengths that are equal or differ by some percent. `dpr index` measures and warns.

mod build;
mod graph;
mod library;
mod repair;
mod walk;

use std::sync::Arc;

use dpr_core::Embedding;
use serde::{Deserialize, Serialize};

use super::codes::{Code as _, Codes};
use super::exact::rescored;
use super::{BuildError, ExactIndex, IndexKind, Matrix, QueryError, RowSet, ScoredRow, VectorIndex};
use crate::ranking::Candidate;
use walk::{Seen, descend, walk};

pub(super) use build::build;
pub(super) use graph::Graph;
pub(super) use library::build as build_with_library;

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
    /// Recall@20 0.9999 for SQuAD dev's questions among its 2,067 paragraphs, 0.985 for NQ dev's among 60,000 blocks of
    /// Wikipedia (`dpr eval retrieval --against-exact`); [`tune`](crate::tune) finds what a corpus needs.
    fn default() -> Self {
        Self { m: 24, ef_construction: 200, ef_search: 160 }
    }
}

impl HnswParams {
    /// Refuses what `hnsw_rs` would panic on or end the process for.
    pub fn check(self) -> Result<(), BuildError> {
        let limits = [
            // The library keeps `m` in a byte, and draws layers by 1 / ln m.
            ("m", self.m, 2, 255),
            ("ef_construction", self.ef_construction, 1, 1 << 20),
            ("ef_search", self.ef_search, 1, 1 << 20),
        ];
        for (name, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(BuildError::Parameter { name, value, min, max });
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
    codes: Arc<Codes>,
    graph: Graph,
    ef_search: usize,
    exact: ExactIndex,
}

impl HnswIndex {
    pub(super) fn new(matrix: Arc<Matrix>, codes: Arc<Codes>, graph: Graph, ef_search: usize) -> Self {
        let exact = ExactIndex::new(Arc::clone(&matrix));
        Self { matrix, codes, graph, ef_search, exact }
    }

    /// Walks to `ef` rows by their codes and ranks the best of them by their vectors; `None` when fewer than `k` are found.
    fn find(&self, query: &[f32], k: usize, ef: usize, wanted: Option<&RowSet>) -> Option<Vec<ScoredRow>> {
        let mut asked = i8::ask(query);
        let mut score = |rows: &[u32], scores: &mut Vec<f32>| self.codes.scores_at(&mut asked, rows, scores);
        let (entry, mut scores) = (self.graph.entry(), Vec::new());
        score(&[entry], &mut scores);
        let entry = Candidate { score: scores[0], row: entry };
        let layers = (1..self.graph.layers()).rev();
        let near =
            layers.fold(entry, |here, layer| descend(here, |row| self.graph.links(layer, row), &mut score));
        // From the graph's entry every row can be reached, which is not sure of where the descent ended.
        let (starts, mut seen) = ([near, entry], Seen::new(self.len()));
        let top = walk(&starts, ef, wanted, &mut seen, |row| self.graph.links(0, row), score);
        if top.len() < k {
            return None;
        }
        let rows: Vec<u32> = top.into_sorted().iter().take(rescored(k)).map(|found| found.row).collect();
        Some(self.matrix.rank(query, &rows, k))
    }

    /// Candidates that a search for `k` keeps.
    fn effort(&self, k: usize) -> usize {
        self.ef_search.max(k + k / 2)
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

    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, QueryError> {
        let k = self.matrix.check(query, k)?;
        let ef = self.effort(k);
        // Walking to so many rows costs more than looking at all of them.
        if ef >= self.len() / 2 {
            return self.exact.search(query, k);
        }
        match self.find(query.as_slice(), k, ef, None) {
            Some(found) => Ok(found),
            None => self.exact.search(query, k),
        }
    }

    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        wanted: &RowSet,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        let k = self.matrix.check(query, k)?.min(wanted.len());
        if k == 0 {
            return Ok(Vec::new());
        }
        let ef = self.effort(k);
        // Of the rows the walk passes, as many are wanted as of all; exact search looks at those that are, alone.
        let passed = ef.saturating_mul(LINKS_PASSED).saturating_mul(self.len()) / wanted.len().max(1);
        if passed >= wanted.len() {
            return self.exact.search_among(query, k, wanted);
        }
        match self.find(query.as_slice(), k, ef, Some(wanted)) {
            Some(found) => Ok(found),
            None => self.exact.search_among(query, k, wanted),
        }
    }
}
