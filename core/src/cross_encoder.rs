//! Cross-encoders (Nogueira and Cho 2019): a question and a passage in one input, one score out. They re-rank what a
//! search of vectors found.
//!
//! A cross-encoder is an encoder whose tokens have types, 0 for the question and 1 for the passage, and whose head ends
//! in one number: BERT's pooler and a classifier `[1, hidden]`, or the dense layers of the other families. Both engines
//! compute it with the code of [`TextEncoder`](crate::TextEncoder).
//!
//! **Scores are logits**: any number, the larger the more relevant. sentence-transformers applies a sigmoid to them
//! unless a model says otherwise, which changes no ranking; `1 / (1 + exp(-score))` is that number.

mod config;

use crate::device::Device;
use crate::engine::Engine;
use crate::row::{PAIR_TYPES, Row, by_length};
use crate::text::{EncodeError, EncoderBytes, LoadError};
use crate::tokenizer::{PairTokens, TextTokenizer};
use crate::weights::TensorMap;

pub use config::CrossEncoderConfig;

/// Pairs that [`CrossEncoder::score`] gives the device at once.
const BATCH: usize = 16;

/// A cross-encoder: a question and a passage to a score, the larger the more relevant.
pub struct CrossEncoder {
    config: CrossEncoderConfig,
    tokenizer: TextTokenizer,
    engine: Engine,
    device_name: String,
}

impl CrossEncoder {
    /// Loads a cross-encoder on `device`; pairs are truncated to `max_tokens`, or to the config's limit.
    ///
    /// # Errors
    /// [`LoadError`] says which file is wrong and what in it.
    pub fn load(
        files: &EncoderBytes<'_>,
        max_tokens: Option<usize>,
        device: &Device,
    ) -> Result<Self, LoadError> {
        let mut config = CrossEncoderConfig::from_json(files.config)?;
        if let Some(limit) = max_tokens {
            config = config.with_max_tokens(limit);
        }
        let (tokenizer, tensors) = files.read(config.encoder())?;
        Self::from_parts(config, tokenizer, tensors, device)
    }

    /// Puts a cross-encoder together from its parts.
    ///
    /// # Errors
    /// [`LoadError`] when the tensors or the token types do not fit the config.
    pub fn from_parts(
        config: CrossEncoderConfig,
        tokenizer: TextTokenizer,
        mut tensors: TensorMap,
        device: &Device,
    ) -> Result<Self, LoadError> {
        tokenizer.check_types()?;
        config.rename_head(&mut tensors)?;
        let engine = Engine::load(config.encoder(), tensors, device, PAIR_TYPES)
            .map_err(|error| error.renamed(|name| config.name_in_files(name)))?;
        Ok(Self { config, tokenizer, engine, device_name: device.name().to_owned() })
    }

    /// Returns the cross-encoder's sizes.
    pub fn config(&self) -> &CrossEncoderConfig {
        &self.config
    }

    /// Returns the number of tokens that a pair is truncated to.
    pub fn max_tokens(&self) -> usize {
        self.tokenizer.max_tokens()
    }

    /// Returns the device that the cross-encoder runs on: `cpu`, `flex`, or the name of the GPU adapter.
    pub fn device_name(&self) -> &str {
        &self.device_name
    }

    /// Returns the tokens of a question and a passage, at most [`CrossEncoder::max_tokens`]; see
    /// [`TextTokenizer::question_and_passage`].
    ///
    /// # Errors
    /// [`EncodeError::Tokenizer`].
    pub fn pair_tokens(&self, question: &str, title: &str, text: &str) -> Result<PairTokens, EncodeError> {
        Ok(self.tokenizer.question_and_passage(question, title, text)?)
    }

    /// Returns the scores of pairs as one batch, `[pairs]`.
    ///
    /// On the CPU kernels a pair's score does not depend on the others in its batch, to the bit.
    ///
    /// # Errors
    /// [`EncodeError`] for a pair of too many tokens, an id or a token type that the encoder does not have, a score
    /// that is not finite, or a failed device.
    #[cfg(not(target_family = "wasm"))]
    pub fn forward(&self, pairs: &[PairTokens]) -> Result<Vec<f32>, EncodeError> {
        pollster::block_on(self.forward_async(pairs))
    }

    /// Scores as `forward` does, where waiting for a GPU must not block: in a browser.
    ///
    /// # Errors
    /// [`EncodeError`] as from `forward`.
    pub async fn forward_async(&self, pairs: &[PairTokens]) -> Result<Vec<f32>, EncodeError> {
        self.scores(&pairs.iter().collect::<Vec<_>>()).await
    }

    async fn scores(&self, pairs: &[&PairTokens]) -> Result<Vec<f32>, EncodeError> {
        let rows: Vec<_> = pairs.iter().map(|pair| Row { ids: pair.ids(), types: pair.types() }).collect();
        let scores = self.engine.forward(&rows, self.config.encoder()).await?;
        match scores.iter().position(|score| !score.is_finite()) {
            Some(row) => Err(EncodeError::Score { row }),
            None => Ok(scores),
        }
    }

    /// Returns the scores of `(title, text)` passages for one question, `[passages]` in their order. Passages of like
    /// length go to the device together.
    ///
    /// # Errors
    /// [`EncodeError::Empty`] for a blank question, else as `forward`.
    #[cfg(not(target_family = "wasm"))]
    pub fn score(&self, question: &str, passages: &[(&str, &str)]) -> Result<Vec<f32>, EncodeError> {
        pollster::block_on(self.score_async(question, passages))
    }

    /// Scores as `score` does, where waiting must not block.
    ///
    /// # Errors
    /// [`EncodeError`] as from `score`.
    pub async fn score_async(
        &self,
        question: &str,
        passages: &[(&str, &str)],
    ) -> Result<Vec<f32>, EncodeError> {
        if question.trim().is_empty() {
            return Err(EncodeError::Empty);
        }
        let pairs = passages.iter().map(|(title, text)| self.pair_tokens(question, title, text));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let mut scores = vec![0.0; pairs.len()];
        for batch in by_length(pairs.iter().map(|pair| pair.ids().len())).chunks(BATCH) {
            let rows: Vec<_> = batch.iter().map(|index| &pairs[*index]).collect();
            let found = self.scores(&rows).await.map_err(|error| match error {
                EncodeError::Score { row } => EncodeError::Score { row: batch[row] },
                other => other,
            })?;
            batch.iter().zip(found).for_each(|(index, score)| scores[*index] = score);
        }
        Ok(scores)
    }
}
