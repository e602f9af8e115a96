//! Text encoder: a tokenizer and an engine that belong together, text in and vectors out.

use crate::config::{ConfigError, EncoderConfig, Side};
use crate::device::{Device, DeviceError};
use crate::embedding::{Embedding, EmbeddingError};
use crate::kernel::KernelEncoder;
use crate::tokenizer::{TextTokenizer, TokenizerError};
use crate::weights::{TensorMap, WeightsError};

/// The bytes of one encoder's three files.
#[derive(Clone, Copy, Debug)]
pub struct EncoderBytes<'a> {
    /// `config.json`.
    pub config: &'a [u8],
    /// `tokenizer.json`.
    pub tokenizer: &'a [u8],
    /// `(name, bytes)` of `model.safetensors`, or of each shard.
    pub weights: &'a [(&'a str, &'a [u8])],
}

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
    /// The encoder made numbers by which nothing can be ranked.
    #[error("the encoder made no usable vector ({0}): its weights are damaged, or the device failed")]
    Vector(#[from] EmbeddingError),
    /// The device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
}

enum Engine {
    Kernel(Box<KernelEncoder>),
    #[cfg(feature = "burn")]
    Burn {
        net: Box<crate::encoder::Encoder>,
        device: burn::tensor::Device,
        multiple_of: usize,
    },
}

/// A question or passage encoder: text to vectors of [`TextEncoder::dim`] numbers.
pub struct TextEncoder {
    config: EncoderConfig,
    tokenizer: TextTokenizer,
    engine: Engine,
    device_name: String,
    side: Side,
}

impl TextEncoder {
    /// Loads an encoder on `device`; texts are truncated to `max_tokens`, or to the config's limit.
    ///
    /// # Errors
    /// [`LoadError`] says which file is wrong and what in it.
    pub fn load(
        files: &EncoderBytes<'_>,
        max_tokens: Option<usize>,
        device: &Device,
    ) -> Result<Self, LoadError> {
        let mut config = EncoderConfig::from_json(files.config)?;
        if let Some(limit) = max_tokens {
            config.max_tokens = limit.clamp(4, config.position_limit());
        }
        let tokenizer = TextTokenizer::from_json(files.tokenizer, &config)?;
        let tensors = TensorMap::from_safetensors(files.weights.iter().copied())?;
        Self::from_parts(config, tokenizer, tensors, device)
    }

    /// Puts an encoder together from its parts.
    ///
    /// # Errors
    /// [`LoadError::Weights`] when the tensors do not fit the config.
    pub fn from_parts(
        config: EncoderConfig,
        tokenizer: TextTokenizer,
        tensors: TensorMap,
        device: &Device,
    ) -> Result<Self, LoadError> {
        let engine = match device {
            Device::Kernel => Engine::Kernel(Box::new(KernelEncoder::new(&config, tensors)?)),
            #[cfg(feature = "burn")]
            Device::Burn { device, gpu, .. } => Engine::Burn {
                net: Box::new(crate::encoder::Encoder::load(&config, tensors, device)?),
                device: device.clone(),
                // GPU kernels are tuned and tiled by length: few distinct lengths mean few of them.
                multiple_of: if *gpu { 16 } else { 1 },
            },
        };
        Ok(Self { config, tokenizer, engine, device_name: device.name().to_owned(), side: Side::Question })
    }

    /// Returns the encoder with vectors for `side`, which is [`Side::Question`] otherwise. The two differ only for a
    /// model that compares by the Euclidean distance; see [`EncoderConfig::coordinate`].
    #[must_use]
    pub fn on_side(self, side: Side) -> Self {
        Self { side, ..self }
    }

    /// Returns the encoder's sizes.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Returns the number of numbers in a vector.
    pub fn dim(&self) -> usize {
        self.config.vector_dim()
    }

    /// Returns the number of tokens that a text is truncated to.
    pub fn max_tokens(&self) -> usize {
        self.tokenizer.max_tokens()
    }

