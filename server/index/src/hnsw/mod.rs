//! Approximate search through a hierarchical navigable small-world graph (HNSW, Malkov and Yashunin 2016).
//!
//! The [`Graph`] is built here ([`build`]) or by `hnsw_rs` ([`build_with_library`]), and searched by the vectors
//! quantized to eight bits; the best rows are scored again by the vectors themselves, so that a row has the very score
//! that exact search gives it. Most rows that a search meets are not scored: their signs say that they are below all
//! that it keeps, or, where vectors are long and signs order neighbours, rows enter the beam by an estimate of their
//! signs and are scored once they are among its best. Either graph is repaired where pruning left a passage
//! unreachable.
//!
//! `hnsw_rs` does not search, for three reasons. It reloads its dump only as a value that borrows from its reader, so
//! that an index could not be swapped while serving; it ends the process or panics on damaged files; and the dump
//! stores every vector a second time. It does not build by default either: only on one thread does it give the same
//! graph every time.
//!
//! Limit: where vectors differ in length several times over, the added number of Bachrach et al. 2014 puts the long
//! ones, which answer most questions, far from all others, and recall falls well below 0.99 (0.67 at a ratio of 13
//! between random vectors). Sentence encoders give lengths that are equal or differ by some percent. `dpr index`
//! measures and warns.

mod beam;
mod buffers;
mod build;
mod copies;
mod estimates;
mod graph;
mod library;
mod repair;
mod search;
#[cfg(test)]
mod tests;
mod visited;

use std::sync::{Arc, OnceLock};

use dpr_core::Embedding;
use serde::{Deserialize, Serialize};

use super::allowed::{rank_bounded, search_allowed};
use super::binary::{Binary, SignQuery};
use super::codes::rescored;
use super::quantized::{GraphQuery, Quantized};
use super::{
    BuildError, CancelToken, ExactIndex, IndexKind, Matrix, QueryError, RowSet, ScoredRow, Stopped,
    VectorIndex,
};
use crate::ranking::Candidate;
use buffers::BufferPool;
use search::{LayerView, descend, search_layer};

pub(super) use build::build;
pub(super) use graph::Graph;
pub(super) use library::build as build_with_library;

/// Parameters of the graph, named as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HnswParams {
    /// Links of a passage to others on the upper layers; twice as many on the lowest, and there m more, at most, to
    /// copies of it.
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
    /// The most candidates that a search keeps, or a build for each passage.
    pub const MAX_CANDIDATES: usize = 1 << 20;

    /// Refuses what `hnsw_rs` would panic on or end the process for.
    pub fn check(self) -> Result<(), BuildError> {
        let limits = [
            // The library keeps `m` in a byte, and draws layers by 1 / ln m.
            ("m", self.m, 2, 255),
            ("ef_construction", self.ef_construction, 1, Self::MAX_CANDIDATES),
            ("ef_search", self.ef_search, 1, Self::MAX_CANDIDATES),
        ];
        for (name, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(BuildError::Parameter { name, value, min, max });
            }
        }
        Ok(())
    }
}

/// Rows that a search meets for each candidate it keeps, about; with signs it scores fewer.
const LINKS_PASSED: usize = 10;

/// An index that searches a graph by beam search.
#[derive(Debug)]
pub struct HnswIndex {
    matrix: Arc<Matrix>,
    codes: Arc<Quantized>,
    /// The vectors in one bit a number; without them a search scores every row that it meets.
    signs: Option<Arc<Binary>>,
    graph: Graph,
    ef_search: usize,
    exact: ExactIndex,
    /// The result of [`estimates::are_used`], computed by the first search: it reads vectors, which opening does not.
    estimates: OnceLock<bool>,
    buffers: BufferPool,
}

/// A layer of the graph, for a question.
struct Asked<'a> {
    index: &'a HnswIndex,
    layer: usize,
    query: GraphQuery,
    signs: Option<SignQuery<'a>>,
    /// `true` if the score of a row is estimated by its signs first, and computed only for the best rows.
    estimates: bool,
}

impl LayerView for Asked<'_> {
    #[inline]
    fn links(&self, row: u32) -> &[u32] {
        self.index.graph.links(self.layer, row)
    }

    #[inline]
    fn prefetch_links(&self, row: u32) {
        self.index.graph.prefetch_links(row);
    }

    #[inline]
    fn score(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) {
        if let Some(signs) = &mut self.signs
            && floor > f32::NEG_INFINITY
        {
            signs.retain(rows, floor * self.query.unit(), |row| self.index.codes.prefetch(row));
        }
        self.index.codes.scores_at(&mut self.query, rows, scores);
    }

    #[inline]
    fn estimate(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) -> bool {
        let Some(signs) = self.signs.as_mut().filter(|_| self.estimates) else { return false };
        signs.estimate(rows, floor, self.query.unit(), scores);
        true
    }

    #[inline]
    fn margin(&self, row: u32) -> f32 {
        self.signs.as_ref().map_or(0.0, |signs| signs.margin(row, self.query.unit()))
    }

    #[inline]
    fn prefetch_row(&self, row: u32) {
        self.index.codes.prefetch(row);
    }
}

