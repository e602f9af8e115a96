//! A question encoder that is built while its weights arrive.

use dpr_core::TextEncoderBuilder;
use wasm_bindgen::prelude::*;

use super::{QuestionEncoder, open};

/// Builds a [`QuestionEncoder`] from weights that are handed in part by part.
#[wasm_bindgen]
pub struct EncoderBuilder {
    inner: TextEncoderBuilder,
}

#[wasm_bindgen]
impl EncoderBuilder {
    /// Begins an encoder with the bytes of `config.json` and of `tokenizer.json` or its binary form. The weights are a
    /// safetensors file of `bytes` bytes.
    ///
    /// # Errors
    /// A JavaScript `Error` as from [`QuestionEncoder::load`].
    pub async fn begin(config: Vec<u8>, tokenizer: Vec<u8>, bytes: usize) -> Result<EncoderBuilder, JsError> {
        let device = open().await?;
        Ok(Self { inner: TextEncoderBuilder::new(&config, &tokenizer, bytes, &device)? })
    }

    /// Takes the next bytes of the weights.
    ///
    /// # Errors
    /// A JavaScript `Error` for a damaged file, or tensors that do not fit the config.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), JsError> {
        Ok(self.inner.push(bytes)?)
    }

    /// Returns the SHA-256 of the weights so far, 64 lower-case hexadecimal digits.
    pub fn sha256(&self) -> String {
        self.inner.sha256()
    }

    /// Returns the encoder; the builder is gone.
    ///
    /// # Errors
    /// A JavaScript `Error` for a file that is not whole, or tensors that do not fit the config.
    pub fn finish(self) -> Result<QuestionEncoder, JsError> {
        Ok(QuestionEncoder { inner: self.inner.finish()? })
    }
}
