//! Errors of a collection in a Milvus cluster.

use dpr_index::ChangeError;
use dpr_index::search::ServiceError;

use super::MAX_K;

/// The reason why a collection was not filled, searched or changed. None of its texts holds credentials, the text of a
/// passage, or a filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MilvusError {
    /// See [`ChangeError`].
    #[error("{0}")]
    Change(#[from] ChangeError),
    /// See [`ServiceError`].
    #[error("{0}")]
    Service(#[from] ServiceError),
    /// No server answers.
    #[error(
        "no Milvus answers at {address} within {seconds} s ({reason}): start it, or see whether the address is right"
    )]
    Down {
        /// The collection.
        address: String,
        /// The time waited.
        seconds: u64,
        /// The last failure of that time.
        reason: String,
    },
    /// The collection was made anew with other vectors since it was opened.
    #[error("{address}: the collection was made anew since it was opened: open it again")]
    Changed {
        /// The collection.
        address: String,
    },
    /// The collection was made by another program.
    #[error("{address} was not made by dpr ({why}): give another collection")]
    Foreign {
        /// The collection.
        address: String,
        /// The difference from a collection of `dpr`.
        why: String,
    },
    /// A text that Milvus cannot hold.
    #[error("passage `{id}`: its {field} has {bytes} bytes, Milvus holds up to {max}: {}", shorter(.field))]
    TooLong {
        /// The passage's id.
        id: String,
        /// `id`, `title`, `text` or `metadata`.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The most there can be.
        max: usize,
    },
    /// Metadata, where the collection has no field for it.
    #[error(
        "{address} was made without metadata, by an older dpr: load the vectors again into another collection to have it"
    )]
    NoMetadata {
        /// The collection.
        address: String,
    },
    /// A number of passages that no search returns.
    #[error("k is {k}: Milvus returns 1 to {MAX_K} passages")]
    K {
        /// The number asked for.
        k: usize,
    },
    /// An answer that cannot be understood.
    #[error("{address} answers what this program does not understand: {what}")]
    Answer {
        /// The collection.
        address: String,
        /// The part of the answer that is not understood.
        what: String,
    },
}

/// Returns how a field is made shorter.
fn shorter(field: &str) -> &'static str {
    match field {
        "text" => "split the passage",
        "metadata" => "leave fields of it out, or keep them elsewhere",
        "id" => "give the passage a shorter id",
        _ => "shorten it",
    }
}
