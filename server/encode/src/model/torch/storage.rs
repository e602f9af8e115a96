//! Storages: runs of numbers of one type, which tensors are views of.

use safetensors::tensor::Dtype;

/// A run of numbers outside of the pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Storage<'p> {
    pub(super) key: &'p str,
    pub(super) dtype: Dtype,
    /// Its numbers.
    pub(super) count: u64,
}

impl Storage<'_> {
    /// Returns the bytes of one number.
    pub(super) fn width(&self) -> u64 {
        self.dtype.bitsize() as u64 / 8
    }

    /// Returns its bytes; `None` past 64 bits.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.count.checked_mul(self.width())
    }
}
