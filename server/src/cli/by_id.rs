//! A backend that knows passages by their ids, ranked as an index directory is: by rows of a list that grows as
//! passages are found.

use std::collections::HashMap;
use std::sync::Arc;

use dpr_data::Passage;
use dpr_index::ScoredRow;
use dpr_index::search::{Backend, SearchError};
use dpr_index::sparse::Scoring;

use super::CliError;
use super::ranked::{Ranked, Request};

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

impl Ranked for ById {
    fn passages(&self) -> &[Passage] {
        &self.passages
    }

    fn passage(&self, row: usize) -> Result<Passage, CliError> {
        Ok(self.passages[row].clone())
    }

    fn count(&self) -> usize {
        self.backend.describe().count
    }

    fn model(&self) -> Option<String> {
        Some(self.backend.describe().model)
    }

    fn kind(&self) -> Option<String> {
        Some(self.backend.describe().kind)
    }

    fn take_in(&mut self, ids: &mut dyn Iterator<Item = &str>) -> Result<(), SearchError> {
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        for ids in ids.chunks(IDS) {
            for passage in self.backend.passages(ids)? {
                self.keep(passage);
            }
        }
        Ok(())
    }

    /// By vectors: a backend without rows of its own holds no words, and opening refuses methods that need them.
    fn rank(
        &mut self,
        request: &Request<'_>,
        _scoring: (Scoring, usize),
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        let &Request { vectors, depth, filter, .. } = request;
        let filter = Some(filter).filter(|filter| !filter.is_empty());
        let mut ranked = Vec::with_capacity(vectors.len());
        for block in vectors.chunks((ANSWER / depth.clamp(1, ANSWER)).max(1)) {
            for hits in self.backend.search(block, depth, filter)? {
                let rows = hits.into_iter().map(|hit| {
                    let score = hit.score;
                    ScoredRow { row: self.keep(hit.into_passage()), score }
                });
                ranked.push(rows.collect());
            }
        }
        Ok(ranked)
    }
}
