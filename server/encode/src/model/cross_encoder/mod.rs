//! Model directories of cross-encoders: `model.json` and `cross_encoder/`.

mod dir;
mod import;

pub use dir::CrossEncoderDir;
pub use import::{CrossEncoderOptions, import_cross_encoder};

/// Folder of the cross-encoder in a model directory.
pub const CROSS_ENCODER_DIR: &str = "cross_encoder";
