//! The I/O errors within tantivy's errors.

use std::io;

use tantivy::TantivyError;

/// Returns the I/O error that an error of tantivy is about: tantivy wraps them in several ways.
pub(super) fn to_io(error: TantivyError) -> io::Error {
    match error {
        TantivyError::IoError(source) => io::Error::new(source.kind(), source.to_string()),
        other => io::Error::other(other.to_string()),
    }
}
