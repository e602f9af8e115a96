//! The digest by which columns are compared with the metadata of passages: it is made in any order, and in little
//! memory.

use dpr_data::{Metadata, Value};
use sha2::{Digest as _, Sha256};

/// A sum over all values of all rows, and their number. Columns hold a value of a row once, so that two are the same
/// where their sums are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnsDigest {
    count: u64,
    sum: u128,
}

impl ColumnsDigest {
    /// Returns the digest of a row.
    pub(crate) fn of(row: u32, metadata: &Metadata) -> Self {
        let values = metadata.iter().map(|(name, value)| FieldValue::new(name, value).of_row(row));
        values.fold(Self::default(), Self::and)
    }

    /// Returns the digest of both together.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// A value of a field, of which many rows may be digested.
pub(super) struct FieldValue(Sha256);

impl FieldValue {
    pub(super) fn new(name: &str, value: &Value) -> Self {
        let (kind, bytes): (u8, &[u8]) = match value {
            Value::Text(text) => (0, text.as_bytes()),
            Value::Number(number) => (1, &number.get().to_le_bytes()),
            Value::Boolean(boolean) => (2, &[u8::from(*boolean)]),
        };
        let mut hash = Sha256::new();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
        Self(hash)
    }

    /// Returns the digest of one row with this value.
    pub(super) fn of_row(&self, row: u32) -> ColumnsDigest {
        let hash: [u8; 32] = self.0.clone().chain_update(row.to_le_bytes()).finalize().into();
        let sum = u128::from_le_bytes(std::array::from_fn(|at| hash[at]));
        ColumnsDigest { count: 1, sum }
    }
}
