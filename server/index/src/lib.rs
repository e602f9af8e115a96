//! Searching vectors by inner product: exactly, or through a graph (HNSW), from one directory on disk.
//!
//! [`build_index`] makes an index of a [`VectorSet`](crate::vectors::VectorSet) and publishes it as the newest
//! version of an index directory; [`LoadedIndex::open`] checks every byte of that version and maps it. Both kinds stand behind [`VectorIndex`] and give the same scores for the same rows, bit for bit. An
//! index directory may hold an inverted index of the same passages ([`crate::sparse`]) too, or instead.
//!
//! An index with vectors can change while it is searched: [`IndexWriter`] adds, replaces and deletes passages, [`IndexReader`]
//! sees what another process wrote, and searches look at a [`Snapshot`].

mod directory;
mod error;
mod exact;
#[cfg(feature = "gpu")]
mod gpu;
mod hnsw;
mod live;
mod quantized;
pub mod ranking;
mod recall;
mod row_set;
pub mod search;
pub mod sparse;
mod tune;
pub mod vectors;

use std::fmt;

use dpr_core::Embedding;
use serde::{Deserialize, Serialize};

pub use directory::build::{IndexOptions, build_index, build_sparse_index};
pub use directory::copy::copy_index;
pub use directory::loaded::{LoadedIndex, LoadedSparse};
pub use directory::manifest::{INDEX_FORMAT, IndexManifest, SparseManifest};
pub use directory::passages::StoredPassages;
pub use directory::pointer::IndexDir;
pub use directory::upgrade::upgrade;
pub use directory::verify::{Verified, verify};
pub use dpr_files::Error as FileError;
pub use error::{BuildError, CompactError, MatrixError, OpenError, QueryError, TuneError, UpdateError};
pub use exact::ExactIndex;
pub use hnsw::{HnswIndex, HnswParams};
pub use live::{CompactionPolicy, IndexReader, IndexWriter, LiveIndex, NewPassage, Put, Snapshot};
pub use ranking::ScoredRow;
pub use recall::recall_against_exact;
pub use row_set::RowSet;
pub use tune::{Tuned, tune};
pub use vectors::Matrix;

/// How an index searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// Every row is scored.
    Exact,
    /// There are no vectors: passages are found by their words alone.
    #[cfg_attr(feature = "clap", value(skip))]
    Sparse,
    /// A hierarchical navigable small-world graph (Malkov and Yashunin 2016) leads to the best rows, almost always.
    Hnsw,
}

/// What a search reads of every row it looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// The vectors.
    #[default]
    F32,
    /// The vectors in eight bits, a quarter as much; the best rows are scored again by their vectors, so that scores are
    /// exact and a row is missed only where eight bits put it behind as many others as are allowed.
    Int8,
    /// Likewise in half precision, half as much: a row is hardly ever missed.
    F16,
}

/// Who builds a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum GraphBuilder {
    /// This program, on all threads.
    #[default]
    Parallel,
    /// `hnsw_rs`, on one thread.
    HnswRs,
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Sparse => "sparse",
            Self::Hnsw => "hnsw",
        })
    }
}

/// Vectors that can be searched by inner product.
pub trait VectorIndex: fmt::Debug + Send + Sync {
    /// Numbers in a vector.
    fn dim(&self) -> usize;

    /// Number of vectors.
    fn len(&self) -> usize;

    /// Whether there are none; an index directory is never empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How it searches.
    fn kind(&self) -> IndexKind;

    /// The `k` rows with the greatest inner product, best first, equal scores by row; all rows when `k` is more
    /// than [`len`](Self::len).
    ///
    /// # Errors
    /// [`QueryError::Dimension`] for a query of another length, [`QueryError::K`] for `k = 0`, and
    /// [`QueryError::Overflow`] for a query so long that its scores would not be finite.
    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, QueryError>;

    /// As [`search`](Self::search), among the rows of `allowed` alone: fewer than `k` only when it has fewer.
    ///
    /// # Errors
    /// Those of [`search`](Self::search).
    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        allowed: &RowSet,
    ) -> Result<Vec<ScoredRow>, QueryError>;

    /// Sets how many candidates a search keeps, where the index walks a graph; others take no notice.
    fn set_ef_search(&mut self, _ef: usize) {}

    /// [`search`](Self::search) for each query, in their order.
    ///
    /// # Errors
    /// Those of [`search`](Self::search), for the first query that has one.
    fn search_batch(&self, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        use rayon::prelude::*;
        queries.par_iter().map(|query| self.search(query, k)).collect()
    }
}
