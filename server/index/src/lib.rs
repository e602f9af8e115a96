//! Vector search by inner product: exact, quantized or through a graph (HNSW), from one directory on disk.
//!
//! [`build_index`] makes an index of a [`VectorSet`](crate::vectors::VectorSet) and publishes it as the newest version
//! of an index directory; [`LoadedIndex::open`] checks every byte of that version and maps it. Every kind of index
//! stands behind [`VectorIndex`] and gives the same scores for the same rows, bit for bit. An index directory may also
//! hold an inverted index of the same passages ([`sparse`]), or nothing else.
//!
//! An index with vectors can change while it is searched: [`IndexWriter`] adds, replaces and deletes passages,
//! [`IndexReader`] follows what another process writes, and every search looks at one [`Snapshot`].
//!
//! # Example: build, search, add, compact
//!
//! ```
//! use std::sync::Arc;
//!
//! use dpr_core::Embedding;
//! use dpr_core::random::SplitMix;
//! use dpr_data::Passage;
//! use dpr_files::progress::Silent;
//! use dpr_index::search::Backend as _;
//! use dpr_index::vectors::VectorSet;
//! use dpr_index::{IndexOptions, IndexReader, IndexWriter, NewPassage, build_index};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let dir = temporary.path().join("index");
//! // Random vectors; `dpr-encode` makes vectors of text.
//! let dim = 32;
//! let mut random = SplitMix::new(1);
//! let mut vector = || (0..dim).map(|_| random.normal() as f32).collect::<Vec<f32>>();
//! let passage = |n: usize| Passage::new(format!("p{n}"), "", format!("Passage {n}."));
//!
//! // Build an index of 500 passages and their vectors, [500, 32].
//! let passages: Vec<Passage> = (0..500).map(passage).collect();
//! let rows: Vec<f32> = (0..500).flat_map(|_| vector()).collect();
//! let vectors = VectorSet::new("the model that made the vectors", dim, passages, rows);
//! build_index(&vectors, &dir, &IndexOptions::default(), &Silent)?;
//!
//! // Open it, and ask for the three passages of greatest inner product with a query.
//! let reader = IndexReader::open(&dir)?;
//! let query = Embedding::new(vectors.rows[..dim].to_vec(), dim)?;
//! let hits = reader.live().search(&[query], 3, None)?;
//! assert_eq!((hits[0].len(), hits[0][0].id.as_str()), (3, "p0"));
//!
//! // Add a passage. When `put` returns, it is on the disk.
//! let writer = IndexWriter::open(&dir, "my service")?;
//! let new = Embedding::new(vector(), dim)?;
//! writer.put(vec![NewPassage { passage: passage(500), vector: new.clone() }])?;
//! // The reader could be of another process; `IndexReader::watch` refreshes it by itself.
//! reader.refresh()?;
//! assert_eq!(reader.live().search(&[new], 1, None)?[0][0].id, "p500");
//!
//! // Compact: a new version holds the passages as they are now.
//! writer.compact(0, &Arc::default(), &Silent)?;
//! reader.refresh()?;
//! let index = reader.live().describe();
//! assert_eq!((index.number, index.count, index.changes), (2, 501, 0));
//! # Ok(())
//! # }
//! ```

mod allowed;
mod binary;
mod cancel;
#[cfg(test)]
mod cancelled;
mod codes;
mod condition;
mod deferred;
mod directory;
mod error;
mod exact;
#[cfg(feature = "gpu")]
mod gpu;
mod hnsw;
pub mod limits;
mod live;
mod passage_stream;
pub mod private;
mod quantized;
pub mod ranking;
mod recall;
mod row_set;
pub mod search;
pub mod sparse;
mod sums;
mod tune;
mod upgrade;
pub mod vectors;
mod verify;
mod wal;

use std::fmt;

use dpr_core::Embedding;
use serde::{Deserialize, Serialize};

pub use cancel::{CancelToken, Stopped};
pub use directory::build::{build_index, build_sparse_index, build_sparse_index_of};
pub use directory::copy::copy_index;
pub use directory::loaded::{LoadedIndex, LoadedSparse};
pub use directory::manifest::{INDEX_FORMAT, IndexManifest, SparseManifest};
pub use directory::options::IndexOptions;
pub use directory::passages::StoredPassages;
pub use directory::pointer::{IndexDir, PRIVATE_PREFIX};
pub use dpr_files::Error as FileError;
pub use error::{
    BuildError, ChangeError, CompactError, MatrixError, OpenError, QueryError, TuneError, UpdateError,
};
pub use exact::ExactIndex;
#[cfg(feature = "gpu")]
pub use gpu::GpuIndex;
pub use hnsw::{HnswIndex, HnswParams};
pub use live::{
    CompactionPolicy, DeltaLimit, Health, IndexReader, IndexWriter, LiveIndex, NewPassage, PreparationError,
    Put, Snapshot,
};
pub use ranking::ScoredRow;
pub use recall::{RECALL_DEPTH, recall_against_exact, rows_found};
pub use row_set::RowSet;
pub use tune::{Tuned, tune};
pub use upgrade::{Upgraded, upgrade};
pub use vectors::Matrix;
pub use verify::{Verified, verify};

