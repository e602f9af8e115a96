//! An index that answers in passages.

use std::sync::Arc;

use dpr_core::Embedding;
use dpr_data::{Metadata, Passage};
use serde::Serialize;

use super::{Filter, SearchError};
use crate::ranking::ScoredRow;
use crate::{CancelToken, LoadedIndex, Snapshot, VectorIndex as _};

/// Passages that are read between two looks at whether to stop.
const LOOK_HITS: usize = 64;

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
    /// The passage's metadata; not written where there is none.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Hit {
    /// Makes a hit of the passage found and its score.
    pub fn new(passage: Passage, score: f32) -> Self {
        let Passage { id, title, text, metadata } = passage;
        Self { id, score, title, text, metadata }
    }

    /// Returns the passage.
    pub fn into_passage(self) -> Passage {
        Passage::new(self.id, self.title, self.text).with_metadata(self.metadata)
    }
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
        self.hits(self.snapshot.search(vector, k)?, &CancelToken::never())
    }

    /// As [`search`](Self::search) for each vector, in their order, among the passages that `filter` allows. A filter
    /// is evaluated once for the whole batch; without one, or with an empty one, an exact index is read once for it.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), and [`SearchError::NothingAllowed`] for a filter that allows no passage.
    pub fn search_batch(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        self.search_batch_until(vectors, k, filter, &CancelToken::never())
    }

    /// Searches as [`search_batch`](Self::search_batch) does, until `cancel` says to stop.
    ///
    /// # Errors
    /// The errors of [`search_batch`](Self::search_batch), and [`SearchError::Stopped`].
    pub fn search_batch_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        cancel.check()?;
        let rows = match (Filter::allowed(filter, &self.snapshot, cancel)?, vectors) {
            (Some(allowed), vectors) => {
                let search = |vector| self.snapshot.search_until(vector, k, Some(&allowed), cancel);
                vectors.iter().map(search).collect::<Result<Vec<_>, _>>()?
            }
            (None, [vector]) => vec![self.snapshot.search_until(vector, k, None, cancel)?],
            (None, vectors) => self.snapshot.search_batch_until(vectors, k, cancel)?,
        };
        rows.into_iter().map(|rows| self.hits(rows, cancel)).collect()
    }

    /// Returns the passages of rows that a search of this index returned, until `cancel` says to stop: also where they
    /// come to more bytes than it allows.
    pub(super) fn hits(&self, rows: Vec<ScoredRow>, cancel: &CancelToken) -> Result<Vec<Hit>, SearchError> {
        let mut hits = Vec::with_capacity(rows.len());
        for (at, ScoredRow { row, score }) in rows.into_iter().enumerate() {
            if at.is_multiple_of(LOOK_HITS) {
                cancel.check()?;
            }
            let passage = self.snapshot.passage(row)?;
            cancel.count_found(&passage)?;
            hits.push(Hit::new(passage, score));
        }
        Ok(hits)
    }

    /// The passage of a row that a search of this index returned.
    pub fn hit(&self, ScoredRow { row, score }: ScoredRow) -> Result<Hit, SearchError> {
        Ok(Hit::new(self.snapshot.passage(row)?, score))
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
