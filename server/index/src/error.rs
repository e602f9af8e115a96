//! The errors of an index, one small enum for each operation.

mod change;
mod search;
mod service;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dpr_files::Error as FileError;

use crate::cancel::Stopped;
use crate::limits::TooLong;
use crate::sparse::SparseError;

pub use change::ChangeError;
pub use search::{Cause, SearchError};
pub use service::ServiceError;

/// The error of checking a matrix of vectors.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum MatrixError {
    /// There is not one vector.
    #[error("there are no vectors to index")]
    Empty,
    /// Numbers that are not a whole number of vectors, one for each passage.
    #[error(
        "{numbers} numbers are not {count} vectors of {dim}: the vectors and the passages do not fit together"
    )]
    Shape { numbers: usize, count: usize, dim: usize },
    /// A vector with a NaN or an infinity, the first of which is at `position`.
    #[error("the vector of row {row} (passage `{id}`) is not finite at {position}")]
    NotFinite { row: usize, id: String, position: usize },
    /// A vector so long that inner products overflow f32.
    #[error(
        "the vector of passage `{id}` has norm {norm:.2e}, must have {max:.2e} at most, above which inner products \
         overflow: normalise the vectors"
    )]
    Overflow { id: String, norm: f64, max: f64 },
}

/// The error of opening an index.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum OpenError {
    /// A file is missing, damaged, of a newer format, or cannot be read; or another process writes in the directory.
    #[error("{0}")]
    File(#[from] FileError),
    /// See [`MatrixError`].
    #[error("{0}")]
    Matrix(#[from] MatrixError),
    /// See [`SparseError`].
    #[error("{0}")]
    Sparse(#[from] SparseError),
    /// There is no index at this path.
    #[error("{} is not an index", path.display())]
    NotAnIndex { path: PathBuf },
    /// The index has no vectors.
    #[error("the index {} has no vectors", path.display())]
    NoVectors { path: PathBuf },
    /// The index has no vectors, and was opened to be changed.
    #[error("the index {} is of words alone, and such an index cannot be changed", path.display())]
    WordsAlone { path: PathBuf },
    /// The index has no inverted index.
    #[error("the index {} has no inverted index, so that it cannot be searched by words", path.display())]
    NoSparse { path: PathBuf },
    /// The manifest and a file disagree on the number of vectors.
    #[error("{} holds {got} vectors, the manifest says {expected}", path.display())]
    Count { path: PathBuf, expected: usize, got: usize },
    /// The manifest lists a file that no version has in its folder.
    #[error(
        "{} lists the file {name:?}, which no index has in this folder: it was made or changed by somebody else, do not \
         use it",
        path.display()
    )]
    FileName { path: PathBuf, name: String },
    /// The index has updates that are not in its newest version yet, where they would be left out.
    #[error("the index {} has {changes} changes since it was built, which this does not look at", path.display())]
    HasUpdates { path: PathBuf, changes: u64 },
    /// The write-ahead log belongs to another version.
    #[error(
        "{} holds the updates of another index: copy `current`, the version's folder and its log together, or restore \
         a snapshot",
        path.display()
    )]
    OtherLog { path: PathBuf },
    /// One of the two commit marks of the write-ahead log is damaged.
    #[error("{} is damaged in one of its two commit marks, its updates are whole", path.display())]
    CommitMark { path: PathBuf },
    /// The newest version is of another model than the one being served.
    #[error(
        "the version now in {} is of model {found} ({found_dim} dims), the one served is of {served} ({served_dim} \
         dims): it is not taken, start the server again with the model it belongs to",
        path.display()
    )]
    OtherModel { path: PathBuf, found: String, found_dim: usize, served: String, served_dim: usize },
}

