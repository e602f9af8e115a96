//! A collection as a backend of searches and updates.

use std::collections::HashMap;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_index::search::{Backend, Description, Filter, Hit, SearchError, WriteError, Writer};
use dpr_index::{CancelToken, Health, NewPassage, Put};

use crate::index::Found;
use crate::{MilvusError, MilvusIndex};

impl From<Found> for Hit {
    fn from(Found { passage, score }: Found) -> Self {
        Self::new(passage, score)
    }
}

impl From<MilvusError> for SearchError {
    fn from(error: MilvusError) -> Self {
        match error {
            MilvusError::Service(error) => error.into(),
            MilvusError::NoMetadata { .. } => Self::NoMetadata,
            error => Self::Backend(error.into()),
        }
    }
}

impl From<MilvusError> for WriteError {
    fn from(error: MilvusError) -> Self {
        match error {
            MilvusError::Change(error) => error.into(),
            MilvusError::Service(error) => error.into(),
            MilvusError::NoMetadata { .. } | MilvusError::TooLong { .. } => {
                Self::InvalidPassage(error.into())
            }
            error => Self::Failed(error.into()),
        }
    }
}

impl Backend for MilvusIndex {
    fn describe(&self) -> Description {
        let described = self.described();
        let (dim, model) = (described.dim, &described.model_fingerprint);
        Description::of_service("milvus", self.count(), dim, model, self.version())
    }

    /// Searches as [`Backend::search_until`] says. The answer of the cluster arrives whole, whatever its size; the
    /// token counts the bytes of the passages that are made of it.
    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        cancel.check()?;
        let all = Filter::default();
        let filter = filter.unwrap_or(&all);
        let found = Self::search(self, vectors, k, filter)?;
        if !filter.is_empty() && found.iter().all(Vec::is_empty) {
            return Err(SearchError::NothingAllowed);
        }
        found.iter().flatten().try_for_each(|found| cancel.count_found(&found.passage))?;
        Ok(found.into_iter().map(|found| found.into_iter().map(Hit::from).collect()).collect())
    }

    fn vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, SearchError> {
        Ok(Self::vectors(self, ids)?)
    }

    fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, SearchError> {
        Ok(Self::passages(self, ids)?)
    }

    fn refresh(&self) -> Result<(), SearchError> {
        Ok(self.health.answered(Self::refresh(self)).map(drop)?)
    }

    fn health(&self) -> Health {
        self.health.now()
    }
}

impl Writer for MilvusIndex {
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, WriteError> {
        Ok(Self::put(self, &passages)?)
    }

    fn delete(&self, ids: Vec<String>) -> Result<usize, WriteError> {
        Ok(Self::delete(self, &ids)?)
    }
}
