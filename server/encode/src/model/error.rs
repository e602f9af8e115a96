//! What can be wrong with a model directory.

use std::path::PathBuf;

use dpr_core::{DeviceError, LoadError};

/// Why a model cannot be read, imported or exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file cannot be read or written; the message names it.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The directory has no `model.json`.
    #[error("{0} is not a model directory: it has no model.json; make one with `dpr import`")]
    NotAModel(PathBuf),
    /// `model.json` is damaged.
    #[error("{path}: {reason}; import the model again")]
    Manifest {
        /// The manifest's path.
        path: PathBuf,
        /// What is wrong in it.
        reason: String,
    },
    /// Written by a newer version.
    #[error("{path} has format {got}, this version reads up to {supported}: use a newer dpr")]
    Newer {
        /// The manifest's path.
        path: PathBuf,
        /// Its format.
        got: u32,
        /// The newest format read here.
        supported: u32,
    },
    /// A file is not the one that the manifest names.
    #[error("{path} is damaged: its {what} is {got}, model.json says {expected}; import the model again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// `size` or `sha256`.
        what: &'static str,
        /// As found.
        got: String,
        /// As it should be.
        expected: String,
    },
    /// A Hugging Face directory lacks a file.
    #[error("{dir} has no {file}: {fix}")]
    MissingFile {
        /// The directory.
        dir: PathBuf,
        /// The file looked for.
        file: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// Something in an encoder's directory does not fit; names the directory.
    #[error("{dir}: {source}")]
    Encoder {
        /// The encoder's directory.
        dir: PathBuf,
        /// What is wrong.
        source: LoadError,
    },
    /// The device asked for cannot be had.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The two encoders make vectors that cannot be compared.
    #[error(
        "the question encoder makes vectors of {question} numbers and the passage encoder of {passage}: they must be equal; is --project needed for both?"
    )]
    Dimensions {
        /// Size of the question encoder's vectors.
        question: usize,
        /// Size of the passage encoder's vectors.
        passage: usize,
    },
    /// `--project` was asked for where a projection is there already.
    #[error("{dir} already has a projection to {has} numbers: leave --project out")]
    Projected {
        /// The encoder's directory.
        dir: PathBuf,
        /// Its projection's size.
        has: usize,
    },
    /// A limit of tokens that the encoder cannot have.
    #[error("{what} is {got}; {dir} takes from 4 to {limit} tokens")]
    Tokens {
        /// The option.
        what: &'static str,
        /// Its value.
        got: usize,
        /// The encoder's directory.
        dir: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The output exists.
    #[error("{0} exists: give another --out, or --force to replace it")]
    Exists(PathBuf),
    /// `web/` was made from other weights.
    #[error("{0} was exported from another model: run `dpr export-web` again")]
    StaleExport(PathBuf),
}

impl ModelError {
    /// Names the encoder's directory in what its files are wrong with.
    pub(super) fn in_dir<E: Into<LoadError>>(dir: &std::path::Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Encoder { dir: dir.to_owned(), source: source.into() }
    }
}
