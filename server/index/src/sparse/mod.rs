//! Sparse retrieval: an inverted index, by which passages are found by the words they share with a question.
//!
//! [`build_sparse`] writes postings of titles and texts with tantivy; [`SparseIndex::open`] maps it into
//! memory and ranks by BM25 (Robertson et al. 1994, as Lucene computes it; the baseline of the DPR paper, §5) or
//! by TF-IDF cosine. Tantivy fixes BM25's constants and rounds lengths to a byte, so the scores are computed here,
//! from its postings and the exact lengths.

#[cfg(not(feature = "sparse"))]
mod absent;
#[cfg(feature = "sparse")]
mod added;
#[cfg(feature = "sparse")]
mod analysis;
mod analyzer;
#[cfg(feature = "sparse")]
mod build;
#[cfg(feature = "sparse")]
mod documents;
mod error;
#[cfg(feature = "sparse")]
mod exhaustive;
#[cfg(feature = "sparse")]
mod impacts;
#[cfg(feature = "sparse")]
mod index;
#[cfg(all(test, feature = "sparse"))]
mod languages;
#[cfg(feature = "sparse")]
mod lists;
#[cfg(feature = "sparse")]
mod maxscore;
mod options;
#[cfg(all(test, feature = "sparse"))]
mod parity;
#[cfg_attr(not(feature = "sparse"), allow(dead_code, reason = "nothing is scored"))]
mod scoring;
#[cfg(feature = "sparse")]
mod tokens;
#[cfg(feature = "sparse")]
mod top;

#[cfg(not(feature = "sparse"))]
pub use absent::{AddedWords, SparseIndex, build_sparse};
#[cfg(not(feature = "sparse"))]
pub(crate) use absent::{STEP, SparseWriter};
#[cfg(feature = "sparse")]
pub use added::AddedWords;
pub use analyzer::{Analyzer, UnknownAnalyzer};
#[cfg(feature = "sparse")]
pub use build::build_sparse;
#[cfg(feature = "sparse")]
pub(crate) use build::{STEP, SparseWriter};
pub use error::SparseError;
#[cfg(feature = "sparse")]
pub use index::SparseIndex;
pub use options::{SparseOptions, WordIndex};
pub use scoring::Scoring;
