//! A collection of a cluster ranked as an index directory is: by rows of a list of passages, which grows as they are
//! found.

use std::collections::{HashMap, HashSet};

use dpr_core::Embedding;

use crate::data::Passage;
use crate::index::milvus::{MAX_K, MilvusError, MilvusIndex};
use crate::ranking::ScoredRow;

/// Passages that an answer of the cluster should hold at most: some tens of megabytes.
const ANSWER: usize = 16_384;

/// A collection, and the passages that were asked of it so far.
pub(super) struct Gathered {
    index: MilvusIndex,
    passages: Vec<Passage>,
    row_of: HashMap<String, usize>,
}

impl Gathered {
    pub(super) fn new(index: MilvusIndex) -> Self {
        Self { index, passages: Vec::new(), row_of: HashMap::new() }
    }

    pub(super) fn index(&self) -> &MilvusIndex {
        &self.index
    }

    /// The passages that were found so far.
    pub(super) fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// The best `k` passages for each vector.
    pub(super) fn rank(
        &mut self,
        vectors: &[Embedding],
        k: usize,
    ) -> Result<Vec<Vec<ScoredRow>>, MilvusError> {
        let (none, mut ranked) = (HashSet::new(), Vec::with_capacity(vectors.len()));
        for block in vectors.chunks((ANSWER / k.clamp(1, MAX_K)).max(1)) {
            for found in self.index.search(block, k, &none, &none)? {
                let rows = found
                    .into_iter()
                    .map(|found| ScoredRow { row: self.keep(found.passage), score: found.score });
                ranked.push(rows.collect());
            }
        }
        Ok(ranked)
    }

    /// Takes those of `ids` in that are there: a ranking is judged by them, found or not.
    pub(super) fn bring<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<(), MilvusError> {
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        for ids in ids.chunks(1000) {
            for passage in self.index.passages(ids)? {
                self.keep(passage);
            }
        }
        Ok(())
    }

    fn keep(&mut self, passage: Passage) -> usize {
        if let Some(row) = self.row_of.get(&passage.id) {
            return *row;
        }
        let row = self.passages.len();
        self.row_of.insert(passage.id.clone(), row);
        self.passages.push(passage);
        row
    }
}
