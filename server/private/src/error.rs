//! The errors of building and opening private tables.

use std::path::{Path, PathBuf};

use dpr_core::private::encrypted::{ManifestError, ParameterError, WireError};
use dpr_files::Error as FileError;

/// Private tables that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] dpr_index::OpenError),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Parameters that are refused.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The tables that were made are not what they should be.
    #[error("the private tables that were made are wrong: {0}")]
    Manifest(#[from] ManifestError),
    /// The tables that were made cannot be asked.
    #[error("the private tables that were made are wrong: {0}")]
    Wire(#[from] WireError),
    /// A passage that is too long to be fetched.
    #[error(
        "passage `{id}` has {bytes} bytes compressed; a column of private tables holds {most}: split it or delete it"
    )]
    Passage {
        /// Its id.
        id: String,
        /// Its bytes, compressed.
        bytes: usize,
        /// The greatest size.
        most: usize,
    },
    /// Texts that do not fit the largest table.
    #[error(
        "the texts fill {columns} columns of {rows} bytes; the largest table has {most}: split the passages between \
         several indexes"
    )]
    TooLarge {
        /// Columns that are needed.
        columns: usize,
        /// Bytes of a column.
        rows: usize,
        /// The most columns.
        most: usize,
    },
    /// Vectors that all lie in one place.
    #[error(
        "the vectors of the passages do not differ, so there is nothing to rank by: two different passages are needed"
    )]
    NoSpread,
    /// Vectors with fewer numbers than a question is ranked by.
    #[error("the vectors have {dim} numbers, encrypted search needs {least}: take a model of longer vectors")]
    Narrow {
        /// Numbers in a vector.
        dim: usize,
        /// The fewest there can be.
        least: usize,
    },
    /// Vectors so long that their products overflow.
    #[error("the products of the vectors overflow: scale the vectors to length 1, and build the index again")]
    Overflow,
    /// The build was told to stop.
    #[error("the build was interrupted; nothing was changed")]
    Interrupted,
}

/// Private tables that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There are none for the version of the index that is in use.
    #[error("{} has no private tables for the version in use", path.display())]
    Missing {
        /// The index directory.
        path: PathBuf,
    },
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    File(#[from] FileError),
    /// The manifest is refused.
    #[error("{}: {source}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The error of the manifest.
        source: ManifestError,
    },
    /// The tables are of another index.
    #[error("{} is made of another index: build it again", path.display())]
    OtherIndex {
        /// The manifest.
        path: PathBuf,
    },
}

impl OpenError {
    pub(crate) fn manifest(path: &Path) -> impl FnOnce(ManifestError) -> Self {
        |source| Self::Manifest { path: path.to_path_buf(), source }
    }
}
