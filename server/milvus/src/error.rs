//! Errors of a collection in a Milvus cluster.

use dpr_core::EmbeddingError;

use super::MAX_K;

/// The reason why a collection was not filled, searched or changed. None of its texts holds credentials, the text of a
/// passage, or a filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MilvusError {
    /// Text that is not an address.
    #[error("{got} is not the address of a collection: {why} (milvus://host:port/collection)")]
    Address {
        /// The text, without a password.
        got: String,
        /// The reason why it is not an address.
        why: &'static str,
    },
    /// No server answers.
    #[error(
        "no Milvus answers at {address} within {seconds} s: start it, or see whether the address is right"
    )]
    Down {
        /// The collection.
        address: String,
        /// The time waited.
        seconds: u64,
    },
    /// The cluster answered before, and now does not, is too slow, or limits the rate.
    #[error("{address} has not done it for {seconds} s ({what}): {reason}; what was written before stays")]
    Slow {
        /// The collection.
        address: String,
        /// The operation asked for.
        what: &'static str,
        /// The time for which it was tried.
        seconds: u64,
        /// The last failure.
        reason: String,
    },
    /// The cluster refuses.
    #[error("{address} refuses ({what}): {reason}")]
    Refused {
        /// The collection.
        address: String,
        /// The operation asked for.
        what: &'static str,
        /// Its message, or its codes where the message may quote a passage or a filter.
        reason: String,
    },
    /// The collection does not exist.
    #[error("{address}: there is no such collection")]
    NoCollection {
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
    /// The collection was made by a newer `dpr`.
    #[error("{address} is in format {found}, this program knows up to {supported}: use a newer dpr")]
    NewerFormat {
        /// The collection.
        address: String,
        /// Its format.
        found: u32,
        /// The newest that is known.
        supported: u32,
    },
    /// Vectors of another model.
    #[error(
        "{address} holds vectors of model {collection}, these are of model {given}: use that model, or give another collection"
    )]
    WrongModel {
        /// The collection.
        address: String,
        /// Fingerprint of the collection's model.
        collection: String,
        /// Fingerprint of the vectors' model.
        given: String,
    },
    /// A vector of another length.
    #[error("{address} holds vectors of {expected} numbers, this one has {got}")]
    Dimension {
        /// The collection.
        address: String,
        /// Numbers in its vectors.
        expected: usize,
        /// Numbers in the one given.
        got: usize,
    },
    /// A vector that cannot be compared.
    #[error("passage `{id}`: {source}")]
    Vector {
        /// The passage's id.
        id: String,
        /// The error of the vector.
        source: EmbeddingError,
    },
    /// An id that is given twice.
    #[error("the id `{id}` is there twice: ids must differ")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// A text that Milvus cannot hold.
    #[error("passage `{id}`: its {field} has {bytes} bytes, Milvus holds up to {max}: split the passage")]
    TooLong {
        /// The passage's id.
        id: String,
        /// `id`, `title` or `text`.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The most there can be.
        max: usize,
    },
    /// A blank field.
    #[error("passage {position}: its {field} is blank")]
    Blank {
        /// Which of those given, from 0.
        position: usize,
        /// `id` or `text`.
        field: &'static str,
    },
    /// Metadata, where the collection has no field for it.
    #[error(
        "{address} was made without metadata, by an older dpr: load the vectors again into another collection to have it"
    )]
    NoMetadata {
        /// The collection.
        address: String,
    },
    /// Nothing to write.
    #[error("there are no passages to write")]
    Empty,
    /// Ids to delete that are not there.
    #[error("`{id}` is not there ({missing} of {requested} ids are not): nothing was deleted")]
    Unknown {
        /// The first of them.
        id: String,
        /// The number of ids that are not there.
        missing: usize,
        /// Of how many.
        requested: usize,
    },
    /// A number of passages that no search returns.
    #[error("k is {k}: Milvus returns 1 to {MAX_K} passages")]
    K {
        /// The number asked for.
        k: usize,
    },
    /// Fewer passages than were written.
    #[error("{address} holds {got} of the {expected} passages that were written")]
    Lost {
        /// The collection.
        address: String,
        /// The number of passages that were written.
        expected: usize,
        /// The number of passages found.
        got: usize,
    },
    /// An answer that cannot be understood.
    #[error("{address} answers what this program does not understand: {what}")]
    Answer {
        /// The collection.
        address: String,
        /// The part of the answer that is not understood.
        what: String,
    },
    /// The load was told to stop.
    #[error("interrupted: what was written stays")]
    Interrupted,
    /// The threads of the client could not be started.
    #[error("cannot start the client: {0}")]
    Runtime(#[from] std::io::Error),
}
