//! A collection as a backend of searches and updates.

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_index::search::{Backend, Description, Filter, Hit, SearchError, WriteError, Writer};
use dpr_index::{CancelToken, IndexManifest, NewPassage, Put};

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
            MilvusError::Slow { .. } => Self::Unavailable(error.into()),
            MilvusError::NoMetadata { .. } => Self::NoMetadata,
            error => Self::Backend(error.into()),
        }
    }
}

impl From<MilvusError> for WriteError {
    fn from(error: MilvusError) -> Self {
        let of = match &error {
            MilvusError::Unknown { .. } => Self::UnknownIds,
            MilvusError::Vector { .. } | MilvusError::Dimension { .. } => Self::InvalidVector,
            MilvusError::Blank { .. }
            | MilvusError::NoMetadata { .. }
            | MilvusError::DuplicateId { .. }
            | MilvusError::TooLong { .. }
            | MilvusError::Empty => Self::InvalidPassage,
            MilvusError::Slow { .. } => Self::Unavailable,
            _ => Self::Failed,
        };
        of(error.into())
    }
}

impl Backend for MilvusIndex {
    fn describe(&self) -> Description {
        let described = self.described();
        Description {
            count: self.count(),
            dim: described.dim,
            kind: "milvus".to_owned(),
            model: described.model_fingerprint.clone(),
            metric: IndexManifest::INNER_PRODUCT.to_owned(),
            version: self.version().to_owned(),
            // Milvus changes a collection in place.
            number: 1,
            added: 0,
            removed: 0,
            changes: 0,
        }
    }

    fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        self.search_until(vectors, k, filter, &CancelToken::never())
    }

    /// The cluster's answer arrives whole; what is bounded is what becomes of it.
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

    fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, SearchError> {
        Ok(Self::passages(self, ids)?)
    }

    fn refresh(&self) -> Result<(), SearchError> {
        Ok(Self::refresh(self).map(drop)?)
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
