//! A delta: the changes of an index since private tables were made of it. Everybody downloads it whole, so that asking
//! for it says nothing about a question.
//!
//! ```text
//! "DPRD", u8 format (1), u8 0, u16 dims, 32 bytes version of the tables
//! u64 changes, u32 removed, u32 added
//! u32 positions of the removed passages [removed], ascending
//! i8 coordinates of the added passages [added, dims]
//! the added passages, raw deflate of one JSON object a line
//! ```
//! All numbers are little-endian. Coordinates are rounded as those of the rank table are, so that the scores of added
//! passages compare with the decoded ones.

use super::manifest::Tables;
use super::wire::WireError;

/// The most passages of a delta, removed and added ones together.
pub const MOST_CHANGED: usize = 2000;

/// The most bytes of a delta.
pub const MOST_DELTA: usize = 2 << 20;

/// The most bytes of the passages of a delta, and of a column, before they are compressed. Readers accept
/// twice as many.
pub const MOST_TEXT: usize = 8 << 20;

const MAGIC: &[u8; 4] = b"DPRD";
const FORMAT: u8 = 1;

/// Bytes before the positions.
const HEAD: usize = 56;

/// The changes of an index since private tables were made of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// The number of changes, one by one: of two deltas of the same tables, the later one has more.
    pub changes: u64,
    /// Positions in the tables of the passages that were replaced or deleted, ascending.
    pub removed: Vec<u32>,
    /// Coordinates of the passages that were added, `[added, dims]`, scaled and rounded as the rank table is.
    pub codes: Vec<i8>,
    /// The passages that were added: raw deflate of one JSON object a line.
    pub texts: Vec<u8>,
}

impl Delta {
    /// Returns the delta as it is sent, for tables of this version whose rows have `dims` coordinates.
    pub fn write(&self, version: &[u8; 32], dims: usize) -> Vec<u8> {
        let added = self.codes.len() / dims.max(1);
        let mut bytes =
            Vec::with_capacity(HEAD + 4 * self.removed.len() + self.codes.len() + self.texts.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[FORMAT, 0]);
        bytes.extend_from_slice(&(dims as u16).to_le_bytes());
        bytes.extend_from_slice(version);
        bytes.extend_from_slice(&self.changes.to_le_bytes());
        bytes.extend_from_slice(&(self.removed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(added as u32).to_le_bytes());
        bytes.extend(self.removed.iter().flat_map(|position| position.to_le_bytes()));
        bytes.extend(self.codes.iter().map(|number| number.cast_unsigned()));
        bytes.extend_from_slice(&self.texts);
        bytes
    }

    /// Reads a delta of these tables.
    ///
    /// # Errors
    /// [`WireError::Delta`] for another format or version, more than [`MOST_CHANGED`] passages, and positions that the
    /// tables do not have or that do not ascend.
    pub fn read(tables: &Tables, bytes: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::Delta;
        let short = || wrong("it ends too soon");
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or_else(short)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let dims = tables.rank.dims();
        let is_known = head[..4] == *MAGIC && head[4..6] == [FORMAT, 0];
        if !is_known || head[6..8] != (dims as u16).to_le_bytes() || head[8..40] != tables.version {
            return Err(wrong("it is not one of these tables"));
        }
        let changes = u64::from(number(40)) | u64::from(number(44)) << 32;
        let (removed, added) = (number(48) as usize, number(52) as usize);
        if removed.saturating_add(added) > MOST_CHANGED {
            return Err(wrong("it has more passages than a delta may have"));
        }
        let (positions, rest) = rest.split_at_checked(4 * removed).ok_or_else(short)?;
        let (codes, texts) = rest.split_at_checked(added * dims).ok_or_else(short)?;
        let removed: Vec<u32> =
            positions.as_chunks().0.iter().map(|position| u32::from_le_bytes(*position)).collect();
        let codes = codes.iter().map(|byte| byte.cast_signed()).collect();
        let is_in_tables = removed.last().is_none_or(|last| (*last as usize) < tables.manifest.passages);
        if !is_in_tables || !removed.is_sorted_by(|a, b| a < b) {
            return Err(wrong("its positions are not those of passages of the tables, each once"));
        }
        Ok(Self { changes, removed, codes, texts: texts.to_vec() })
    }
}
