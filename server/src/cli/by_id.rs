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

/// Most questions of one search: a service has one limit of time for all of them.
const QUESTIONS: usize = 50;

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
        for block in vectors.chunks((ANSWER / depth.clamp(1, ANSWER)).clamp(1, QUESTIONS)) {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use dpr_core::Embedding;
    use dpr_index::CancelToken;
    use dpr_index::search::{Description, Filter, Fusion, Hit, Method};

    use super::*;

    /// A service that notes of how many vectors each search is.
    #[derive(Debug, Default)]
    struct Noting(Mutex<Vec<usize>>);

    impl Backend for Noting {
        fn describe(&self) -> Description {
            Description::of_service("noting", 1, 1, "a model", "1")
        }

        fn search_until(
            &self,
            vectors: &[Embedding],
            _: usize,
            _: Option<&Filter>,
            _: &CancelToken,
        ) -> Result<Vec<Vec<Hit>>, SearchError> {
            self.0.lock().unwrap().push(vectors.len());
            Ok(vectors.iter().map(|_| vec![Hit::new(Passage::new("a", "", "Text."), 1.0)]).collect())
        }

        fn passages(&self, _: &[String]) -> Result<Vec<Passage>, SearchError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_service_is_asked_for_so_many_questions_as_its_time_is_enough_for() {
        for (depth, blocks) in
            [(1, vec![50, 50, 20]), (100, vec![50, 50, 20]), (1000, [vec![16; 7], vec![8]].concat())]
        {
            let backend = Arc::new(Noting::default());
            let vectors = vec![Embedding::new(vec![1.0], 1).unwrap(); 120];
            let (texts, filter) = (vec!["a"; 120], Filter::default());
            let request = Request {
                method: Method::Dense,
                texts: &texts,
                vectors: &vectors,
                depth,
                fusion: Fusion::PAPER,
                filter: &filter,
            };
            let mut ranked = ById::new(Arc::<Noting>::clone(&backend));
            let rows = ranked.rank(&request, (Scoring::PAPER, 1)).unwrap();
            assert!(rows.len() == 120 && rows.iter().all(|rows| rows.len() == 1));
            assert_eq!(*backend.0.lock().unwrap(), blocks, "{depth}");
        }
    }
}
