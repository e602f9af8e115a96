//! Model directories: `model.json`, `question_encoder/`, `passage_encoder/` (absent when shared) and, once
//! exported, `web/`; or `model.json` and `cross_encoder/` or `reader/`.

mod calibration;
mod cross_encoder;
mod dense;
mod dir;
mod error;
mod export;
mod export_pair;
mod huggingface;
mod import;
mod json;
mod manifest;
mod narrower;
mod options;
mod pair;
mod prepared;
mod reader;
mod sentence;
mod settings;
mod shrink;
mod target;
mod torch;
mod vocabulary;
mod web;
mod web_format;
mod web_tensors;
mod weights;

pub use cross_encoder::{CrossEncoderDir, CrossEncoderOptions, import_cross_encoder};
pub use dir::ModelDir;
pub use error::ModelError;
pub use export::{ExportReport, WebOptions, WebPairs, export_web, export_web_with};
pub use huggingface::HuggingFaceDir;
pub use import::import;
pub use options::ImportOptions;
pub use reader::{ReaderDir, ReaderOptions, import_reader};
pub use sentence::{PoolingModes, SentenceModules};
pub use settings::SentenceSettings;
pub use shrink::{ShrinkOptions, shrink};
pub use torch::TorchError;
pub use vocabulary::{Language, Vocabulary};
pub use web::{WEB_FORMAT, WebChunks, WebEncoder, WebFile, WebManifest, WebPair, WebPairWeights};
pub use web_format::{UnknownFormat, WebFormat};

/// Folder of the question encoder in a model directory.
pub const QUESTION_DIR: &str = "question_encoder";
/// Folder of the passage encoder in a model directory.
pub const PASSAGE_DIR: &str = "passage_encoder";
/// Folder of the cross-encoder in a model directory, which transformers loads too.
pub const CROSS_ENCODER_DIR: &str = "cross_encoder";
/// Folder of the reader in a model directory, which transformers loads too.
pub const READER_DIR: &str = "reader";
/// Folder of the browser's copies in a model directory.
pub const WEB_DIR: &str = "web";
/// The name of their manifest in it.
pub const WEB_MANIFEST: &str = "web.json";
/// The manifest's file name.
pub const MANIFEST: &str = "model.json";
