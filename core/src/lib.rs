//! Encoders for dense passage retrieval (DPR, Karpukhin et al. 2020): the part that the server and the browser share.
//!
//! * [`EncoderConfig`], [`TensorMap`] and [`TextTokenizer`] read a Hugging Face directory's three files from bytes.
//! * [`TextEncoder`] turns a question or a passage into a vector `[dim]`. It runs on one of two engines: the
//!   Burn encoders of [`encoder`] (on wgpu, WebGPU or Burn's CPU backend, and what training differentiates)
//!   or the CPU kernels of [`kernel`], which need no Burn and hold 8-bit weights as they are.
//! * [`Embedding`] is a vector that has been checked, with its form on the wire; [`ModelManifest`] names the model
//!   that made it.
//!
//! This crate touches no files, sockets, threads or clocks: the crate builds for `wasm32-unknown-unknown` as it is.

pub mod config;
pub mod device;
pub mod embedding;
#[cfg(feature = "burn")]
pub mod encoder;
pub mod kernel;
pub mod model;
pub mod names;
pub mod project;
pub mod random;
pub mod text;
pub mod tokenizer;
pub mod weights;

pub use config::{ConfigError, EncoderConfig, Family, Pooling};
pub use device::{DeviceChoice, DeviceError};
pub use embedding::{Embedding, EmbeddingError};
pub use model::{ModelManifest, Similarity};
pub use text::{EncodeError, EncoderBytes, LoadError, TextEncoder};
pub use tokenizer::{TextTokenizer, TokenizerError};
pub use weights::{TensorMap, WeightsError};
