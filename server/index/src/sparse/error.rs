//! The errors of inverted indexes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use dpr_files::Error as FileError;

use super::{Analyzer, UnknownAnalyzer};
use crate::cancel::Stopped;

/// The greatest k1 of BM25.
pub(super) const MAX_K1: f32 = 1e6;

/// The error of building, opening or searching an inverted index.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// This program was compiled without inverted indexes.
    #[error(
        "this program was built without the feature `sparse`, so that it neither builds nor searches inverted indexes: use a build that has it"
    )]
    NotBuiltIn,
    /// There is nothing to index.
    #[error("there are no passages to index")]
    Empty,
    /// `k` was 0.
    #[error("k is 0: ask for at least one passage")]
    K,
    /// A parameter of BM25 that makes no sense.
    #[error(
        "BM25 with k1 = {k1} and b = {b}: k1 must be between 0 and {} and b between 0 and 1 (the paper has 0.9 \
         and 0.4)",
        MAX_K1
    )]
    Parameters {
        /// Term frequency saturation.
        k1: f32,
        /// Length normalisation.
        b: f32,
    },
    /// Files cannot be written or read, or are not an inverted index of that corpus.
    #[error("{0}")]
    File(#[from] FileError),
    /// Terms of one kind cannot be found with those of another.
    #[error(
        "the inverted index in {} was built with the analyzer `{built}`, not `{expected}`",
        path.display()
    )]
    OtherAnalyzer {
        /// The directory.
        path: PathBuf,
        /// The analyzer that the files name.
        built: String,
        /// The analyzer that the manifest names.
        expected: Analyzer,
    },
    /// The manifest names an analyzer that this program does not have: a newer one built the index.
    #[error("{}: {unknown}", path.display())]
    UnknownAnalyzer {
        /// The manifest.
        path: PathBuf,
        /// The name, and the names that are known.
        unknown: UnknownAnalyzer,
    },
    /// Told to stop.
    #[error("stopped before the index was whole: what was there before stays")]
    Interrupted,
    /// A search was stopped before its end.
    #[error("{0}")]
    Stopped(#[from] Stopped),
    /// Tantivy failed while an open index was searched.
    #[error("the inverted index cannot be searched: {0}")]
    Search(#[source] Arc<io::Error>),
}

#[cfg(feature = "sparse")]
impl SparseError {
    pub(super) fn search(source: io::Error) -> Self {
        Self::Search(Arc::new(source))
    }
}
