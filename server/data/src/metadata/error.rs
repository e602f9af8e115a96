//! The error of metadata.

use super::Metadata;

/// The error of metadata that a passage cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The name of a field is empty or too long.
    #[error("the name of a metadata field has {got} bytes, must have 1 to {max}: `{name}`", max = Metadata::MAX_NAME)]
    Name {
        /// The beginning of the name.
        name: String,
        /// Its length in bytes.
        got: usize,
    },
    /// A name is there twice.
    #[error("the metadata field `{name}` is given twice: give it once")]
    Twice {
        /// The name.
        name: String,
    },
    /// There are too many fields.
    #[error(
        "the metadata has more than {} fields: leave out those that no filter needs",
        Metadata::MAX_FIELDS
    )]
    Fields,
    /// Names and values are too long.
    #[error(
        "the metadata has more than {} bytes: keep long texts in the passage's text",
        Metadata::MAX_BYTES
    )]
    Bytes,
    /// A value is of another kind.
    #[error("{place} is {got}, must be a string, a number or a boolean")]
    Kind {
        /// The place of the value, as the error calls it.
        place: String,
        /// The kind of the value.
        got: &'static str,
    },
    /// A whole number is too large to be kept exactly.
    #[error("{place} is a whole number beyond 2^53, which loses digits: write it as a string")]
    Whole {
        /// The place of the value, as the error calls it.
        place: String,
    },
}
