//! The passages that an index is built of, one after the other: those of a slice, or those of an index that changes,
//! whose texts stay in its mapped files.

use std::borrow::Cow;

use crate::FileError;
use dpr_data::Passage;

/// Passages in the order of their rows.
pub(crate) type Passages<'a> = dyn Iterator<Item = Result<Cow<'a, Passage>, FileError>> + 'a;

/// Passages that are gone through several times, each time from the first on.
pub(crate) trait PassageStream {
    /// Returns the number of passages.
    fn count(&self) -> usize;

    /// Returns the passages, or the error of the first that cannot be read.
    fn passages(&self) -> Box<Passages<'_>>;
}

impl PassageStream for &[Passage] {
    fn count(&self) -> usize {
        self.len()
    }

    fn passages(&self) -> Box<Passages<'_>> {
        Box::new(self.iter().map(|passage| Ok(Cow::Borrowed(passage))))
    }
}
