//! An index that answers in passages.

use std::sync::Arc;

use dpr_core::{Embedding, EncodeError};
use dpr_data::Passage;
use serde::Serialize;

use super::{Cause, Filter};
use crate::ranking::ScoredRow;
use crate::sparse::SparseError;
use crate::{FileError, LoadedIndex, QueryError, Snapshot, VectorIndex as _};

/// A passage found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// The passage's id in its corpus.
    pub id: String,
    /// Inner product of question and passage vector (paper §3.1), or what another [`Method`](super::Method) ranks by;
    /// greater is better.
    pub score: f32,
    /// The passage's title.
    pub title: String,
    /// The passage's text.
    pub text: String,
}

/// The error of a search in passages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The question was, or would be, encoded by another model than the passages.
    #[error("the index was built by model {index}, the question's model is {question}")]
    WrongModel {
        /// Fingerprint of the model the index was built by.
        index: String,
        /// Fingerprint of the question's.
        question: String,
    },
    /// Words to search by are not indexed.
    #[error("the index has no inverted index, so that it cannot be searched by words")]
    NoSparse,
    /// Vectors to search by are not indexed.
    #[error("the index has no vectors")]
    NoVectors,
    /// A filter that no passage passes.
    #[error("the index holds no passage with these ids and titles")]
    NothingAllowed,
    /// See [`QueryError`].
    #[error("{0}")]
    Query(#[from] QueryError),
    /// Passages that were found cannot be read.
    #[error("{0}")]
    File(#[from] FileError),
    /// The backend does not answer now, and may later.
    #[error(transparent)]
    Unavailable(Cause),
    /// The backend failed.
    #[error(transparent)]
    Backend(Cause),
    /// See [`SparseError`].
    #[error("{0}")]
    Sparse(#[from] SparseError),
    /// See [`EncodeError`].
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Searches one index as it was at one moment; shared by as many threads as there are.
#[derive(Clone, Debug)]
pub struct Searcher {
    snapshot: Arc<Snapshot>,
}

impl Searcher {
    /// Searches `index`.
    pub fn new(index: LoadedIndex) -> Self {
        Self::of(Arc::new(Snapshot::of(index)))
    }

    /// Searches an index with its updates.
    pub fn of(snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot }
    }

    /// The `k` passages of greatest inner product with `vector` `[dim]`, best first; all of them when the index
    /// holds fewer.
    ///
    /// # Errors
    /// [`SearchError::Query`] for `k` = 0, or a vector of another size.
    pub fn search(&self, vector: &Embedding, k: usize) -> Result<Vec<Hit>, SearchError> {
        self.snapshot.search(vector, k)?.into_iter().map(|scored| self.hit(scored)).collect()
    }

    /// As [`search`](Self::search) for each vector, in their order, among the passages that `filter` allows. Without a
    /// filter an exact index is read once for the whole batch.
    ///
    /// # Errors
    /// Those of [`search`](Self::search), and [`SearchError::NothingAllowed`] for a filter that allows no passage.
    pub fn search_batch(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        let rows = match (filter.map(|filter| filter.rows(&self.snapshot)).transpose()?, vectors) {
            (Some(allowed), _) if allowed.is_empty() => return Err(SearchError::NothingAllowed),
            (Some(allowed), vectors) => {
                let search = |vector| self.snapshot.search_among(vector, k, &allowed);
                vectors.iter().map(search).collect::<Result<Vec<_>, _>>()?
            }
            (None, [vector]) => vec![self.snapshot.search(vector, k)?],
            (None, vectors) => self.snapshot.search_batch(vectors, k)?,
        };
        rows.into_iter().map(|rows| rows.into_iter().map(|scored| self.hit(scored)).collect()).collect()
    }

    /// The passage of a row that a search of this index returned.
    pub fn hit(&self, ScoredRow { row, score }: ScoredRow) -> Result<Hit, SearchError> {
        let Passage { id, title, text } = self.snapshot.passage(row)?;
        Ok(Hit { id, score, title, text })
    }

    /// Refuses a question encoder whose vectors the index cannot be searched with.
    ///
    /// # Errors
    /// [`SearchError::WrongModel`] with both fingerprints.
    pub fn check_model(&self, fingerprint: &str) -> Result<(), SearchError> {
        if fingerprint == self.model_fingerprint() {
            return Ok(());
        }
        let (index, question) = (self.model_fingerprint().to_owned(), fingerprint.to_owned());
        Err(SearchError::WrongModel { index, question })
    }

    /// Fingerprint of the model whose vectors are in the index.
    pub fn model_fingerprint(&self) -> &str {
        &self.index().manifest.model_fingerprint
    }

    /// Numbers in a vector.
    pub fn dim(&self) -> usize {
        self.snapshot.dim()
    }

    /// The index searched, as it was built.
    pub fn index(&self) -> &LoadedIndex {
        self.snapshot.base()
    }

    /// The index searched, with its updates.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}
