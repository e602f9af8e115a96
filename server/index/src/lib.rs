//! Searching vectors by inner product: exactly, or through a graph (HNSW), from one directory on disk.
//!
//! [`build_index`] makes an index of a [`VectorSet`](crate::vectors::VectorSet) and publishes it as the newest
//! version of an index directory; [`LoadedIndex::open`] checks every byte of that version and maps it. Both kinds stand behind [`VectorIndex`] and give the same scores for the same rows, bit for bit. An
//! index directory may hold an inverted index of the same passages ([`crate::sparse`]) too, or instead.
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
//! let passage = |n: usize| Passage { id: format!("p{n}"), title: String::new(), text: format!("Passage {n}.") };
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
//!
//! An index with vectors can change while it is searched: [`IndexWriter`] adds, replaces and deletes passages, [`IndexReader`]
//! sees what another process wrote, and searches look at a [`Snapshot`].

mod build;
mod codes;
mod copy;
mod error;
mod exact;
#[cfg(feature = "gpu")]
mod gpu;
mod hnsw;
mod live;
mod loaded;
mod manifest;
mod passages;
pub mod ranking;
mod recall;
mod row_set;
pub mod search;
pub mod sparse;
mod store;
mod tune;
mod upgrade;
pub mod vectors;
mod verify;
mod version;

use std::fmt;
use std::str::FromStr;

use dpr_core::Embedding;
use serde::{Deserialize, Serialize};

pub use build::{IndexOptions, build_index, build_sparse_index};
pub use copy::copy_index;
pub use error::IndexError;
pub use exact::ExactIndex;
pub use hnsw::{HnswIndex, HnswParams};
pub use live::{CompactionPolicy, IndexReader, IndexWriter, LiveIndex, NewPassage, Put, Snapshot};
pub use loaded::{LoadedIndex, LoadedSparse};
pub use manifest::{INDEX_FORMAT, IndexManifest, SparseManifest};
pub use passages::StoredPassages;
pub use recall::recall_against_exact;
pub use row_set::RowSet;
pub use store::IndexDir;
pub use tune::{Tuned, tune};
pub use upgrade::upgrade;
pub use vectors::Matrix;
pub use verify::{Verified, verify};

pub use crate::ranking::ScoredRow;

/// How an index searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// Every row is scored.
    Exact,
    /// There are no vectors: passages are found by their words alone.
    Sparse,
    /// A hierarchical navigable small-world graph (Malkov and Yashunin 2016) leads to the best rows, almost always.
    Hnsw,
}

/// What a search reads of every row it looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// The vectors.
    #[default]
    F32,
    /// The vectors in eight bits, a quarter as much; the best rows are scored again by their vectors, so that scores are
    /// exact and a row is missed only where eight bits put it behind as many others as are wanted.
    Int8,
    /// Likewise in half precision, half as much: a row is hardly ever missed.
    F16,
}

/// Who builds a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphBuilder {
    /// This program, on all threads.
    #[default]
    Parallel,
    /// `hnsw_rs`, on one thread.
    HnswRs,
}

impl FromStr for Storage {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        match text {
            "f32" => Ok(Self::F32),
            "int8" => Ok(Self::Int8),
            "f16" => Ok(Self::F16),
            other => Err(IndexError::Choice {
                what: "storage",
                got: other.to_owned(),
                choices: "f32, f16 or int8",
            }),
        }
    }
}

impl FromStr for GraphBuilder {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        let choices = "parallel or hnsw-rs";
        match text {
            "parallel" => Ok(Self::Parallel),
            "hnsw-rs" => Ok(Self::HnswRs),
            other => Err(IndexError::Choice { what: "builder of graphs", got: other.to_owned(), choices }),
        }
    }
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

impl FromStr for IndexKind {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        match text {
            "exact" => Ok(Self::Exact),
            "hnsw" => Ok(Self::Hnsw),
            other => Err(IndexError::Kind { got: other.to_owned() }),
        }
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
/// # let passage = |id: &str| Passage { id: id.to_owned(), title: String::new(), text: "text".to_owned() };
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
    /// [`IndexError::Dimension`] for a query of another length, [`IndexError::K`] for `k = 0`, and
    /// [`IndexError::Overflow`] for a query so long that its scores would not be finite.
    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, IndexError>;

    /// As [`search`](Self::search), among the rows of `wanted` alone: fewer than `k` only when it has fewer.
    ///
    /// # Errors
    /// Those of [`search`](Self::search).
    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        wanted: &RowSet,
    ) -> Result<Vec<ScoredRow>, IndexError>;

    /// Sets how many candidates a search keeps, where the index walks a graph; others take no notice.
    fn set_ef_search(&mut self, _ef: usize) {}

    /// [`search`](Self::search) for each query, in their order.
    ///
    /// # Errors
    /// Those of [`search`](Self::search), for the first query that has one.
    fn search_batch(&self, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, IndexError> {
        use rayon::prelude::*;
        queries.par_iter().map(|query| self.search(query, k)).collect()
    }
}