/// The error of building, copying or upgrading an index. The version that was in use stays.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum BuildError {
    /// A file of the new version cannot be written: a full disk, an unwritable directory.
    #[error("cannot write the index under {}: {source}; the index that was there is unchanged", path.display())]
    Write { path: PathBuf, source: Arc<io::Error> },
    /// The directory is busy or holds files of others, or one of its files cannot be read or written.
    #[error("{0}")]
    File(#[from] FileError),
    /// The version that the new one is made of cannot be read.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// See [`MatrixError`].
    #[error("{0}")]
    Matrix(#[from] MatrixError),
    /// See [`SparseError`].
    #[error("{0}")]
    Sparse(#[from] SparseError),
    /// See [`TooLong`].
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// Two passages have one id.
    #[error(
        "the passage id `{id}` is at row {first} and again at row {second}: ids must differ, remove one of them"
    )]
    DuplicateId { id: String, first: usize, second: usize },
    /// A parameter is out of its range.
    #[error("{name} is {value}, must be {min} to {max}")]
    Parameter { name: &'static str, value: usize, min: usize, max: usize },
    /// An index of words alone was to be built of vectors.
    #[error("vectors make an index of the kind `exact` or `hnsw`, not `sparse`")]
    SparseOfVectors,
    /// The graph library failed.
    #[error("building the graph failed ({reason})")]
    Graph { reason: String },
    /// Another version was put in use in the middle of work on this one.
    #[error("{} was replaced meanwhile: do it again", path.display())]
    Replaced { path: PathBuf },
    /// The build was asked to stop.
    #[error("interrupted; the index that was there, if any, is unchanged")]
    Interrupted,
}

/// The error of compaction. The updates stay in the write-ahead log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum CompactError {
    /// See [`BuildError`].
    #[error("{0}")]
    Build(#[from] BuildError),
    /// The log of the new version cannot be written.
    #[error("{0}")]
    Log(#[from] UpdateError),
    /// Every passage was deleted.
    #[error("no passage is left in {}: add some before compacting, or build the index anew", path.display())]
    NothingLeft { path: PathBuf },
}

impl BuildError {
    /// Returns what makes an error of a failure to write a version in the index directory `path`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_path_buf(), source: Arc::new(source) }
    }
}

impl From<FileError> for QueryError {
    fn from(error: FileError) -> Self {
        Self::Damaged { reason: error.to_string() }
    }
}

impl From<FileError> for CompactError {
    fn from(error: FileError) -> Self {
        Self::Build(error.into())
    }
}

impl From<OpenError> for CompactError {
    fn from(error: OpenError) -> Self {
        Self::Build(error.into())
    }
}

/// The error of tuning a graph.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum TuneError {
    /// See [`BuildError`].
    #[error("{0}")]
    Build(#[from] BuildError),
    /// See [`QueryError`].
    #[error("{0}")]
    Query(#[from] QueryError),
    /// The index has no graph.
    #[error("the index {} has no graph to tune", path.display())]
    NoGraph { path: PathBuf },
    /// No `ef_search` that an index may have, short of looking at every passage, reaches the recall that was asked for.
    #[error("recall@{k} reaches {best:.4}, not {allowed}")]
    Recall { k: usize, allowed: f64, best: f64 },
}

/// The error of adding or deleting passages. Nothing of the request was done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum UpdateError {
    /// The write-ahead log cannot be written; it is as it was.
    #[error("cannot write the index under {}: {source}; the index that was there is unchanged", path.display())]
    Write { path: PathBuf, source: Arc<io::Error> },
    /// A file cannot be read.
    #[error("{0}")]
    File(#[from] FileError),
    /// The write-ahead log could not be written once, so that nobody knows what of it is on the disk.
    #[error("{} could not be written ({reason}): make room and start again; what was acknowledged is kept", path.display())]
    LogBroken { path: PathBuf, reason: String },
    /// An update panicked, so that nobody knows how much of it is applied in memory.
    #[error("an update of the index {} panicked: start again; what was acknowledged is kept", path.display())]
    Torn { path: PathBuf },
    /// The update does not fit a frame of the log.
    #[error("the update is larger than 1 GiB: send its passages in several")]
    TooLarge,
    /// The delta is full.
    #[error(
        "the index holds {rows} passages ({bytes} bytes) that were added since it was built, and takes {max_rows} passages \
         or {max_bytes} bytes until a new version is built of them: send these again later"
    )]
    Full { rows: usize, bytes: u64, max_rows: usize, max_bytes: u64 },
    /// See [`TooLong`].
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// The index would have more rows than can be counted.
    #[error(
        "the index would have {rows} rows, must be {max} at most: build it anew without what was deleted"
    )]
    TooMany { rows: usize, max: usize },
    /// See [`ChangeError`].
    #[error("{0}")]
    Change(#[from] ChangeError),
    /// A passage to add has a vector so long that inner products overflow f32.
    #[error(
        "the vector of passage `{id}` has norm {norm:.2e}, must have {max:.2e} at most, above which inner products \
         overflow: normalise the vectors"
    )]
    Overflow { id: String, norm: f64, max: f64 },
}

/// The error of a search by vectors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum QueryError {
    /// No rows were asked for.
    #[error("k is 0: ask for at least one result")]
    K,
    /// The query has another length than the vectors.
    #[error(
        "the vector has {got} numbers, the index has {expected}: was the question encoded with another model?"
    )]
    Dimension { got: usize, expected: usize },
    /// The query is so long that inner products overflow f32.
    #[error("the query is so long (norm {norm:e}) that inner products overflow: normalise the vectors")]
    Overflow { norm: f64 },
    /// See [`Stopped`].
    #[error("{0}")]
    Stopped(#[from] Stopped),
    /// A file of the index is damaged, which a search found or the check after opening did.
    #[error("{reason}")]
    Damaged { reason: String },
    /// The GPU did not compute the scores.
    #[error("the GPU's scores cannot be read ({reason})")]
    Gpu { reason: String },
}
