//! Model directories: `model.json`, `question_encoder/`, `passage_encoder/` (absent when shared) and, once
//! exported, `web/`.

mod dense;
mod dir;
mod error;
mod export;
mod huggingface;
mod import;
mod json;
mod prepared;
mod sentence;
mod settings;
mod torch;
mod web;
mod weights;

pub use dir::ModelDir;
pub use error::ModelError;
pub use export::{ExportReport, export_web};
pub use huggingface::HuggingFaceDir;
pub use import::{ImportOptions, import};
pub use sentence::{PoolingModes, SentenceModules};
pub use settings::SentenceSettings;
pub use torch::TorchError;
pub use web::{WEB_DIR, WEB_MANIFEST, WebManifest};

/// Folder of the question encoder in a model directory.
pub const QUESTION_DIR: &str = "question_encoder";
/// Folder of the passage encoder in a model directory.
pub const PASSAGE_DIR: &str = "passage_encoder";
/// The manifest's file name.
pub const MANIFEST: &str = "model.json";
