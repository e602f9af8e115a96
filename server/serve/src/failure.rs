//! Messages to a client about a failed search or update: its own mistakes in full, the server's by a stable sentence.
//! Causes go to the log, and nothing of questions or passages does.

use dpr_encode::{EncodingError, UpdateError};
use dpr_index::QueryError;
use dpr_index::search::{SearchError, WriteError};

use super::error::ApiError;

/// The message about a backend that does not answer.
const AWAY: &str = "without an answer from the backend that keeps the passages";

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        match error {
            // Numbers near the top of f32 are finite, as is checked before; their products need not be.
            SearchError::Query(QueryError::Overflow { .. }) | SearchError::Blur(_) => {
                Self::InvalidVector(error.to_string())
            }
            // A filter may allow no passage of the index as it is now.
            SearchError::NothingAllowed | SearchError::NoMetadata => Self::InvalidFilter(error.to_string()),
            SearchError::NoSparse | SearchError::NoVectors | SearchError::Encode(_) => {
                Self::InvalidQuestion(error.to_string())
            }
            // Nobody waits for the answer of a search that was cancelled.
            SearchError::Stopped(_) => Self::NotReady("told to stop this search before its end"),
            SearchError::Unavailable(_) => {
                tracing::error!("a search failed: {error}");
                Self::NotReady(AWAY)
            }
            error => {
                tracing::error!("a search failed: {error}");
                Self::Internal("the search failed")
            }
        }
    }
}

impl From<UpdateError> for ApiError {
    fn from(error: UpdateError) -> Self {
        let text = error.to_string();
        match &error {
            UpdateError::Write(WriteError::UnknownIds(_)) => Self::UnknownPassage(text),
            UpdateError::Write(WriteError::InvalidVector(_)) => Self::InvalidVector(text),
            UpdateError::NoEncoder { .. }
            | UpdateError::Encoding(EncodingError::Text { .. })
            | UpdateError::Write(WriteError::InvalidPassage(_)) => Self::InvalidPassage(text),
            UpdateError::Write(WriteError::Full(_)) => Self::IndexFull(text),
            // Nobody is there to read this.
            UpdateError::Encoding(EncodingError::Stopped { .. }) => Self::Internal("the client has gone"),
            UpdateError::Write(WriteError::Unavailable(_)) => {
                tracing::error!("an update failed: {error}");
                Self::NotReady(AWAY)
            }
            // Paths and causes, for the operator; nothing of the passages.
            UpdateError::Write(error) => {
                tracing::error!("an update failed: {error}");
                Self::Internal("the update could not be written")
            }
            _ => {
                tracing::error!("passages of an update could not be encoded");
                Self::Internal("the passages could not be encoded")
            }
        }
    }
}
