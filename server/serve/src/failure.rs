//! Messages to a client about a failed search or update: its own mistakes in full, the server's by a stable sentence.
//! Causes go to the log, and nothing of questions or passages does.

use std::error::Error;

use dpr_core::EncodeError;
use dpr_encode::{EncodingError, UpdateError};
use dpr_index::search::{SearchError, WriteError};
use dpr_index::sparse::SparseError;
use dpr_index::{FileError, QueryError, UpdateError as IndexError};

use super::error::ApiError;
use super::vector_role::VectorRole;

/// The message about a backend that does not answer.
const AWAY: &str = "without an answer from the backend that keeps the passages";

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        match error {
            // Numbers near the top of f32 are finite, as is checked before; their products need not be.
            SearchError::Query(QueryError::Overflow { .. }) | SearchError::Blur(_) => {
                Self::InvalidVector(VectorRole::Question, error.to_string())
            }
            // A filter may allow no passage of the index as it is now.
            SearchError::NothingAllowed | SearchError::NoMetadata => Self::InvalidFilter(error.to_string()),
            SearchError::NoSparse | SearchError::NoVectors | SearchError::Sparse(SparseError::NotBuiltIn) => {
                Self::UnsupportedMethod(error.to_string())
            }
            SearchError::Encode(EncodeError::Empty | EncodeError::Length { .. }) => {
                Self::InvalidQuestion(error.to_string())
            }
            SearchError::Encode(error) => {
                tracing::error!("a question could not be encoded: {}", encoder_cause(&error));
                Self::Internal("the question could not be encoded")
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

/// Returns why an encoder failed, for the log: nothing of the text, as a tokenizer's error may hold.
fn encoder_cause(error: &EncodeError) -> String {
    match error {
        EncodeError::Tokenizer(_) => "the tokenizer failed".to_owned(),
        EncodeError::TokenId { .. } | EncodeError::TokenType { .. } => {
            "the tokenizer is not that of the encoder".to_owned()
        }
        error => error.to_string(),
    }
}

/// Returns why passages could not be encoded, for the log: nothing of their ids and texts.
fn encoding_cause(error: &UpdateError) -> String {
    match error {
        UpdateError::Encoding(EncodingError::Batch { source, .. }) => encoder_cause(source),
        UpdateError::Encoding(EncodingError::Vector { source, .. }) => source.to_string(),
        _ => "their vectors could not be collected".to_owned(),
    }
}

/// Returns whether an update failed for a reason that stays: the log of the index could not be written once, until a
/// new version has another log or the index is opened again; or an update before it panicked, or the lock of the
/// directory is gone, so that another process may be writing there, until the index is opened again.
fn is_for_good(cause: &(dyn Error + 'static)) -> bool {
    matches!(
        cause.downcast_ref::<IndexError>(),
        Some(
            IndexError::LogBroken { .. }
                | IndexError::Torn { .. }
                | IndexError::File(FileError::LockLost { .. })
        )
    )
}

impl From<UpdateError> for ApiError {
    fn from(error: UpdateError) -> Self {
        let text = error.to_string();
        match &error {
            UpdateError::Write(WriteError::UnknownIds(_)) => Self::UnknownPassage(text),
            UpdateError::Write(WriteError::InvalidVector(_)) => {
                Self::InvalidVector(VectorRole::Passage, text)
            }
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
                if let WriteError::Failed(cause) = error
                    && is_for_good(cause.as_ref())
                {
                    return Self::UpdatesBroken;
                }
                Self::Internal("the update could not be written")
            }
            _ => {
                tracing::error!("passages of an update could not be encoded: {}", encoding_cause(&error));
                Self::Internal("the passages could not be encoded")
            }
        }
    }
}
