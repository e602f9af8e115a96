//! An index that answers in passages, wherever it is: a directory of this machine, or a service that keeps vectors.
//!
//! [`LiveIndex`] is the backend of an index directory, [`IndexWriter`] the one that changes it. Another kind of index
//! is one type that implements [`Backend`], and [`Writer`] where it can be changed, in a crate of its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use dpr_core::Embedding;
use dpr_data::Passage;
use serde::Serialize;

use super::{Cause, Filter, Hit, SearchError, Searcher, ServiceError};
use crate::{
    CancelToken, ChangeError, FileError, Health, IndexManifest, IndexWriter, LiveIndex, NewPassage, Put,
    Snapshot, UpdateError, VectorIndex as _,
};

/// An index that answers in passages. One instance serves all requests, from many threads at once.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Returns what is searched; its `model` and `dim` are what question vectors are checked by.
    fn describe(&self) -> Description;

    /// Returns for each vector (`[dim]`) its `k` passages of greatest inner product among those that `filter` allows,
    /// best first; fewer when there are fewer. All vectors are searched in one state of the index. Runs on the calling
    /// thread.
    ///
    /// # Errors
    /// [`SearchError`]: `k` = 0, a vector of another length, a filter that allows no passage, or a backend that fails.
    fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        self.search_until(vectors, k, filter, &CancelToken::never())
    }

    /// Searches as [`search`](Self::search) does, until `cancel` says to stop: for requests whose client may go and
    /// whose time may run out. A backend that searches in this process looks at the token as it goes; one that asks a
    /// service looks before and after.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), and [`SearchError::Stopped`].
    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError>;

    /// Returns an estimate of the work that a search for so many vectors is to this process: the f32 numbers that it
    /// reads, or as many as take the same time to read. 0 for a backend that searches elsewhere.
    fn cost(&self, _vectors: usize, _k: usize, _filter: Option<&Filter>) -> u64 {
        0
    }

    /// Returns the `k` passages of greatest inner product with `vector`, best first, each with its own vector `[dim]`,
    /// until `cancel` says to stop. A backend that looks vectors up after the search leaves out passages that are gone
    /// meanwhile.
    ///
    /// # Errors
    /// The errors of [`search_until`](Self::search_until) and of [`vectors`](Self::vectors).
    fn search_with_vectors(
        &self,
        vector: &Embedding,
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<(Hit, Vec<f32>)>, SearchError> {
        let found = self.search_until(std::slice::from_ref(vector), k, None, cancel)?;
        let hits = found.into_iter().flatten().collect::<Vec<_>>();
        let ids: Vec<String> = hits.iter().map(|hit| hit.id.clone()).collect();
        cancel.check()?;
        let mut vectors = self.vectors(&ids)?;
        Ok(hits.into_iter().filter_map(|hit| vectors.remove(&hit.id).map(|vector| (hit, vector))).collect())
    }

    /// Returns the vectors `[dim]` of the passages that have these ids; ids that are unknown are left out.
    ///
    /// # Errors
    /// [`SearchError`] when they cannot be read; [`SearchError::NoVectors`] for a backend that hands out none.
    fn vectors(&self, _ids: &[String]) -> Result<HashMap<String, Vec<f32>>, SearchError> {
        Err(SearchError::NoVectors)
    }

    /// Returns the passages that have these ids, in no order; ids that are unknown are left out.
    ///
    /// # Errors
    /// [`SearchError`] when they cannot be read.
    fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, SearchError>;

    /// Takes in what other processes changed, where the backend does not do that by itself.
    ///
    /// # Errors
    /// [`SearchError`] when it does not answer.
    fn refresh(&self) -> Result<(), SearchError> {
        Ok(())
    }

    /// Returns the index as it is now where this process holds its rows: it can then also be searched by words, and
    /// exactly. `None` for a backend that keeps its rows elsewhere.
    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        None
    }

    /// Returns what an operator must know of the index and no search shows. A backend that keeps its rows elsewhere has
    /// its own ways to tell.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// An index that can be changed while it is searched.
pub trait Writer: fmt::Debug + Send + Sync {
    /// Adds passages, each in the place of the one that has its id, if there is one. When it returns, the change is
    /// stored and in every search that begins.
    ///
    /// # Errors
    /// [`WriteError`]; passages that cannot be stored are refused before any is written.
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, WriteError>;

    /// Deletes the passages with these ids and returns their number. If any id is unknown, nothing is deleted.
    ///
    /// # Errors
    /// [`WriteError`].
    fn delete(&self, ids: Vec<String>) -> Result<usize, WriteError>;
}

/// An index, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Passages that are found: those built in and added, without those deleted.
    pub count: usize,
    /// Numbers in a vector.
    pub dim: usize,
    /// `exact`, `hnsw`, or the name of another backend.
    pub kind: String,
    /// Fingerprint of the model that made the vectors.
    pub model: String,
    /// The metric by which vectors are compared: `inner_product`.
    pub metric: String,
    /// A text that differs for every index that differs.
    pub version: String,
    /// The number of that version, from 1.
    pub number: u64,
    /// Passages added or replaced since that version was built.
    pub added: usize,
    /// Passages of that version that were replaced or deleted since.
    pub removed: usize,
    /// Passages added, replaced or deleted since that version was built, one by one.
    pub changes: u64,
}

