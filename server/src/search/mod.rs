//! Question vectors to passages.

mod searcher;

pub use searcher::{Hit, SearchError, Searcher};
