//! A backend that knows passages by their ids, ranked as an index directory is: by rows of a list that grows as
//! passages are found.

use std::collections::HashMap;
use std::sync::Arc;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_index::ScoredRow;
use dpr_index::search::{Backend, Filter, SearchError};

/// Most passages that one answer of the backend should hold: some tens of megabytes.
const ANSWER: usize = 16_384;

/// Ids that the backend is asked for at once.
const IDS: usize = 1000;

/// A backend, and the passages that were found or asked for so far.
pub(super) struct ById {
    backend: Arc<dyn Backend>,
    passages: Vec<Passage>,
    row_of: HashMap<String, usize>,
}

impl ById {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, passages: Vec::new(), row_of: HashMap::new() }
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// Returns the passages that were found so far, by row.
    pub(super) fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// Returns the best `k` passages for each vector among those that `filter` allows.
    pub(super) fn rank(
        &mut self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<ScoredRow>>, SearchError> {
        let mut ranked = Vec::with_capacity(vectors.len());
        for block in vectors.chunks((ANSWER / k.clamp(1, ANSWER)).max(1)) {
            for hits in self.backend.search(block, k, filter)? {
                let rows = hits.into_iter().map(|hit| {
                    let score = hit.score;
                    ScoredRow { row: self.keep(hit.into_passage()), score }
                });
                ranked.push(rows.collect());
            }
        }
        Ok(ranked)
    }

    /// Takes in those of the passages with these ids that are there: a ranking is judged by them, found or not.
    pub(super) fn take_in<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<(), SearchError> {
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        for ids in ids.chunks(IDS) {
            for passage in self.backend.passages(ids)? {
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
