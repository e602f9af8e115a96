//! What can go wrong with an index.

use std::io;
use std::path::{Path, PathBuf};

use dpr_core::EmbeddingError;

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
    /// A manifest that lists files which no version has in its folder.
    #[error(
        "{} lists the file {name:?}, which no index has in this folder: it was made or changed by somebody else, do not use \
         it; build the index with `dpr index`, or restore a snapshot of your own",
        path.display()
    )]
    FileName {
        /// The manifest.
        path: PathBuf,
        /// The name in it.
        name: String,
    },
    /// A GPU that did not do what it was asked.
    #[error("the GPU's scores cannot be read ({what}): search with --device cpu")]
    Gpu {
        /// Its words.
        what: String,
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
    /// Another process writes there.
    #[error(
        "{} is being written by {holder}: wait for it, give another --out, or, where it is a server, send updates to \
         its /v1/passages",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// Who it said it is.
        holder: String,
    },
    /// Another version was put in use in the middle of work on this one.
    #[error("{} was replaced meanwhile: do it again", path.display())]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
    /// Updates that are not in the version yet, where they would be left out.
    #[error(
        "the index {} has {changes} changes since it was built, which this does not look at: put them in with \
         `dpr index compact --index {}`",
        path.display(), path.display()
    )]
    HasUpdates {
        /// The index directory.
        path: PathBuf,
        /// Passages added, replaced or deleted.
        changes: u64,
    },
    /// A log that belongs to another version.
    #[error(
        "{} holds the updates of another index: copy `current`, the version's folder and its log together, or restore \
         a snapshot",
        path.display()
    )]
    OtherLog {
        /// The log.
        path: PathBuf,
    },
    /// One of the two places that say how much of a log counts.
    #[error(
        "{} is damaged in one of its two commit marks, its updates are whole: `dpr index compact` repairs it",
        path.display()
    )]
    CommitMark {
        /// The log.
        path: PathBuf,
    },
    /// A log that could not be written once, so that nobody knows what of it is on the disk.
    #[error("{} could not be written ({reason}): make room and start again; what was acknowledged is kept", path.display())]
    LogBroken {
        /// The log.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// An update that does not fit a frame of the log.
    #[error("the update is larger than 1 GiB: send its passages in several")]
    TooLarge,
    /// An update without passages.
    #[error("there is nothing to do: give at least one passage")]
    NoChanges,
    /// Passages to delete that are not there.
    #[error("no passage has the id {}: nothing was deleted", listed(ids))]
    UnknownIds {
        /// Their ids.
        ids: Vec<String>,
    },
    /// A passage to add that says nothing, or has no name.
    #[error("the passage at {position} has a blank {what}: give it one")]
    Blank {
        /// From 0, among those given.
        position: usize,
        /// `id` or `text`.
        what: &'static str,
    },
    /// A passage to add with a vector that cannot be found.
    #[error("the passage `{id}`: {source}")]
    Vector {
        /// Its id.
        id: String,
        /// What is wrong.
        source: EmbeddingError,
    },
    /// Every passage was deleted.
    #[error("no passage is left in {}: add some before compacting, or build the index anew", path.display())]
    NothingLeft {
        /// The index directory.
        path: PathBuf,
    },
    /// A version of another model than the one being served.
    #[error(
        "the version now in {} is of model {found} ({found_dim} dims), the one served is of {served} ({served_dim} \
         dims): it is not taken, start the server again with the model it belongs to",
        path.display()
    )]
    OtherModel {
        /// The index directory.
        path: PathBuf,
        /// Fingerprint of the version's model.
        found: String,
        /// Numbers in its vectors.
        found_dim: usize,
        /// Fingerprint of the model being served.
        served: String,
        /// Numbers in its vectors.
        served_dim: usize,
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

    /// The same for another who waited for the same write.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Write { path, source } => {
                Self::Write { path: path.clone(), source: io::Error::new(source.kind(), source.to_string()) }
            }
            Self::LogBroken { path, reason } => {
                Self::LogBroken { path: path.clone(), reason: reason.clone() }
            }
            other => Self::Corrupt { path: PathBuf::new(), reason: other.to_string() },
        }
    }

    pub(super) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), reason: reason.into() }
    }
}

/// Some of the ids, and how many more there are.
fn listed(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
