//! Model directories of cross-encoders: `model.json` and `cross_encoder/`.

mod dir;
mod import;

pub use dir::CrossEncoderDir;
pub use import::{CrossEncoderOptions, import_cross_encoder};
