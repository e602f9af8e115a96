//! Errors of loading an encoder and of encoding texts.

use crate::config::ConfigError;
use crate::device::DeviceError;
use crate::embedding::EmbeddingError;
use crate::precision::PrecisionError;
use crate::tokenizer::TokenizerError;
use crate::weights::WeightsError;

/// The reason why an encoder cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// See [`ConfigError`].
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// See [`WeightsError`].
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// See [`TokenizerError`].
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// See [`PrecisionError`].
    #[error(transparent)]
    Precision(#[from] PrecisionError),
}

/// The reason why a text has no vector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A question without a word in it.
    #[error("the question is empty: give it at least one word")]
    Empty,
    /// See [`TokenizerError`].
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A row of no tokens, or of more than the encoder's limit.
    #[error("row {row} has {got} tokens; the encoder takes from 1 to {limit}: truncate it")]
    Length {
        /// Position in the batch.
        row: usize,
        /// Its tokens.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// A token id outside the vocabulary.
    #[error("row {row} has token id {id}; the vocabulary ends at {vocab_size}: was another tokenizer used?")]
    TokenId {
        /// Position in the batch.
        row: usize,
        /// The id.
        id: u32,
        /// Rows of the word embedding.
        vocab_size: usize,
    },
    /// A token type that the encoder has no embedding of, or was not trained with.
    #[error(
        "row {row} has token type {kind}; the encoder has types below {types}: was another tokenizer used?"
    )]
    TokenType {
        /// Position in the batch.
        row: usize,
        /// The type.
        kind: u8,
        /// Types that tokens of a pair may have.
        types: usize,
    },
    /// The encoder made numbers by which nothing can be ranked.
    #[error("the encoder made no usable vector ({0}): its weights are damaged, or the device failed")]
    Vector(#[from] EmbeddingError),
    /// A cross-encoder made a score by which nothing can be ranked.
    #[error(
        "the cross-encoder's score of pair {row} is not finite: its weights are damaged, or the device failed"
    )]
    Score {
        /// Position of the pair.
        row: usize,
    },
    /// The device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
}
