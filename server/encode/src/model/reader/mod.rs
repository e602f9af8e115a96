//! Model directories of readers: `model.json` and `reader/`.

mod dir;
mod import;

pub use dir::ReaderDir;
pub use import::{ReaderOptions, import_reader};