impl Description {
    /// Returns the description of passages in a service that changes them in place: its `version` and its first number
    /// are all that there is to tell of its changes.
    pub fn of_service(kind: &str, count: usize, dim: usize, model: &str, version: &str) -> Self {
        Self {
            count,
            dim,
            kind: kind.to_owned(),
            model: model.to_owned(),
            metric: IndexManifest::INNER_PRODUCT.to_owned(),
            version: version.to_owned(),
            number: 1,
            added: 0,
            removed: 0,
            changes: 0,
        }
    }
}

/// The error of writing passages, by the part that is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Ids to delete that no passage has.
    #[error(transparent)]
    UnknownIds(Cause),
    /// A vector that the index cannot hold.
    #[error(transparent)]
    InvalidVector(Cause),
    /// A passage or an id that the index cannot hold: blank, twice, too long, or none at all.
    #[error(transparent)]
    InvalidPassage(Cause),
    /// The backend takes no more passages for now.
    #[error(transparent)]
    Full(Cause),
    /// The backend does not answer now.
    #[error(transparent)]
    Unavailable(Cause),
    /// The change could not be stored.
    #[error(transparent)]
    Failed(Cause),
}

impl From<UpdateError> for WriteError {
    fn from(error: UpdateError) -> Self {
        let of = match error {
            UpdateError::Change(error) => return error.into(),
            UpdateError::Overflow { .. } => Self::InvalidVector,
            UpdateError::TooLong(_) | UpdateError::TooLarge => Self::InvalidPassage,
            UpdateError::Full { .. } => Self::Full,
            _ => Self::Failed,
        };
        of(error.into())
    }
}

impl From<ChangeError> for WriteError {
    fn from(error: ChangeError) -> Self {
        let of = match &error {
            ChangeError::UnknownIds { .. } => Self::UnknownIds,
            ChangeError::Vector { .. } => Self::InvalidVector,
            ChangeError::Empty
            | ChangeError::Blank { .. }
            | ChangeError::ControlCharacter { .. }
            | ChangeError::DuplicateId { .. } => Self::InvalidPassage,
        };
        of(error.into())
    }
}

impl From<ServiceError> for WriteError {
    fn from(error: ServiceError) -> Self {
        let of = match &error {
            ServiceError::Dimension { .. } => Self::InvalidVector,
            ServiceError::Unavailable { .. } => Self::Unavailable,
            _ => Self::Failed,
        };
        of(error.into())
    }
}

impl Backend for LiveIndex {
    fn describe(&self) -> Description {
        let snapshot = Self::snapshot(self);
        let (base, manifest) = (snapshot.base(), &snapshot.base().manifest);
        Description {
            count: snapshot.len(),
            dim: manifest.dim,
            kind: manifest.kind.to_string(),
            model: manifest.model_fingerprint.clone(),
            metric: manifest.metric.clone(),
            version: base.version().to_owned(),
            number: base.number(),
            added: snapshot.added(),
            removed: snapshot.removed(),
            changes: snapshot.changes(),
        }
    }

    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        Searcher::of(Self::snapshot(self)).search_batch_until(vectors, k, filter, cancel)
    }

    fn cost(&self, vectors: usize, k: usize, filter: Option<&Filter>) -> u64 {
        Self::snapshot(self).cost(vectors, k, filter.is_some())
    }

    fn search_with_vectors(
        &self,
        vector: &Embedding,
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<(Hit, Vec<f32>)>, SearchError> {
        let snapshot = Self::snapshot(self);
        let rows = snapshot.search_until(vector, k, None, cancel)?;
        let vectors = rows.iter().map(|found| Ok(snapshot.vector(found.row)?.to_vec()));
        let vectors: Vec<Vec<f32>> = vectors.collect::<Result<_, FileError>>()?;
        Ok(Searcher::of(snapshot).hits(rows, cancel)?.into_iter().zip(vectors).collect())
    }

    fn vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, SearchError> {
        let snapshot = Self::snapshot(self);
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let filter = Filter { ids: ids.iter().cloned().collect(), ..Filter::default() };
        let rows = filter.rows(&snapshot)?;
        rows.iter().map(|row| Ok((snapshot.passage(row)?.id, snapshot.vector(row)?.to_vec()))).collect()
    }

    fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, SearchError> {
        let snapshot = Self::snapshot(self);
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let filter = Filter { ids: ids.iter().cloned().collect(), ..Filter::default() };
        let rows = filter.rows(&snapshot)?;
        rows.iter().map(|row| Ok(snapshot.passage(row)?)).collect()
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        Some(Self::snapshot(self))
    }

    fn health(&self) -> Health {
        Self::health(self)
    }
}

impl Writer for IndexWriter {
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, WriteError> {
        Ok(Self::put(self, passages)?)
    }

    fn delete(&self, ids: Vec<String>) -> Result<usize, WriteError> {
        Ok(Self::delete(self, ids)?)
    }
}