impl HnswIndex {
    pub(super) fn new(
        matrix: Arc<Matrix>,
        codes: Arc<Quantized>,
        signs: Option<Arc<Binary>>,
        graph: Graph,
        ef_search: usize,
    ) -> Self {
        let exact = ExactIndex::new(Arc::clone(&matrix));
        Self {
            matrix,
            codes,
            signs,
            graph,
            ef_search,
            exact,
            estimates: OnceLock::new(),
            buffers: BufferPool::default(),
        }
    }

    /// Finds `ef` rows by their quantized vectors and ranks the best of them by their vectors; `None` when fewer than
    /// `k` are found.
    fn find(
        &self,
        query: &[f32],
        k: usize,
        ef: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Option<Vec<ScoredRow>>, Stopped> {
        let mut asked = self.ask(query);
        let (entry, mut scores) = (self.graph.entry(), Vec::new());
        self.codes.scores_at(&mut asked.query, &[entry], &mut scores);
        let entry = Candidate { score: scores[0], row: entry };
        let near = (1..self.graph.layers()).rev().fold(entry, |here, layer| {
            asked.layer = layer;
            descend(here, &mut asked)
        });
        asked.layer = 0;
        // From the graph's entry every row can be reached, which is not sure of where the descent ended.
        let (starts, mut buffers) = ([near, entry], self.buffers.take(self.len()));
        let top = search_layer(&starts, (ef, k), allowed, &mut buffers, cancel, &mut asked);
        self.buffers.put(buffers);
        cancel.check()?;
        if top.len() < k {
            return Ok(None);
        }
        let best = &top[..top.len().min(rescored(k))];
        rank_bounded(&self.matrix, &self.codes, (query, &asked.query), best, k, cancel).map(Some)
    }

    /// Prepares a question.
    fn ask(&self, question: &[f32]) -> Asked<'_> {
        let query = GraphQuery::of(question);
        // A question of zeros scores all rows alike, and has no unit.
        let signs = self.signs.as_ref().filter(|_| query.unit() > 0.0);
        let are_used = |signs| estimates::are_used(&self.graph, &self.matrix, &self.codes, signs);
        let estimates = signs.is_some_and(|signs| *self.estimates.get_or_init(|| are_used(signs)));
        let signs = signs.map(|signs| signs.sign_query(question));
        Asked { index: self, layer: 0, query, signs, estimates }
    }

    /// Returns the candidates that a search for `k` keeps.
    fn ef(&self, k: usize) -> usize {
        candidates(self.ef_search, k)
    }
}

fn candidates(ef_search: usize, k: usize) -> usize {
    ef_search.max(k.saturating_add(k / 2))
}

/// Returns the [`VectorIndex::cost`] of one query of a graph of so many rows of so many numbers.
pub(super) fn cost(ef_search: usize, (rows, dim): (usize, usize), k: usize, filtered: bool) -> u64 {
    // A manifest may name any number of candidates.
    let (rows, passed) = (rows as u64, candidates(ef_search, k).saturating_mul(LINKS_PASSED) as u64);
    // Among few rows these are scored exactly: as many as the graph would pass to meet them, at most.
    let exactly = if filtered { passed.saturating_mul(rows).isqrt() } else { 0 };
    dim as u64 * (passed / 4 + exactly).min(rows)
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

    fn search_until(
        &self,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        let k = self.matrix.check(query, k)?.min(allowed.map_or(usize::MAX, RowSet::len));
        if k == 0 {
            return Ok(Vec::new());
        }
        let ef = self.ef(k);
        let is_exact_quicker = match allowed {
            // A beam of so many rows costs more than scoring all of them.
            None => ef >= self.len() / 2,
            // A search of the graph meets allowed rows in proportion; exact search scores only these.
            Some(allowed) => {
                ef.saturating_mul(LINKS_PASSED).saturating_mul(self.len()) / allowed.len() >= allowed.len()
            }
        };
        if !is_exact_quicker && let Some(found) = self.find(query.as_slice(), k, ef, allowed, cancel)? {
            return Ok(found);
        }
        match allowed {
            None => self.exact.search_until(query, k, None, cancel),
            Some(allowed) => {
                Ok(search_allowed(&self.matrix, &self.codes, query.as_slice(), allowed, k, cancel)?)
            }
        }
    }

    fn cost(&self, queries: usize, k: usize, filtered: bool) -> u64 {
        queries as u64 * cost(self.ef_search, (self.len(), self.dim()), k, filtered)
    }
}
