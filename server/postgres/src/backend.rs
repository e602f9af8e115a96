//! A table as a backend of searches and updates.

use std::collections::HashMap;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_index::search::{Backend, Description, Filter, Hit, SearchError, WriteError, Writer};
use dpr_index::{CancelToken, Health, NewPassage, Put};

use crate::{PostgresError, PostgresIndex};

impl From<PostgresError> for SearchError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Service(error) => error.into(),
            PostgresError::Stopped(stopped) => Self::Stopped(stopped),
            PostgresError::NoMetadata { .. } => Self::NoMetadata,
            error => Self::Backend(error.into()),
        }
    }
}

impl From<PostgresError> for WriteError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Change(error) => error.into(),
            PostgresError::Service(error) => error.into(),
            PostgresError::Overflow { .. } => Self::InvalidVector(error.into()),
            PostgresError::Field { .. } | PostgresError::Value { .. } => Self::InvalidPassage(error.into()),
            error => Self::Failed(error.into()),
        }
    }
}

impl Backend for PostgresIndex {
    fn describe(&self) -> Description {
        let described = self.described();
        let (dim, model) = (described.dim, &described.model_fingerprint);
        Description::of_service("postgres", self.count(), dim, model, &self.version())
    }

    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        Self::search_until(self, vectors, k, filter, cancel)?.ok_or(SearchError::NothingAllowed)
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

impl Writer for PostgresIndex {
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, WriteError> {
        Ok(Self::put(self, &passages)?)
    }

    fn delete(&self, ids: Vec<String>) -> Result<usize, WriteError> {
        Ok(Self::delete(self, &ids)?)
    }
}
