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
mod formula;
#[cfg(feature = "sparse")]
mod impacts;
#[cfg(feature = "sparse")]
mod index;
#[cfg(feature = "sparse")]
mod io_error;
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
mod shares;
#[cfg(feature = "sparse")]
mod tokens;
#[cfg(feature = "sparse")]
mod top;

#[cfg(not(feature = "sparse"))]
pub use absent::{AddedWords, SparseIndex};
#[cfg(not(feature = "sparse"))]
pub(crate) use absent::{STEP, SparseWriter, write_sparse};
#[cfg(feature = "sparse")]
pub use added::AddedWords;
pub use analyzer::{Analyzer, UnknownAnalyzer};
#[cfg(feature = "sparse")]
pub(crate) use build::{STEP, SparseWriter, write_sparse};
pub use error::SparseError;
#[cfg(feature = "sparse")]
pub use index::SparseIndex;
pub use options::{SparseOptions, WordIndex};
pub use scoring::Scoring;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use dpr_data::Passage;
use dpr_files::progress::Progress;

/// Writes an index of the titles and texts of `passages` into the directory `dir`, which must be empty. Nothing is
/// synced and nothing published: that is the caller's, who knows what else belongs to it.
///
/// # Errors
/// [`SparseError::Empty`], [`SparseError::File`], or [`SparseError::Interrupted`] once `stop` is set.
pub fn build_sparse(
    dir: &Path,
    passages: &[Passage],
    options: SparseOptions,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), SparseError> {
    write_sparse(dir, &passages, options, stop, progress)
}
