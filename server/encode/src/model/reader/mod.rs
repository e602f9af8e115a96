//! Model directories of readers: `model.json` and `reader/`.

mod dir;
mod import;

pub use dir::ReaderDir;
pub use import::{ReaderOptions, import_reader};

/// Folder of the reader in a model directory, which transformers loads too.
pub const READER_DIR: &str = "reader";
