//! The question encoder, cross-encoders and readers for the browser: thin exports of `dpr-core`.
//!
//! Three modules are built from this crate with one JavaScript interface: the CPU module (SIMD128 kernels, without
//! Burn), the same with the feature `relaxed-simd` for engines that have relaxed SIMD, and, with the feature
//! `webgpu`, the WebGPU module (Burn on wgpu). A page downloads one.
//!
//! # Example
//!
//! The npm package `dpr-web` does this in a worker, with files that it has checked and keeps. A test in
//! `tests/browser/parity.spec.ts` runs these lines.
//!
//! ```js
//! import init, { QuestionEncoder } from './dpr_wasm.js';
//!
//! const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
//! await init();
//! const encoder = await QuestionEncoder.load(
//!   await bytes('config.json'),
//!   await bytes('vocabulary.bin'), // or tokenizer.json
//!   await bytes('q8.safetensors'),
//! );
//! const vector = await encoder.encode('who won super bowl 50'); // Float32Array of encoder.dim numbers
//! encoder.free();
//! ```

#[cfg(not(feature = "webgpu"))]
mod bucket;
mod cross_encoder;
mod encoder_builder;
#[cfg(not(feature = "webgpu"))]
mod local;
mod passages;
// The CPU module's alone: the WebGPU module stays as small as it is.
#[cfg(not(feature = "webgpu"))]
mod private;
mod reader;

use dpr_core::device::Device;
use dpr_core::{EncoderBytes, TextEncoder};
use js_sys::Float32Array;
use wasm_bindgen::prelude::*;

#[cfg(not(feature = "webgpu"))]
pub use bucket::BucketIndex;
pub use cross_encoder::CrossEncoder;
pub use encoder_builder::EncoderBuilder;
#[cfg(not(feature = "webgpu"))]
pub use local::LocalIndex;
#[cfg(not(feature = "webgpu"))]
pub use private::{
    Blurred, BlurredQuestion, EncryptedQuestion, EncryptedSearch, EncryptedTables, PrivateTables,
};
pub use reader::Reader;

/// Turns a Rust panic into a readable console message; runs once, when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

/// Selects whether models that are loaded from now on compute 8-bit products by the product with a sum of relaxed SIMD;
/// `undefined`: where the engine compiles it to `sdot`. Returns whether they do, `false` in the module without
/// relaxed SIMD.
#[cfg(not(feature = "webgpu"))]
#[wasm_bindgen(js_name = relaxedProducts)]
pub fn relaxed_products(wanted: Option<bool>) -> bool {
    dpr_core::kernel::relaxed_products(wanted)
}

/// Encodes questions into vectors `[dim]`.
#[wasm_bindgen]
pub struct QuestionEncoder {
    inner: TextEncoder,
}

#[wasm_bindgen]
impl QuestionEncoder {
    /// Loads an encoder from the bytes of `config.json`, `tokenizer.json` or its binary form, and a safetensors file in
    /// f32, f16, or 8 or 4 bits. The WebGPU module asks the browser for an adapter first.
    ///
    /// # Errors
    /// A JavaScript `Error` whose message says which file is wrong and what in it, or, in the WebGPU module,
    /// starts with "no WebGPU adapter".
    pub async fn load(
        config: Vec<u8>,
        tokenizer: Vec<u8>,
        weights: Vec<u8>,
    ) -> Result<QuestionEncoder, JsError> {
        let device = open().await?;
        let files = EncoderBytes {
            config: &config,
            tokenizer: &tokenizer,
            weights: &[("weights", weights.as_slice())],
        };
        Ok(Self { inner: TextEncoder::load(&files, None, &device)? })
    }

    /// Returns the vector of a question, a `Float32Array` of [`QuestionEncoder::dim`] numbers.
    ///
    /// # Errors
    /// A JavaScript `Error` for an empty question or a device that failed.
    pub async fn encode(&self, text: String) -> Result<Float32Array, JsError> {
        let vector = self.inner.encode_question_async(&text).await?;
        Ok(Float32Array::from(vector.as_slice()))
    }

    /// Returns the vector of a row of token ids, for measuring the encoder without the tokenizer.
    ///
    /// # Errors
    /// A JavaScript `Error` as from [`QuestionEncoder::encode`], and for ids outside the vocabulary.
    #[wasm_bindgen(js_name = encodeTokens)]
    pub async fn encode_tokens(&self, ids: Vec<u32>) -> Result<Float32Array, JsError> {
        let vector = self.inner.forward_async(&[ids]).await?;
        Ok(Float32Array::from(vector.as_slice()))
    }

    /// Returns the token ids of a question, as the encoder sees them.
    ///
    /// # Errors
    /// A JavaScript `Error` when the text cannot be tokenised.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>, JsError> {
        Ok(self.inner.question_tokens(text)?)
    }

    /// Returns the number of tokens of a question, at most [`QuestionEncoder::max_tokens`].
    ///
    /// # Errors
    /// As [`QuestionEncoder::tokens`].
    #[wasm_bindgen(js_name = tokenCount)]
    pub fn token_count(&self, text: &str) -> Result<usize, JsError> {
        Ok(self.inner.question_tokens(text)?.len())
    }

    /// Returns the number of numbers in a vector.
    #[wasm_bindgen(getter)]
    pub fn dim(&self) -> usize {
        self.inner.dim()
    }

    /// Returns the number of tokens that a question is truncated to.
    #[wasm_bindgen(getter, js_name = maxTokens)]
    pub fn max_tokens(&self) -> usize {
        self.inner.max_tokens()
    }

    /// Returns the device that the encoder runs on: `cpu`, or `webgpu` and the adapter's name.
    #[wasm_bindgen(getter)]
    pub fn device(&self) -> String {
        self.inner.device_name().to_owned()
    }
}

#[cfg(feature = "webgpu")]
async fn open() -> Result<Device, JsError> {
    thread_local! {
        // A module has one adapter: it cannot be opened twice. Models of one worker are loaded one after another.
        static OPENED: std::cell::RefCell<Option<Device>> = const { std::cell::RefCell::new(None) };
    }
    if let Some(device) = OPENED.with_borrow(Clone::clone) {
        return Ok(device);
    }
    let device = Device::webgpu().await?;
    OPENED.set(Some(device.clone()));
    Ok(device)
}

#[cfg(not(feature = "webgpu"))]
async fn open() -> Result<Device, JsError> {
    Ok(Device::Kernel)
}
