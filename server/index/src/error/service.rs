//! The error of services that keep passages.

use std::fmt::Display;
use std::io;

/// The error of a service that keeps passages, by whatever protocol. None of its texts holds credentials, the text or
/// the metadata of a passage, or a value that a search was filtered by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum ServiceError {
    /// Text that is not the address of a collection or a table; `got` is without a password, `form` is an address's.
    #[error("{got} is not an address of passages: {why} ({form})")]
    Address { got: String, why: String, form: &'static str },
    /// The service is away, too slow, or limits the rate: `reason` is the last failure of those `seconds`.
    #[error("{address} does not answer ({what}, tried for {seconds} s): {reason}")]
    Unavailable { address: String, what: &'static str, seconds: u64, reason: String },
    /// The service refuses, and would again: `reason` is its message, or its codes where the message may quote values.
    #[error("{address} refuses ({what}): {reason}")]
    Refused { address: String, what: &'static str, reason: String },
    /// The service has no such collection or table.
    #[error("{address}: the {what} does not exist")]
    Missing { address: String, what: &'static str },
    /// The collection or the table is of a newer `dpr`.
    #[error("{address} is in format {found}, this program knows up to {supported}: use a newer dpr")]
    NewerFormat { address: String, found: u32, supported: u32 },
    /// Vectors of another model, by its fingerprint.
    #[error(
        "{address} holds vectors of model {held}, these are of model {given}: use that model, or give another address"
    )]
    WrongModel { address: String, held: String, given: String },
    /// A vector of another length.
    #[error("{address} holds vectors of {expected} numbers, this one has {got}")]
    Dimension { address: String, expected: usize, got: usize },
    /// Fewer passages are there than a load wrote.
    #[error(
        "{address} holds {got} of the {expected} passages that were written: somebody deletes them meanwhile"
    )]
    Lost { address: String, expected: usize, got: usize },
    /// A load was told to stop.
    #[error("interrupted: what was written stays")]
    Interrupted,
    /// The threads of the client could not be started.
    #[error("cannot start the client: {0}")]
    Runtime(#[from] io::Error),
}

impl ServiceError {
    /// Refuses a format that is newer than `supported`.
    ///
    /// # Errors
    /// [`ServiceError::NewerFormat`].
    pub fn check_format(address: &impl Display, found: u32, supported: u32) -> Result<(), Self> {
        match found > supported {
            true => Err(Self::NewerFormat { address: address.to_string(), found, supported }),
            false => Ok(()),
        }
    }

    /// Refuses vectors of another model or length than those that are held, each a fingerprint and a length.
    ///
    /// # Errors
    /// [`ServiceError::WrongModel`], or [`ServiceError::Dimension`].
    pub fn check_model(
        address: &impl Display,
        (held, dim): (&str, usize),
        (given, got): (&str, usize),
    ) -> Result<(), Self> {
        if held != given {
            let (held, given) = (held.to_owned(), given.to_owned());
            return Err(Self::WrongModel { address: address.to_string(), held, given });
        }
        Self::check_dim(address, dim, got)
    }

    /// Refuses a vector of another length.
    ///
    /// # Errors
    /// [`ServiceError::Dimension`].
    pub fn check_dim(address: &impl Display, expected: usize, got: usize) -> Result<(), Self> {
        match expected == got {
            true => Ok(()),
            false => Err(Self::Dimension { address: address.to_string(), expected, got }),
        }
    }

    /// Refuses a load after which fewer passages are there than were written.
    ///
    /// # Errors
    /// [`ServiceError::Lost`].
    pub fn check_count(address: &impl Display, expected: usize, got: usize) -> Result<(), Self> {
        match got < expected {
            true => Err(Self::Lost { address: address.to_string(), expected, got }),
            false => Ok(()),
        }
    }
}
