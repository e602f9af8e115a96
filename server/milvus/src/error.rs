//! What can go wrong with a Milvus cluster.

use dpr_core::EmbeddingError;

use super::MAX_K;

/// Why a collection was not filled, searched or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MilvusError {
    /// An address that is none.
    #[error("{got} is no address of a collection: {why} (milvus://host:port/collection)")]
    Address {
        /// The text, without a password.
        got: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody answers.
    #[error(
        "no Milvus answers at {address} within {seconds} s: start it, or see whether the address is right"
    )]
    Down {
        /// Where.
        address: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// It answered before, and does not now, or too slowly, or asks for patience.
    #[error(
        "{address} has not done it for {seconds} s ({what}): {reason}; what was written before stays, and the same command goes on from there"
    )]
    Slow {
        /// Where.
        address: String,
        /// What was asked for.
        what: &'static str,
        /// How long it was tried.
        seconds: u64,
        /// The last failure.
        reason: String,
    },
    /// It says no.
    #[error("{address} refuses ({what}): {reason}")]
    Refused {
        /// Where.
        address: String,
        /// What was asked for.
        what: &'static str,
        /// Its words.
        reason: String,
    },
    /// It has no such collection.
    #[error("{address}: there is no such collection; fill it with `dpr index --vectors ... --out {address}`")]
    NoCollection {
        /// Where.
        address: String,
    },
    /// The collection was made by something else.
    #[error("{address} was not made by `dpr index` ({why}): give another collection")]
    Foreign {
        /// Where.
        address: String,
        /// What is missing or different.
        why: String,
    },
    /// The collection was made by a newer `dpr`.
    #[error("{address} is in format {found}, this program knows up to {supported}: use a newer dpr")]
    NewerFormat {
        /// Where.
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
        /// Where.
        address: String,
        /// Fingerprint of the collection's.
        collection: String,
        /// Fingerprint of the vectors'.
        given: String,
    },
    /// A vector of another length.
    #[error("{address} holds vectors of {expected} numbers, this one has {got}")]
    Dimension {
        /// Where.
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
        /// What is wrong.
        source: EmbeddingError,
    },
    /// An id that is there twice in what is written.
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
    /// Nothing where something must be.
    #[error("passage {position}: its {field} is blank")]
    Blank {
        /// Which of those given, from 0.
        position: usize,
        /// `id` or `text`.
        field: &'static str,
    },
    /// Nothing to write.
    #[error("there are no passages to write")]
    Empty,
    /// Ids to delete that are not there.
    #[error("`{id}` is not there ({missing} of {asked} ids are not): nothing was deleted")]
    Unknown {
        /// The first of them.
        id: String,
        /// How many.
        missing: usize,
        /// Of how many.
        asked: usize,
    },
    /// A number of passages that no search returns.
    #[error("k is {k}: Milvus returns 1 to {MAX_K} passages")]
    K {
        /// What was asked for.
        k: usize,
    },
    /// What was written is not what is there.
    #[error("{address} holds {got} of the {expected} passages that were written: run the same command again")]
    Lost {
        /// Where.
        address: String,
        /// What should be there.
        expected: usize,
        /// What is.
        got: usize,
    },
    /// An answer that makes no sense.
    #[error("{address} answers what this program does not understand: {what}")]
    Answer {
        /// Where.
        address: String,
        /// What.
        what: String,
    },
    /// Told to stop.
    #[error("interrupted: what was written stays, and the same command goes on from there")]
    Interrupted,
    /// The threads that talk to it could not be started.
    #[error("cannot start the client: {0}")]
    Runtime(#[from] std::io::Error),
}
