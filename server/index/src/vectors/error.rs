//! What can go wrong with a vectors directory.

use std::io;
use std::path::{Path, PathBuf};

use dpr_core::EmbeddingError;

/// Why vectors were not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsError {
    /// A file cannot be written: a full disk, an unwritable directory.
    #[error("cannot write {}: {source}; finished parts are kept: make room and run the same command again", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory holds parts of another encoding.
    #[error(
        "{} holds vectors of another encoding: its {field} is {found}, this one's is {expected}; \
         give another --out, or --force to discard them",
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
    /// The directory holds files that no encoding wrote.
    #[error("{} holds `{name}`, which is not part of a vectors directory: give another --out", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The first such name.
        name: String,
    },
    /// Another process writes there.
    #[error("{} is being written by another process: wait for it or give another --out", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// No finished encoding there.
    #[error(
        "{} holds no finished vectors: run `dpr encode --out {}` (it continues where it stopped)",
        path.display(), path.display()
    )]
    Unfinished {
        /// The directory.
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
    /// A file is not what its manifest says.
    #[error("{} is damaged ({reason}): encode again with --force", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
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
        /// What is wrong.
        source: EmbeddingError,
    },
    /// A spec that cannot be.
    #[error("{field} is {value}, but must be {rule}")]
    Spec {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
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

impl VectorsError {
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_path_buf(), source }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_path_buf(), source }
    }

    pub(super) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), reason: reason.into() }
    }
}