    /// Returns the device that the encoder runs on: `cpu`, `flex`, or the name of the GPU adapter.
    pub fn device_name(&self) -> &str {
        &self.device_name
    }

    /// Returns the ids of a question, at most [`TextEncoder::max_tokens`].
    ///
    /// # Errors
    /// [`EncodeError::Tokenizer`].
    pub fn question_tokens(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        Ok(self.tokenizer.question(text)?)
    }

    /// Returns the ids of a passage, at most [`TextEncoder::max_tokens`].
    ///
    /// # Errors
    /// [`EncodeError::Tokenizer`].
    pub fn passage_tokens(&self, title: &str, text: &str) -> Result<Vec<u32>, EncodeError> {
        Ok(self.tokenizer.passage(title, text)?)
    }

    /// Encodes rows of token ids as one batch and returns their vectors, row-major `[rows, dim]`.
    ///
    /// On the CPU kernels a row's vector does not depend on the others in its batch, to the bit.
    ///
    /// # Errors
    /// [`EncodeError`] for a row of no tokens or too many, an id outside the vocabulary, or a failed device.
    #[cfg(not(target_family = "wasm"))]
    pub fn forward(&self, rows: &[Vec<u32>]) -> Result<Vec<f32>, EncodeError> {
        pollster::block_on(self.forward_async(rows))
    }

    /// Encodes as `forward` does, where waiting for a GPU must not block: in a browser.
    ///
    /// # Errors
    /// [`EncodeError`] as from `forward`.
    pub async fn forward_async(&self, rows: &[Vec<u32>]) -> Result<Vec<f32>, EncodeError> {
        self.check(rows)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let vectors = match &self.engine {
            Engine::Kernel(kernel) => kernel.forward(rows),
            #[cfg(feature = "burn")]
            Engine::Burn { net, device, multiple_of } => {
                let limit = self.config.position_limit();
                let batch =
                    crate::encoder::TokenBatch::new(rows, self.config.pad_token_id, *multiple_of, limit);
                let vectors = net.forward(&batch, &self.config, device);
                let data =
                    vectors.into_data_async().await.map_err(|e| EncodeError::Device(format!("{e:?}")))?;
                data.convert::<f32>()
                    .try_into_vec::<f32>()
                    .map_err(|e| EncodeError::Device(format!("{e:?}")))?
            }
        };
        Ok(self.with_coordinates(vectors))
    }

    /// Returns the network's vectors as they are indexed and searched.
    fn with_coordinates(&self, vectors: Vec<f32>) -> Vec<f32> {
        if self.config.l2.is_none() {
            return vectors;
        }
        let rows = vectors.chunks_exact(self.config.dim());
        rows.flat_map(|row| row.iter().copied().chain(self.config.coordinate(self.side, row))).collect()
    }

    /// Returns the vector of a question.
    ///
    /// # Errors
    /// [`EncodeError::Empty`] for a blank question, else as `forward`.
    #[cfg(not(target_family = "wasm"))]
    pub fn encode_question(&self, text: &str) -> Result<Embedding, EncodeError> {
        pollster::block_on(self.encode_question_async(text))
    }

    /// Encodes as `encode_question` does, where waiting must not block.
    ///
    /// # Errors
    /// [`EncodeError`] as from `encode_question`.
    pub async fn encode_question_async(&self, text: &str) -> Result<Embedding, EncodeError> {
        if text.trim().is_empty() {
            return Err(EncodeError::Empty);
        }
        let row = self.question_tokens(text)?;
        Ok(Embedding::new(self.forward_async(&[row]).await?, self.dim())?)
    }

    fn check(&self, rows: &[Vec<u32>]) -> Result<(), EncodeError> {
        let (limit, vocab_size) = (self.config.position_limit(), self.config.vocab_size);
        for (row, ids) in rows.iter().enumerate() {
            if ids.is_empty() || ids.len() > limit {
                return Err(EncodeError::Length { row, got: ids.len(), limit });
            }
            if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_size) {
                return Err(EncodeError::TokenId { row, id: *id, vocab_size });
            }
        }
        Ok(())
    }
}
