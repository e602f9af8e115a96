//! Text encoder: a tokenizer and an engine that belong together, text in and vectors out.

mod builder;

use crate::config::{EncoderConfig, Side};
use crate::device::Device;
use crate::embedding::Embedding;
use crate::engine::Engine;
pub use crate::error::{EncodeError, LoadError};
use crate::precision::Precision;
use crate::row::Row;
use crate::tokenizer::TextTokenizer;
use crate::weights::TensorMap;
pub use builder::TextEncoderBuilder;

/// The bytes of one encoder's three files.
#[derive(Clone, Copy, Debug)]
pub struct EncoderBytes<'a> {
    /// `config.json`.
    pub config: &'a [u8],
    /// `tokenizer.json`, or [its binary form](TextTokenizer::compact).
    pub tokenizer: &'a [u8],
    /// `(name, bytes)` of `model.safetensors`, or of each shard.
    pub weights: &'a [(&'a str, &'a [u8])],
}

impl EncoderBytes<'_> {
    /// Reads the tokenizer and the tensors of a model whose encoder is that of `config`.
    ///
    /// # Errors
    /// [`LoadError`] says which file is wrong and what in it.
    pub(crate) fn read(&self, config: &EncoderConfig) -> Result<(TextTokenizer, TensorMap), LoadError> {
        let tokenizer = TextTokenizer::from_bytes(self.tokenizer, config)?;
        Ok((tokenizer, TensorMap::from_safetensors(self.weights.iter().copied())?))
    }
}

/// A question or passage encoder: text to vectors of [`TextEncoder::dim`] numbers.
pub struct TextEncoder {
    config: EncoderConfig,
    tokenizer: TextTokenizer,
    engine: Engine,
    device_name: String,
    precision: Precision,
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
        let config = limited(files, max_tokens)?;
        let (tokenizer, tensors) = files.read(&config)?;
        Self::from_parts(config, tokenizer, tensors, device)
    }

    /// Loads an encoder as `load` does, with layers that multiply in `precision`.
    ///
    /// # Errors
    /// [`LoadError`] as from `load`, and [`LoadError::Precision`] when the device computes in single precision only.
    #[cfg(not(target_family = "wasm"))]
    pub fn load_at(
        files: &EncoderBytes<'_>,
        max_tokens: Option<usize>,
        device: &Device,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        let config = limited(files, max_tokens)?;
        let (tokenizer, tensors) = files.read(&config)?;
        let engine = Engine::load_at(&config, tensors, device, precision)?;
        Ok(Self { precision, ..Self::of(config, tokenizer, engine, device) })
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
        let engine = Engine::load(&config, tensors, device, 1)?;
        Ok(Self::of(config, tokenizer, engine, device))
    }

    fn of(config: EncoderConfig, tokenizer: TextTokenizer, engine: Engine, device: &Device) -> Self {
        let device_name = device.name().to_owned();
        Self { config, tokenizer, engine, device_name, precision: Precision::F32, side: Side::Question }
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

    /// Returns the precision that the encoder's layers multiply in.
    pub fn precision(&self) -> Precision {
        self.precision
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
        let vectors = self.engine.forward(&Row::of_ids(rows), &self.config).await?;
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
}

/// Reads the config of an encoder whose texts are truncated to `max_tokens`, or to the config's limit.
fn limited(files: &EncoderBytes<'_>, max_tokens: Option<usize>) -> Result<EncoderConfig, LoadError> {
    let mut config = EncoderConfig::from_json(files.config)?;
    if let Some(limit) = max_tokens {
        config.max_tokens = limit.clamp(4, config.position_limit());
    }
    Ok(config)
}
