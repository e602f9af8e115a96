//! Errors of a table in PostgreSQL.

use dpr_index::search::ServiceError;
use dpr_index::{ChangeError, Stopped};

/// The reason why a table was not filled, searched or changed. None of its texts holds a password, the text or the
/// metadata of a passage, or a value that a search was filtered by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// See [`ChangeError`].
    #[error("{0}")]
    Change(#[from] ChangeError),
    /// See [`ServiceError`].
    #[error("{0}")]
    Service(#[from] ServiceError),
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
    /// The search was told to stop, or found more bytes than it may.
    #[error("{0}")]
    Stopped(#[from] Stopped),
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
    /// The table was filled with vectors of another model since it was opened.
    #[error("{address}: the table's comment changed since it was opened: open it again")]
    Changed {
        /// The table.
        address: String,
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
    /// A value that a column or a constraint of the table refuses. It does not name the address, which senders of
    /// passages need not know.
    #[error("{table} refuses ({what}): {reason}")]
    Value {
        /// The table as SQL names it.
        table: String,
        /// The work that was refused.
        what: &'static str,
        /// The column or the constraint where the server names it, and the SQLSTATE; never the value.
        reason: String,
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
}
