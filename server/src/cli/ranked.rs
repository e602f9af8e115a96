//! Passages that questions are ranked against, by rows: an index directory, or a backend that knows passages by their
//! ids.

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_index::search::{Filter, Fusion, Method, Ranker, SearchError};
use dpr_index::sparse::Scoring;
use dpr_index::{RowSet, ScoredRow};

use super::CliError;
use super::opened::{self, Opened};

/// Passages that are ranked. A row is an index into them, and stays one while they are open.
pub(super) trait Ranked {
    /// Returns the passages in memory, by row: all of a directory where they were read, or those found so far.
    fn passages(&self) -> &[Passage];

    /// Returns the passage of a row that was ranked.
    fn passage(&self, row: usize) -> Result<Passage, CliError>;

    /// Returns the number of passages in the index.
    fn count(&self) -> usize;

    /// Returns the fingerprint of the model, where vectors are compared.
    fn model(&self) -> Option<String>;

    /// Returns how vectors are searched, where they are.
    fn kind(&self) -> Option<String>;

    /// Takes in those of the passages with these ids that are not known by row.
    fn take_in(&mut self, _ids: &mut dyn Iterator<Item = &str>) -> Result<(), SearchError> {
        Ok(())
    }

    /// Returns the rows asked for, best first. `scoring` is BM25 with its constants, and the depth of hybrid ranking.
    fn rank(
        &mut self,
        request: &Request<'_>,
        scoring: (Scoring, usize),
    ) -> Result<Vec<Vec<ScoredRow>>, CliError>;

    /// Returns the index directory, where it is one.
    fn directory(&self) -> Option<&dyn Opened> {
        None
    }
}

/// The best rows that are asked for.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// The questions.
    pub(super) texts: &'a [&'a str],
    /// Their vectors (`[dim]` each), where the method compares vectors.
    pub(super) vectors: &'a [Embedding],
    /// Rows for each question.
    pub(super) depth: usize,
    pub(super) fusion: Fusion,
    pub(super) filter: &'a Filter,
}

/// An index directory.
pub(super) struct Directory {
    opened: Box<dyn Opened>,
    /// All passages by row, where they were read: built-in ones, then added ones.
    passages: Vec<Passage>,
}

impl Directory {
    /// Takes a directory whose passages are read when they are asked for.
    pub(super) fn new(opened: Box<dyn Opened>) -> Self {
        Self { opened, passages: Vec::new() }
    }

    /// Takes a directory and reads all its passages.
    pub(super) fn with_passages(opened: Box<dyn Opened>) -> Result<Self, CliError> {
        let passages = opened.read_passages()?;
        Ok(Self { opened, passages })
    }
}

impl Ranked for Directory {
    fn passages(&self) -> &[Passage] {
        &self.passages
    }

    fn passage(&self, row: usize) -> Result<Passage, CliError> {
        Ok(self.opened.passage(row)?)
    }

    fn count(&self) -> usize {
        self.passages.len()
    }

    fn model(&self) -> Option<String> {
        Some(self.opened.searcher()?.model_fingerprint().to_owned())
    }

    fn kind(&self) -> Option<String> {
        Some(self.opened.searcher()?.index().index.kind().to_string())
    }

    fn rank(
        &mut self,
        request: &Request<'_>,
        (bm25, depth): (Scoring, usize),
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        let &Request { filter, .. } = request;
        let allowed = (!filter.is_empty()).then(|| self.opened.allowed(filter)).transpose()?;
        if allowed.as_ref().is_some_and(RowSet::is_empty) {
            return Err(SearchError::NothingAllowed.into());
        }
        let opened = self.opened.as_ref();
        let (words, vectors) = (opened.word_index(), opened::vectors(opened));
        let ranker = Ranker { words, vectors, allowed: allowed.as_ref(), bm25, depth };
        Ok(ranker.rank(request.method, request.texts, request.vectors, request.depth, request.fusion)?)
    }

    fn directory(&self) -> Option<&dyn Opened> {
        Some(self.opened.as_ref())
    }
}