/// The way an index searches vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// Exact search: every row is scored.
    Exact,
    /// Search by words alone, in an inverted index: there are no vectors.
    #[cfg_attr(feature = "clap", value(skip))]
    Sparse,
    /// A hierarchical navigable small-world graph (Malkov and Yashunin 2016) leads to the best rows, almost always.
    Hnsw,
}

/// The form of the vectors that a search reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// The vectors themselves.
    #[default]
    F32,
    /// Vectors quantized to eight bits, a quarter of the memory. The best rows are scored again by their vectors, so
    /// that scores are exact, and a row is missed only where the quantized scores put more than `2 k` rows before it.
    Int8,
    /// Vectors in half precision, half of the memory; scored again likewise. A row is hardly ever missed.
    F16,
    /// The signs of rotated vectors, one bit a number: a thirty-second of the memory. `10 k + 100` rows are scored
    /// again, and more where vectors have fewer than 768 numbers.
    Binary,
}

/// The program that builds a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum GraphBuilder {
    /// This crate, on all threads.
    #[default]
    Parallel,
    /// The library `hnsw_rs`, on one thread.
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
///
/// ```
/// use dpr_core::Embedding;
/// use dpr_index::{LoadedIndex, RowSet, VectorIndex};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use dpr_data::Passage;
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// # let passage = |id: &str| Passage::new(id, "", "text");
/// # let (passages, rows) = (["a", "b", "c"].map(passage).into(), vec![1.0, 0.0, 0.0, 1.0, 0.5, 0.5]);
/// # let vectors = dpr_index::vectors::VectorSet::new("model", 2, passages, rows);
/// # dpr_index::build_index(&vectors, dir, &Default::default(), &dpr_files::progress::Silent)?;
/// // Three vectors: [1, 0], [0, 1] and [0.5, 0.5].
/// let index = LoadedIndex::open(dir)?;
/// let query = Embedding::new(vec![2.0, 1.0], 2)?;
/// let best = index.index.search(&query, 2)?;
/// assert_eq!((best[0].row, best[0].score), (0, 2.0));
/// assert_eq!((best[1].row, best[1].score), (2, 1.5));
///
/// // Among the rows 1 and 2 alone.
/// let mut allowed = RowSet::none(index.index.len());
/// allowed.insert(1);
/// allowed.insert(2);
/// assert_eq!(index.index.search_among(&query, 1, &allowed)?[0].row, 2);
/// # Ok(())
/// # }
/// ```
pub trait VectorIndex: fmt::Debug + Send + Sync {
    /// Returns the numbers in a vector.
    fn dim(&self) -> usize;

    /// Returns the number of vectors.
    fn len(&self) -> usize;

    /// Returns `true` if there are no vectors; an index directory is never empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the way it searches.
    fn kind(&self) -> IndexKind;

    /// Returns the `k` rows with the greatest inner product, best first, equal scores by row; all rows when `k` is more
    /// than [`len`](Self::len).
    ///
    /// # Errors
    /// [`QueryError::Dimension`] for a query of another length, [`QueryError::K`] for `k = 0`, and
    /// [`QueryError::Overflow`] for a query so long that its scores would not be finite.
    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, QueryError> {
        self.search_until(query, k, None, &CancelToken::never())
    }

    /// Searches among the rows of `allowed` alone, as [`search`](Self::search) does among all. Rows of `allowed` beyond
    /// the index are ignored; returns fewer than `k` rows only when `allowed` has fewer within it.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search).
    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        allowed: &RowSet,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        self.search_until(query, k, Some(allowed), &CancelToken::never())
    }

    /// Searches as [`search`](Self::search) does, among the rows of `allowed` alone where it is given, until `cancel`
    /// says to stop.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), and [`QueryError::Stopped`].
    fn search_until(
        &self,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError>;

    /// Returns an estimate of what a search for `queries` vectors at once costs: the f32 numbers that it reads, or as
    /// many as take the same time to read. `filtered` says that it is among some rows alone.
    fn cost(&self, queries: usize, _k: usize, _filtered: bool) -> u64 {
        queries as u64 * self.len() as u64 * self.dim() as u64
    }

    /// Sets `ef_search`, the candidates that a search of a graph keeps; indexes without a graph ignore it.
    fn set_ef_search(&mut self, _ef: usize) {}

    /// Searches for each query as [`search`](Self::search) does, and returns the results in the order of the queries.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), for the first query that has one.
    fn search_batch(&self, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        self.search_batch_until(queries, k, &CancelToken::never())
    }

    /// Searches as [`search_batch`](Self::search_batch) does, until `cancel` says to stop.
    ///
    /// # Errors
    /// The errors of [`search_batch`](Self::search_batch), and [`QueryError::Stopped`].
    fn search_batch_until(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        use rayon::prelude::*;
        queries.par_iter().map(|query| self.search_until(query, k, None, cancel)).collect()
    }
}
