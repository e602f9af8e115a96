//! What can go wrong with a sparse index.

use std::io;
use std::path::PathBuf;

use super::Analyzer;

/// Why a sparse index was not built, opened or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// No analyzer of that name.
    #[error("unknown analyzer `{got}`: use `english`, or `bigram` for Chinese, Japanese and Korean")]
    Analyzer {
        /// The name given.
        got: String,
    },
    /// This program was compiled without inverted indexes.
    #[error(
        "this dpr was built without the feature `sparse`: it neither builds nor searches words; use a build that has it"
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
        "BM25 with k1 = {k1} and b = {b}: k1 must be at least 0 and b between 0 and 1 (the paper has 0.9 and 0.4)"
    )]
    Parameters {
        /// Term frequency saturation.
        k1: f32,
        /// Length normalisation.
        b: f32,
    },
    /// Files cannot be written: a full disk, missing permissions.
    #[error("cannot write the sparse index to {}: {source}", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was read is not a sparse index of that corpus.
    #[error("the sparse index in {} is damaged: {reason}: build it again with `dpr index`", path.display())]
    Corrupt {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Terms of one kind cannot be found with those of another.
    #[error(
        "the sparse index in {} was built with the analyzer `{built}`, not `{asked}`: build it again with `dpr index --sparse {asked}`",
        path.display()
    )]
    OtherAnalyzer {
        /// The directory.
        path: PathBuf,
        /// What its files name.
        built: String,
        /// What was expected, as by the manifest.
        asked: Analyzer,
    },
    /// Told to stop.
    #[error("stopped before the index was whole: what was there before stays")]
    Interrupted,
    /// Tantivy failed while an open index was searched.
    #[error("the sparse index cannot be searched: {0}")]
    Search(io::Error),
}
