//! Sparse retrieval: passages found by the words they share with a question.
//!
//! [`build_sparse`] writes an inverted index of titles and texts with tantivy; [`SparseIndex::open`] maps it into
//! memory and ranks by BM25 (Robertson et al. 1994, as Lucene computes it; the baseline of the DPR paper, §5) or
//! by TF-IDF cosine. Tantivy fixes BM25's constants and rounds lengths to a byte, so the scores are computed here,
//! from its postings and the exact lengths.

mod added;
mod analyzer;
mod build;
mod documents;
mod error;
mod index;
mod scoring;
mod tokens;

pub use added::AddedWords;
pub use analyzer::Analyzer;
pub use build::{SparseOptions, build_sparse};
pub use error::SparseError;
pub use index::{SparseIndex, WordIndex};
pub use scoring::Scoring;
