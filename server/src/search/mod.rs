//! Question vectors to passages.

mod hybrid;
mod searcher;

pub use hybrid::{Fusion, HYBRID_DEPTH, fuse};
pub use searcher::{Hit, SearchError, Searcher};
