//! What can go wrong with an index.

use std::io;
use std::path::{Path, PathBuf};

use crate::sparse::SparseError;

/// Why an index was not built, opened or searched. A failed build leaves the index that was there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A word that names none of what there is.
    #[error("`{got}` is no {what}: give {choices}")]
    Choice {
        /// Of what.
        what: &'static str,
        /// The word.
        got: String,
        /// What there is.
        choices: &'static str,
    },
    /// An index without a graph, where one is needed.
    #[error("the index {} has no graph to tune: build it with `dpr index --kind hnsw`", path.display())]
    NoGraph {
        /// The index directory.
        path: PathBuf,
    },
    /// No effort finds as much as is wanted.
    #[error(
        "recall@{k} reaches {best:.4}, not {wanted}: build the graph anew with a greater --ef-construction or --m"
    )]
    Recall {
        /// Passages asked for.
        k: usize,
        /// What was wanted.
        wanted: f64,
        /// The most that was found.
        best: f64,
    },
    /// No index at this path.
    #[error("{} is not an index: build one with `dpr index --vectors VECTORS --out {}`, or of words alone with `dpr index --passages FILE --sparse english`", path.display(), path.display())]
    NotAnIndex {
        /// The directory.
        path: PathBuf,
    },
    /// The index has no vectors.
    #[error(
        "the index {} has no vectors: build one with `dpr index --vectors`, or search by words (bm25, tfidf)",
        path.display()
    )]
    NoVectors {
        /// The version's directory.
        path: PathBuf,
    },
    /// The index has no inverted index.
    #[error(
        "the index {} cannot search by words: build it with `dpr index --sparse english` (or `bigram`)",
        path.display()
    )]
    NoSparse {
        /// The manifest.
        path: PathBuf,
    },
    /// See [`SparseError`].
    #[error(transparent)]
    Sparse(#[from] SparseError),
    /// A file that the manifest lists is not there.
    #[error("{} is missing: copy the index again or rebuild it with `dpr index`", path.display())]
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// A file is shorter or longer than the manifest says.
    #[error("{} has {got} bytes, expected {expected}: copy the index again or rebuild it with `dpr index`", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes by the manifest.
        expected: u64,
        /// Bytes found.
        got: u64,
    },
    /// A file's content is not what was written.
    #[error("{} is damaged (sha256 differs): copy the index again or rebuild it with `dpr index`", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// A file whose checksum holds, or that has none, makes no sense.
    #[error("{} is damaged ({reason}): copy the index again or rebuild it with `dpr index`", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The manifest and the files disagree on the number of passages.
    #[error("{} holds {got} {what}, the manifest says {expected}: rebuild the index with `dpr index`", path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// `vectors` or `passages`.
        what: &'static str,
        /// By the manifest.
        expected: usize,
        /// Found.
        got: usize,
    },
    /// Written by a newer version of this program.
    #[error("{} has format version {found}, this program reads up to {supported}: update dpr", path.display())]
    NewerFormat {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest this program knows.
        supported: u32,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written: a full disk, an unwritable directory.
    #[error(
        "cannot write the index under {}: {source}; the index that was there is unchanged: \
         make room or give another --out",
        path.display()
    )]
    Write {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory holds files that no index has.
    #[error("{} holds `{name}`, which is not part of an index: give another --out", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The first such name.
        name: String,
    },
    /// Another process builds there.
    #[error("{} is being built by another process: wait for it or give another --out", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The build was asked to stop.
    #[error("interrupted; the index that was there, if any, is unchanged")]
    Interrupted,
    /// Nothing to index.
    #[error("there are no vectors to index: give a corpus with at least one passage to `dpr encode`")]
    Empty,
    /// Two passages with one id.
    #[error(
        "the passage id `{id}` is at row {first} and again at row {second}: ids must differ, remove one of them"
    )]
    DuplicateId {
        /// The id.
        id: String,
        /// First row.
        first: usize,
        /// Second row.
        second: usize,
    },
    /// A vector with a NaN or an infinity.
    #[error(
        "the vector of row {row} (passage `{id}`) is not finite at {position}: encode the passages again"
    )]
    NotFinite {
        /// Row.
        row: usize,
        /// Its passage.
        id: String,
        /// First such number.
        position: usize,
    },
    /// Vectors so long that inner products overflow f32.
    #[error("{what} is so long (norm {norm:e}) that inner products overflow: normalise the vectors")]
    Overflow {
        /// As `the query`.
        what: &'static str,
        /// Its length.
        norm: f64,
    },
    /// Vectors of another length than expected.
    #[error(
        "the vector has {got} numbers, the index has {expected}: was the question encoded with another model?"
    )]
    Dimension {
        /// Numbers given.
        got: usize,
        /// Numbers expected.
        expected: usize,
    },
    /// Rows that are not a whole number of vectors, one a passage.
    #[error(
        "{numbers} numbers are not {count} vectors of {dim}: the vectors and the passages do not fit together"
    )]
    Shape {
        /// Numbers given.
        numbers: usize,
        /// Vectors expected.
        count: usize,
        /// Numbers in a vector.
        dim: usize,
    },
    /// No rows asked for.
    #[error("k is 0: ask for at least one result")]
    K,
    /// A parameter out of its range.
    #[error("{name} is {value}, must be {min} to {max}")]
    Parameter {
        /// As `--m`.
        name: &'static str,
        /// Value given.
        value: usize,
        /// Least allowed.
        min: usize,
        /// Most allowed.
        max: usize,
    },
    /// A kind of index that does not exist.
    #[error("`{got}` is not a kind of index: use `exact` or `hnsw`")]
    Kind {
        /// What was given.
        got: String,
    },
    /// The graph library failed.
    #[error("building the graph failed ({reason}): build with --kind exact and report this")]
    Graph {
        /// What it said.
        reason: String,
    },
}

impl IndexError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::MissingFile { path: path.to_path_buf() },
            _ => Self::Read { path: path.to_path_buf(), source },
        }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_path_buf(), source }
    }

    pub(super) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), reason: reason.into() }
    }
}
