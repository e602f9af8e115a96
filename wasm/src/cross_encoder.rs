//! Cross-encoders.

use js_sys::Float32Array;
use wasm_bindgen::prelude::*;

use crate::open;
use crate::passages::{PairFiles, pairs};

/// Scores passages for a question, to re-rank what a search found.
#[wasm_bindgen]
pub struct CrossEncoder {
    inner: dpr_core::CrossEncoder,
}

#[wasm_bindgen]
impl CrossEncoder {
    /// Loads a cross-encoder from the bytes of `config.json`, `tokenizer.json` and a safetensors file in f32, f16, 8 or
    /// 4 bits. A question and a passage are truncated to `max_tokens` together, or to the limit in the configuration.
    /// `shared` is a safetensors file of the tensors that `weights` leaves out because the question encoder has them.
    /// The WebGPU module asks the browser for an adapter first.
    ///
    /// # Errors
    /// As [`QuestionEncoder::load`](crate::QuestionEncoder::load).
    pub async fn load(
        config: Vec<u8>,
        tokenizer: Vec<u8>,
        weights: Vec<u8>,
        max_tokens: Option<usize>,
        shared: Option<Vec<u8>>,
    ) -> Result<CrossEncoder, JsError> {
        let device = open().await?;
        let files = PairFiles { config, tokenizer, weights, shared };
        let inner = files.load(|files| dpr_core::CrossEncoder::load(files, max_tokens, &device))?;
        Ok(Self { inner })
    }

    /// Returns the score of each passage for the question, a `Float32Array` of `[passages]` logits: the larger, the
    /// more relevant. A passage without a title has an empty one. On the CPU, weights in 8 bits are multiplied by
    /// inputs of 7 bits, the two largest of a token of 14.
    ///
    /// # Errors
    /// A JavaScript `Error` for an empty question, for as many titles as there are not texts, or a device that failed.
    pub async fn score(
        &self,
        question: String,
        titles: Vec<String>,
        texts: Vec<String>,
    ) -> Result<Float32Array, JsError> {
        let scores = self.inner.score_async(&question, &pairs(&titles, &texts)?).await?;
        Ok(Float32Array::from(scores.as_slice()))
    }

    /// Returns the number of tokens that a question and a passage are truncated to.
    #[wasm_bindgen(getter, js_name = maxTokens)]
    pub fn max_tokens(&self) -> usize {
        self.inner.max_tokens()
    }

    /// Returns the device that the cross-encoder runs on: `cpu`, or `webgpu` and the adapter's name.
    #[wasm_bindgen(getter)]
    pub fn device(&self) -> String {
        self.inner.device_name().to_owned()
    }
}
