//! Errors of a table in PostgreSQL.

use dpr_core::EmbeddingError;
use dpr_index::Stopped;

/// The reason why a table was not filled, searched or changed. None of its texts holds a password, the text or the
/// metadata of a passage, or a value that a search was filtered by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// Text that is not an address.
    #[error("{got} is not the address of a table: {why} (postgres://USER@HOST/DATABASE?table=NAME)")]
    Address {
        /// The text, without a password.
        got: String,
        /// The reason why it is not an address.
        why: String,
    },
    /// A password that cannot be read.
    #[error("the password in {place} cannot be used: {why}")]
    Password {
        /// `PGPASSWORD` or a file.
        place: String,
        /// The reason why it cannot be read.
        why: String,
    },
    /// Certificates that cannot be read.
    #[error("the certificates of {place} cannot be used: {why}")]
    Certificates {
        /// A file, or the system's store.
        place: String,
        /// The reason why they cannot be read.
        why: String,
    },
    /// The server does not answer, not in time, or answers that it cannot now.
    #[error("{address} does not answer ({what}, {seconds} s): {reason}")]
    Unavailable {
        /// The table.
        address: String,
        /// The operation asked for.
        what: &'static str,
        /// The time for which it was tried.
        seconds: u64,
        /// The last failure.
        reason: String,
    },
    /// The server refuses.
    #[error("{address} refuses ({what}): {reason}")]
    Refused {
        /// The table.
        address: String,
        /// The operation asked for.
        what: &'static str,
        /// The server's message.
        reason: String,
    },
    /// The search was told to stop, or found more bytes than it may.
    #[error("{0}")]
    Stopped(#[from] Stopped),
    /// The database has no such table.
    #[error("{address}: there is no such table")]
    NoTable {
        /// The table.
        address: String,
    },
    /// The database has no vectors.
    #[error(
        "{address}: the database does not have pgvector 0.7 or newer ({got}): run CREATE EXTENSION vector, or ALTER EXTENSION vector UPDATE, as its owner"
    )]
    NoExtension {
        /// The table.
        address: String,
        /// The version that it has, or `none`.
        got: String,
    },
    /// The table is not one that passages can be kept in.
    #[error("{address} cannot hold passages: {why}")]
    Shape {
        /// The table.
        address: String,
        /// The reason why it cannot hold passages, and advice for the user.
        why: String,
    },
    /// The comment of the table does not name a model.
    #[error("{address}: the table's comment does not name the model of its vectors ({why})")]
    NoModel {
        /// The table.
        address: String,
        /// The content of the comment instead.
        why: String,
    },
    /// The table holds vectors, and nobody says of which model.
    #[error(
        "{address} holds {count} vectors of a model that its comment does not name: if it is the model of these vectors, \
         run COMMENT ON TABLE {table} IS {comment}"
    )]
    Unclaimed {
        /// The table.
        address: String,
        /// The number of vectors, at least.
        count: usize,
        /// The table as SQL names it.
        table: String,
        /// The comment that names the model of the vectors that were given, quoted.
        comment: String,
    },
    /// The table was filled by a newer `dpr`.
    #[error("{address} is in format {found}, this program knows up to {supported}: use a newer dpr")]
    NewerFormat {
        /// The table.
        address: String,
        /// Its format.
        found: u32,
        /// The newest that is known.
        supported: u32,
    },
    /// Vectors of another model.
    #[error(
        "{address} holds vectors of model {table}, these are of model {given}: use that model, or give another table"
    )]
    WrongModel {
        /// The table.
        address: String,
        /// Fingerprint of the table's model.
        table: String,
        /// Fingerprint of the vectors' model.
        given: String,
    },
    /// The table was filled with vectors of another model since it was opened.
    #[error("{address}: the table's comment changed since it was opened: open it again")]
    Changed {
        /// The table.
        address: String,
    },
    /// A vector of another length.
    #[error("{address} holds vectors of {expected} numbers, this one has {got}")]
    Dimension {
        /// The table.
        address: String,
        /// Numbers in its vectors.
        expected: usize,
        /// Numbers in the one given.
        got: usize,
    },
    /// Vectors that are too long for a graph.
    #[error(
        "vectors of {dim} numbers are too long for pgvector's graph, which takes {max}: keep them {instead}"
    )]
    TooWide {
        /// Numbers in the vectors.
        dim: usize,
        /// Most numbers.
        max: usize,
        /// Another home.
        instead: &'static str,
    },
    /// A parameter of the graph that pgvector does not take.
    #[error("{name} is {value}, pgvector takes {min} to {max}")]
    Parameter {
        /// `m` or `ef_construction`.
        name: &'static str,
        /// The value asked for.
        value: usize,
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// A vector that cannot be compared.
    #[error("passage `{id}`: {source}")]
    Vector {
        /// The passage's id.
        id: String,
        /// The error of the vector.
        source: EmbeddingError,
    },
    /// A vector with a number that 16 bits cannot hold.
    #[error(
        "passage `{id}`: its vector has the number {number}, and halfvec holds up to 65504: keep it as vector"
    )]
    Overflow {
        /// The passage's id.
        id: String,
        /// The number.
        number: f32,
    },
    /// An id that is given twice.
    #[error("the id `{id}` is there twice: ids must differ")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// A passage that the table's columns cannot hold.
    #[error("passage `{id}`: its {field} {why}")]
    Field {
        /// The passage's id.
        id: String,
        /// `id`, `title`, `text` or `metadata`.
        field: &'static str,
        /// The reason why it cannot be kept, and advice for the user.
        why: String,
    },
    /// A blank field.
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
    /// Ids to delete that no passage has.
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
    #[error("k is 0: a search returns at least 1 passage")]
    K,
    /// A condition on metadata, of a table without any.
    #[error("{address} has no column of metadata, so that it cannot be filtered by metadata")]
    NoMetadata {
        /// The table.
        address: String,
    },
    /// Fewer passages than were written.
    #[error(
        "{address} holds {got} of the {expected} passages that were written: somebody deletes them meanwhile"
    )]
    Lost {
        /// The table.
        address: String,
        /// The number of passages that were written.
        expected: usize,
        /// The number of passages found.
        got: usize,
    },
    /// The load was told to stop.
    #[error("interrupted: what was written stays")]
    Interrupted,
    /// The threads of the client could not be started.
    #[error("cannot start the client: {0}")]
    Runtime(#[from] std::io::Error),
}
