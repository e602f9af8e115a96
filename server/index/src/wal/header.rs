//! The beginning of a log: three sectors of a disk, each with its own checksum.
//!
//! ```text
//!    0  "DPRLOG\r\n"  u32 format  u32 dim  64 bytes: sha256 of the manifest of the version it belongs to
//!  512  u64 sequence  u64 end  u64 changes      the commit of an even sequence
//! 1024  u64 sequence  u64 end  u64 changes      the commit of an odd sequence
//! 1536  frames
//! ```
//! Numbers are little-endian; the last 4 bytes of a sector are the CRC-32 of those before. The two commits are written
//! in turns, so that a write that was torn leaves the other.

use std::path::Path;

use crate::{FileError, OpenError};

/// Bytes of a sector.
const SECTOR: usize = 512;

/// Bytes of a sector without its checksum.
const CONTENT: usize = SECTOR - 4;

/// The position of the first frame.
pub(crate) const FRAMES: u64 = 3 * SECTOR as u64;

const MAGIC: &[u8; 8] = b"DPRLOG\r\n";

/// The version of the log that this program writes, and the newest it reads.
const FORMAT: u32 = 1;

/// One sector.
pub(crate) type Sector = [u8; SECTOR];

/// The version whose updates a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Sha256 of the version's manifest, 64 hexadecimal digits.
    pub(crate) base: String,
    /// Numbers in a vector.
    pub(crate) dim: usize,
}

/// A commit mark: how much of a log counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Commits before it.
    pub(crate) sequence: u64,
    /// Bytes of the log that count, from its beginning.
    pub(crate) end: u64,
    /// Passages added, replaced or deleted in them.
    pub(crate) changes: u64,
}

impl Header {
    /// The first sector.
    pub(crate) fn sector(&self) -> Sector {
        let dim = u32::try_from(self.dim).unwrap_or(u32::MAX);
        let numbers = [FORMAT.to_le_bytes(), dim.to_le_bytes()].concat();
        sealed(&[MAGIC.as_slice(), &numbers, self.base.as_bytes()].concat())
    }

    /// Refuses a log that begins otherwise.
    pub(crate) fn check(&self, path: &Path, sector: &Sector) -> Result<(), OpenError> {
        let Some(content) = sector.strip_prefix(MAGIC) else {
            return Err(FileError::corrupt(path, "it does not begin as a log of updates").into());
        };
        if unsealed(sector).is_none() {
            return Err(FileError::corrupt(path, "the checksum of its beginning differs").into());
        }
        let found = u32::from_le_bytes([content[0], content[1], content[2], content[3]]);
        if found > FORMAT {
            return Err(FileError::NewerFormat { path: path.to_path_buf(), found, supported: FORMAT }.into());
        }
        if *sector == self.sector() { Ok(()) } else { Err(OpenError::OtherLog { path: path.to_path_buf() }) }
    }
}

impl Commit {
    /// The mark of a log without frames.
    pub(crate) const NONE: Self = Self { sequence: 0, end: FRAMES, changes: 0 };

    /// Returns the position at which it is written.
    pub(crate) fn place(self) -> u64 {
        SECTOR as u64 * (1 + self.sequence % 2)
    }

    /// Its sector.
    pub(crate) fn sector(self) -> Sector {
        let numbers = [self.sequence, self.end, self.changes].map(u64::to_le_bytes);
        sealed(&numbers.concat())
    }

    fn parse(sector: &Sector, parity: u64) -> Option<Self> {
        let numbers = unsealed(sector)?.as_chunks::<8>().0;
        let number = |at: usize| u64::from_le_bytes(numbers[at]);
        let commit = Self { sequence: number(0), end: number(1), changes: number(2) };
        (commit.sequence % 2 == parity && commit.end >= FRAMES).then_some(commit)
    }

    /// Returns the newer of the two commits, and whether both are whole and follow one another; `None` when neither is
    /// whole.
    pub(crate) fn newest(even: &Sector, odd: &Sector) -> Option<(Self, bool)> {
        match (Self::parse(even, 0), Self::parse(odd, 1)) {
            (Some(a), Some(b)) => {
                let (older, newer) = if a.sequence < b.sequence { (a, b) } else { (b, a) };
                let follows = older.sequence + 1 == newer.sequence && older.end <= newer.end;
                Some((newer, follows))
            }
            (Some(one), None) | (None, Some(one)) => Some((one, false)),
            (None, None) => None,
        }
    }
}

/// `content`, zeros and the checksum of both.
fn sealed(content: &[u8]) -> Sector {
    let mut sector = [0; SECTOR];
    sector[..content.len()].copy_from_slice(content);
    let sum = crc32fast::hash(&sector[..CONTENT]);
    sector[CONTENT..].copy_from_slice(&sum.to_le_bytes());
    sector
}

fn unsealed(sector: &Sector) -> Option<&[u8]> {
    let (content, sum) = sector.split_at(CONTENT);
    (crc32fast::hash(content).to_le_bytes() == sum).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_in_turns_leave_the_one_before_where_a_write_is_torn() {
        let before = Commit { sequence: 6, end: 2000, changes: 3 };
        let after = Commit { sequence: 7, end: 2400, changes: 5 };
        assert_ne!(before.place(), after.place());
        assert_eq!(Commit::newest(&before.sector(), &after.sector()), Some((after, true)));
        let mut torn = after.sector();
        torn[9] ^= 1;
        assert_eq!(Commit::newest(&before.sector(), &torn), Some((before, false)));
        assert_eq!(Commit::newest(&[0; SECTOR], &torn), None);
        // Each in the place of the other, or from another time.
        assert_eq!(Commit::newest(&after.sector(), &before.sector()), None);
        let later = Commit { sequence: 9, ..after };
        assert_eq!(Commit::newest(&before.sector(), &later.sector()), Some((later, false)));
    }

    #[test]
    fn a_log_of_another_index_or_of_a_newer_format_is_told_from_a_damaged_one() {
        let header = Header { base: "ab".repeat(32), dim: 8 };
        let path = Path::new("updates-1.log");
        header.check(path, &header.sector()).unwrap();
        let other = Header { base: "cd".repeat(32), dim: 8 };
        assert!(matches!(other.check(path, &header.sector()), Err(OpenError::OtherLog { .. })));
        let mut newer = header.sector();
        newer[8] = 2;
        let newer = sealed(&newer[..CONTENT]);
        assert!(matches!(
            header.check(path, &newer),
            Err(OpenError::File(FileError::NewerFormat { found: 2, .. }))
        ));
        for at in 0..SECTOR {
            let mut damaged = header.sector();
            damaged[at] ^= 4;
            assert!(
                matches!(header.check(path, &damaged), Err(OpenError::File(FileError::Corrupt { .. }))),
                "{at}"
            );
        }
    }
}
