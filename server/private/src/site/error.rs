//! The errors of exporting static sites.

use std::path::PathBuf;

use dpr_core::model::short;
use dpr_encode::model::ModelError;
use dpr_files::Error as FileError;
use dpr_index::private::DirectionsError;

/// A static site that cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A file cannot be read or written, or the folder holds something else.
    #[error(transparent)]
    File(#[from] FileError),
    /// The model cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The vectors have no directions.
    #[error(transparent)]
    Directions(#[from] DirectionsError),
    /// An encoder of another model than the index's.
    #[error(
        "the index was built by model {} ({index_dim} dims), the encoder is of model {} ({model_dim} dims)",
        short(index),
        short(model)
    )]
    OtherModel {
        /// Fingerprint of the model that the index was built by.
        index: String,
        /// Numbers in its vectors.
        index_dim: usize,
        /// Fingerprint of the encoder's model.
        model: String,
        /// Numbers in its vectors.
        model_dim: usize,
    },
    /// A model without weights for browsers.
    #[error("the model has no weights for browsers: export them first")]
    NoWeights,
    /// A number of dimensions that is not possible.
    #[error("{got} dimensions are not possible: give a number from 1 to {most}")]
    Dims {
        /// Dimensions asked for.
        got: usize,
        /// The most there can be.
        most: usize,
    },
    /// A number of bytes that packs cannot have.
    #[error("packs of {got} bytes are not possible: give a number from {least} to {most}")]
    PackBytes {
        /// Bytes asked for.
        got: usize,
        /// The fewest there can be.
        least: usize,
        /// The most there can be.
        most: usize,
    },
    /// A number of passages that buckets cannot have.
    #[error("buckets of {got} passages are not possible: {}", bucket_sizes(*least, *most))]
    BucketSize {
        /// Passages asked for.
        got: usize,
        /// The fewest there can be.
        least: usize,
        /// The most there can be.
        most: usize,
    },
    /// A site that another export wrote, or changed, while this one was made.
    #[error("another export wrote the site in {} meanwhile: export again", dir.display())]
    Changed {
        /// The site's folder.
        dir: PathBuf,
    },
    /// An index without passages.
    #[error("the index holds no passages, so there is nothing to search")]
    Empty,
    /// An index that no page should download.
    #[error(
        "{got} passages are too many for a page to download, {most} are possible: let a server search them"
    )]
    TooMany {
        /// Passages of the index.
        got: usize,
        /// The most there can be.
        most: usize,
    },
    /// A passage that is longer than a page takes.
    #[error("passage `{id}` has {bytes} bytes; with its neighbours it may have {most}")]
    Passage {
        /// Its id.
        id: String,
        /// Bytes of its JSON.
        bytes: usize,
        /// The most there can be.
        most: usize,
    },
    /// A manifest that would be written and not read.
    #[error("the manifest has {bytes} bytes, {most} can be read: make fewer, larger packs")]
    Manifest {
        /// Its bytes.
        bytes: u64,
        /// The most that is read.
        most: u64,
    },
    /// A site, or a file of it, that would be written and not read.
    #[error("{what} has {bytes} bytes, {most} can be read: {fix}; nothing was written")]
    TooLarge {
        /// The file, or what is too large.
        what: String,
        /// Its bytes.
        bytes: u64,
        /// The most that is read.
        most: u64,
        /// What makes it smaller.
        fix: &'static str,
    },
    /// The export was told to stop.
    #[error("the export was interrupted; the site is as it was")]
    Interrupted,
}

/// Returns which sizes of buckets are possible, or that none is. `most` is half of the index's passages.
fn bucket_sizes(least: usize, most: usize) -> String {
    if most < least {
        let needed = least.saturating_mul(2);
        return format!(
            "the index is too small for buckets, which need {needed} passages at least; export it without them"
        );
    }
    format!("give from {least} to {most} for this index")
}
