//! Encoders for dense passage retrieval (DPR, Karpukhin et al. 2020): the part that the server and the browser share.
//!
//! * [`EncoderConfig`], [`TensorMap`] and [`TextTokenizer`] read a Hugging Face directory's three files from bytes.
//! * [`TextEncoder`] turns a question or a passage into a vector `[dim]`. It runs on one of two engines: the
//!   Burn encoders of `encoder` (on wgpu, WebGPU or Burn's CPU backend, and what training differentiates)
//!   or the CPU kernels of [`kernel`], which need no Burn and hold 8-bit weights as they are.
//! * [`CrossEncoder`] gives a pair of a question and a passage a score, on the same engines: it re-ranks what a search
//!   found.
//! * [`Reader`] finds the answer of a question in passages: spans of their own text.
//! * [`Embedding`] is a vector that has been checked, with its form on the wire; [`ModelManifest`] names the model
//!   that made it.
//!
//! The three files as bytes make an encoder, and inner products of its vectors rank passages for a question:
//!
//! ```
//! use dpr_core::device::Device;
//! use dpr_core::{Embedding, EncoderBytes, TextEncoder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/mpnet-tiny");
//! # let read = |name: &str| std::fs::read(format!("{dir}/{name}"));
//! # let (config, tokenizer, weights) = (read("config.json")?, read("tokenizer.json")?, read("model.safetensors")?);
//! let files = EncoderBytes {
//!     config: &config,
//!     tokenizer: &tokenizer,
//!     weights: &[("model.safetensors", &weights)],
//! };
//! // The CPU kernels; `None` keeps the limit of tokens that the config has.
//! let encoder = TextEncoder::load(&files, None, &Device::Kernel)?;
//! let question = encoder.encode_question("What sleeps most of the day?")?;
//!
//! // Passages are encoded in batches of token ids, into vectors [2, dim] one after another.
//! let batch = [
//!     encoder.passage_tokens("Cats", "Cats sleep most of the day.")?,
//!     encoder.passage_tokens("Dogs", "Dogs bark at strangers.")?,
//! ];
//! let vectors = encoder.forward(&batch)?;
//! let scores: Vec<f32> = vectors
//!     .chunks(encoder.dim())
//!     .map(|passage| passage.iter().zip(question.as_slice()).map(|(p, q)| p * q).sum())
//!     .collect();
//! assert_eq!(scores.len(), 2);
//!
//! // A vector travels as base64, and is checked where it arrives.
//! let sent = question.to_base64_f32();
//! assert_eq!(Embedding::from_base64(&sent, encoder.dim())?, question);
//! # Ok(())
//! # }
//! ```
//!
//! This crate touches no files, sockets, threads or clocks: the crate builds for `wasm32-unknown-unknown` as it is.

#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd", not(target_feature = "simd128")))]
compile_error!(
    "the feature `relaxed-simd` of dpr-core is for modules that are built with `-C target-feature=+simd128`"
);

#[cfg(all(feature = "autodiff", feature = "page-kernels"))]
compile_error!(
    "the features `autodiff` and `page-kernels` of dpr-core exclude each other: page kernels are forward only, so that a \
     build with them does not train"
);

pub mod config;
pub mod cross_encoder;
pub mod device;
pub mod embedding;
#[cfg(feature = "burn")]
pub mod encoder;
mod engine;
mod error;
pub mod form;
pub mod head;
pub mod kernel;
pub mod model;
pub mod names;
pub mod pair;
pub mod precision;
pub mod private;
pub mod project;
pub mod random;
pub mod reader;
mod relative;
mod rotary;
mod row;
pub mod text;
pub mod tokenizer;
pub mod weights;

pub use config::{ConfigError, EncoderConfig, Family, Pooling, Side};
pub use cross_encoder::{CrossEncoder, CrossEncoderConfig};
pub use device::{DeviceChoice, DeviceError};
pub use embedding::{Embedding, EmbeddingError};
pub use form::{FormError, Prompts, TextForm, TitleJoin};
pub use model::{ModelManifest, Similarity};
pub use pair::{ModelKind, PairManifest};
pub use precision::{Precision, PrecisionError};
pub use reader::{Answer, ReadError, ReadOptions, Reader, ReaderConfig};
pub use text::{EncodeError, EncoderBytes, LoadError, TextEncoder, TextEncoderBuilder};
pub use tokenizer::{PairTokens, TextTokenizer, TokenizerError};
pub use weights::{TensorMap, WeightsError};
