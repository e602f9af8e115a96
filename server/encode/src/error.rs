//! Errors of encoding texts into vectors.

use std::path::PathBuf;

use dpr_core::{EmbeddingError, EncodeError};
use dpr_data::DataError;

use super::ShardError;
use dpr_index::vectors::{VectorsError, VectorsSpec};

/// The reason why texts were not encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// There is nothing to encode.
    #[error("there are no passages to encode: give a file that holds some")]
    Empty,
    /// The file of passages cannot be read.
    #[error(transparent)]
    Corpus(#[from] DataError),
    /// The file of passages changed while it was read.
    #[error("{path} changed while it was read: encode again when nothing writes there")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// See [`ShardError`].
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A text could not be tokenised.
    #[error("{row}: {source}")]
    Text {
        /// The text, as `passage "12-3"`.
        row: String,
        /// The encoder's error.
        source: EncodeError,
    },
    /// A batch could not be computed.
    #[error("a batch of {rows} rows of {tokens} tokens that begins with {first}: {source}")]
    Batch {
        /// The batch's first text.
        first: String,
        /// Texts in the batch.
        rows: usize,
        /// Tokens of the longest.
        tokens: usize,
        /// The encoder's error.
        source: EncodeError,
    },
    /// The encoder made numbers by which nothing can be ranked.
    #[error(
        "{row} has no usable vector: {source}; its weights are damaged or the device failed: import the model again, or encode on another device"
    )]
    Vector {
        /// The text.
        row: String,
        /// The fault of its vector.
        source: EmbeddingError,
    },
    /// The vectors could not be written, or belong to something else.
    #[error("{0}")]
    Vectors(#[from] VectorsError),
    /// Told to stop.
    #[error("stopped with {done} of {total} passages encoded and kept: {}", goes_on(*done))]
    Stopped {
        /// Rows handed on, in this run and before.
        done: usize,
        /// All rows.
        total: usize,
    },
}

/// Returns what the same command does after a stop.
fn goes_on(done: usize) -> String {
    match done {
        0 => format!("they are kept by {}, so the same command begins again", VectorsSpec::PART_SIZE),
        _ => "the same command continues from there".to_owned(),
    }
}
