//! The error of searches in passages.

use std::error::Error;

use dpr_core::EncodeError;
use dpr_core::private::blur::BlurError;

use super::ServiceError;
use crate::sparse::SparseError;
use crate::{FileError, QueryError, Stopped};

/// The error of a backend, of whatever type it has there.
pub type Cause = Box<dyn Error + Send + Sync>;

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
    /// A blurred question that no index can be searched by.
    #[error("{0}")]
    Blur(#[source] BlurError),
    /// Words to search by are not indexed.
    #[error("the index has no inverted index, so that it cannot be searched by words")]
    NoSparse,
    /// Vectors to search by are not indexed.
    #[error("the index has no vectors")]
    NoVectors,
    /// A filter that no passage passes.
    #[error(
        "the index holds no passage with these ids, titles and metadata; names of fields and types of values must be \
         those of the passages: the number 2020 is not the text \"2020\""
    )]
    NothingAllowed,
    /// A filter by metadata where the backend keeps none.
    #[error("the passages are kept without metadata, so that they cannot be filtered by it: load them again")]
    NoMetadata,
    /// See [`QueryError`].
    #[error("{0}")]
    Query(#[source] QueryError),
    /// See [`Stopped`].
    #[error("{0}")]
    Stopped(#[from] Stopped),
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
    Sparse(#[source] SparseError),
    /// See [`EncodeError`].
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl From<QueryError> for SearchError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Stopped(stopped) => Self::Stopped(stopped),
            error => Self::Query(error),
        }
    }
}

impl From<SparseError> for SearchError {
    fn from(error: SparseError) -> Self {
        match error {
            SparseError::Stopped(stopped) => Self::Stopped(stopped),
            error => Self::Sparse(error),
        }
    }
}

impl From<ServiceError> for SearchError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Unavailable { .. } => Self::Unavailable(error.into()),
            error => Self::Backend(error.into()),
        }
    }
}
