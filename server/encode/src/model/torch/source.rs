//! Bytes at places of a file. The file is not read as a whole: of a file of weights, one storage at a time is in
//! memory.

use std::io::{Read, Seek, SeekFrom};

use super::error::TorchError;

/// A file whose length is known, so that no size that it claims is believed before it is compared.
pub(super) struct Source<R> {
    inner: R,
    len: u64,
}

impl<R: Read + Seek> Source<R> {
    pub(super) fn new(mut inner: R) -> Result<Self, TorchError> {
        let len = inner.seek(SeekFrom::End(0))?;
        Ok(Self { inner, len })
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the bytes from `at` on, `None` where the file ends before their end. Nothing is allocated then.
    pub(super) fn read(&mut self, at: u64, bytes: u64) -> Result<Option<Vec<u8>>, TorchError> {
        let fits = at.checked_add(bytes).is_some_and(|end| end <= self.len);
        let (true, Ok(bytes)) = (fits, usize::try_from(bytes)) else { return Ok(None) };
        let mut buffer = vec![0; bytes];
        self.inner.seek(SeekFrom::Start(at))?;
        self.inner.read_exact(&mut buffer)?;
        Ok(Some(buffer))
    }
}

/// Returns the little-endian number of `N` bytes at a place of a slice; `None` past its end.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk::<N>()?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
