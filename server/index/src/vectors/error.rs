//! The errors of vectors directories.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use dpr_core::EmbeddingError;
use dpr_files::Error as FileError;

/// The error of writing or reading a vectors directory.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsError {
    /// A file cannot be written or read, or is damaged; the directory is busy, or holds files of others.
    #[error("{0}")]
    File(#[from] FileError),
    /// A part cannot be written: a full disk, mostly.
    #[error("cannot write rows {} to {} of {}: {source}; finished parts are kept", rows.start, rows.end, path.display())]
    NotWritten {
        /// The file of rows.
        path: PathBuf,
        /// The part.
        rows: Range<usize>,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The directory holds parts of another encoding.
    #[error(
        "{} holds vectors of another encoding: its {field} is {found}, this one's is {expected}",
        path.display()
    )]
    OtherSpec {
        /// The directory.
        path: PathBuf,
        /// The field that differs.
        field: &'static str,
        /// In the directory.
        found: String,
        /// Asked for.
        expected: String,
    },
    /// An encoding that was begun and not finished.
    #[error("{} holds no finished vectors", path.display())]
    Unfinished {
        /// The directory.
        path: PathBuf,
    },
    /// A path that nothing is at.
    #[error("{} is missing: no vectors directory is there", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A file, or a directory of something else.
    #[error("{} is not a vectors directory: it has no manifest.json", path.display())]
    NotVectors {
        /// The path.
        path: PathBuf,
    },
    /// Parts are still missing at [`finish`](super::VectorsWriter::finish).
    #[error("{missing} of {total} parts in {} are not written yet: encode them before joining", path.display())]
    MissingParts {
        /// The directory.
        path: PathBuf,
        /// Parts without rows.
        missing: usize,
        /// Parts in all.
        total: usize,
    },
    /// Rows of another number or length than the range asks for.
    #[error("{got} numbers for passages {start}..{end} of {dim} dimensions, expected {expected}")]
    Shape {
        /// First passage.
        start: usize,
        /// One past the last passage.
        end: usize,
        /// Dimensions.
        dim: usize,
        /// Numbers expected.
        expected: usize,
        /// Numbers given.
        got: usize,
    },
    /// A range that is not one of the parts.
    #[error("passages {start}..{end} are not a part: use a range that missing_parts() returned")]
    NotAPart {
        /// First passage.
        start: usize,
        /// One past the last passage.
        end: usize,
    },
    /// A NaN, an infinity, or a row of zeros.
    #[error("the passage `{id}`: {source}")]
    BadRow {
        /// The passage's id.
        id: String,
        /// The error of the vector.
        source: EmbeddingError,
    },
    /// A spec that cannot be.
    #[error("{field} is {value}, but must be {rule}")]
    Spec {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The rule for allowed values.
        rule: &'static str,
    },
    /// Directories that are not shards of one corpus.
    #[error("{} and {} are not shards of one encoding: their {field} differs ({first_value}, {second_value})",
        first.display(), second.display())]
    Mixed {
        /// A directory.
        first: PathBuf,
        /// Another.
        second: PathBuf,
        /// The field that differs.
        field: &'static str,
        /// In `first`.
        first_value: String,
        /// In `second`.
        second_value: String,
    },
    /// A shard was not given, or given twice.
    #[error("shard {index} of {of} is {what}: give each shard's directory once (shards count from 0)")]
    Shard {
        /// The shard, from 0.
        index: u32,
        /// Shards in all.
        of: u32,
        /// `missing` or `given twice`.
        what: &'static str,
    },
    /// No directory was given.
    #[error("no vectors directory given")]
    None,
}
