//! Messages: a head of 40 bytes, then numbers of a few bits each.
//!
//! ```text
//! "DPRP", u8 kind (1 rank, 2 fetch), u8 set, u16 count (dimensions or columns), 32 bytes version
//! ```
//! All numbers are little-endian. The bits of packed numbers follow each other from the lowest bit of the first byte,
//! without padding between polynomials. In the answer to a ranking, the number of changes of the index since the tables
//! were made of it follows the head, as u64. The length of a message follows from its head and the shape of the tables.

/// Bytes of a head.
pub const HEAD: usize = 40;

/// Bytes of the number of changes in the answer to a ranking.
pub const CHANGES: usize = 8;

const MAGIC: &[u8; 4] = b"DPRP";

/// The kind of a message: the operation that it asks for or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Scores of all passages.
    Rank,
    /// Columns of texts.
    Fetch,
}

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of the message.
    pub kind: Kind,
    /// The number of the parameter set.
    pub set: u8,
    /// Dimensions of a question, or columns that are fetched.
    pub count: u16,
    /// The version of the tables: the SHA-256 of their manifest.
    pub version: [u8; 32],
}

/// Bytes that are not what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A message of another length than the parameters give.
    #[error("{what} has {got} bytes, expected {expected}")]
    Length {
        /// The name of the data that were read.
        what: &'static str,
        /// Its bytes.
        got: usize,
        /// The number of bytes expected.
        expected: usize,
    },
    /// A message with another head than was expected.
    #[error("{0} does not begin with the head that was expected")]
    Head(&'static str),
    /// A question that cannot be asked.
    #[error("the question has {0}")]
    Question(&'static str),
    /// A column number beyond the last column.
    #[error("column {column} is out of range: the table has {columns} columns, numbered from 0")]
    Column {
        /// As asked.
        column: usize,
        /// All columns.
        columns: usize,
    },
    /// A fetched column whose hash is not the one of the manifest.
    #[error("a fetched text is not the one that the tables have: its hash differs")]
    Spoiled,
    /// A delta that is refused.
    #[error("what changed since the tables were made cannot be read: {0}")]
    Delta(&'static str),
}

impl Head {
    /// Returns the head as it is sent.
    pub fn write(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = match self.kind {
            Kind::Rank => 1,
            Kind::Fetch => 2,
        };
        bytes[5] = self.set;
        bytes[6..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..].copy_from_slice(&self.version);
        bytes
    }

    /// Reads the head of a message, and returns it with what follows; `None` when it is none.
    pub fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = message.split_first_chunk::<HEAD>()?;
        let kind = match (&head[..4] == MAGIC, head[4]) {
            (true, 1) => Kind::Rank,
            (true, 2) => Kind::Fetch,
            _ => return None,
        };
        let version = head[8..].try_into().ok()?;
        Some((Self { kind, set: head[5], count: u16::from_le_bytes([head[6], head[7]]), version }, rest))
    }

    /// Returns what follows this very head in an answer of so many bytes.
    ///
    /// # Errors
    /// [`WireError`] when the answer has another head or length.
    pub fn strip<'a>(
        &self,
        what: &'static str,
        answer: &'a [u8],
        bytes: usize,
    ) -> Result<&'a [u8], WireError> {
        check_length(what, answer, HEAD + bytes)?;
        answer.strip_prefix(&self.write()).ok_or(WireError::Head(what))
    }
}

pub(super) fn check_length(what: &'static str, bytes: &[u8], expected: usize) -> Result<(), WireError> {
    match bytes.len() == expected {
        true => Ok(()),
        false => Err(WireError::Length { what, got: bytes.len(), expected }),
    }
}

/// Appends the low `bits` (1 to 32) of each number.
pub fn pack(numbers: impl IntoIterator<Item = u32>, bits: u32, out: &mut Vec<u8>) {
    let (mut held, mut count) = (0u64, 0);
    for number in numbers {
        held |= (u64::from(number) & ((1 << bits) - 1)) << count;
        count += bits;
        while count >= 8 {
            out.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        out.push(held as u8);
    }
}

/// Returns the numbers of `bits` (1 to 32) each that `bytes` holds.
pub fn unpack(bytes: &[u8], bits: u32) -> impl Iterator<Item = u32> {
    let (mut held, mut count, mut bytes) = (0u64, 0, bytes.iter());
    std::iter::from_fn(move || {
        while count < bits {
            held |= u64::from(*bytes.next()?) << count;
            count += 8;
        }
        let number = (held & ((1 << bits) - 1)) as u32;
        held >>= bits;
        count -= bits;
        Some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    #[test]
    fn numbers_of_every_width_come_back() {
        let mut random = SplitMix::new(1);
        for bits in 1..=32 {
            let numbers: Vec<u32> = (0..64).map(|_| (random.bits() >> (64 - bits)) as u32).collect();
            let mut bytes = Vec::new();
            pack(numbers.iter().copied(), bits, &mut bytes);
            assert_eq!(bytes.len(), 8 * bits as usize);
            assert_eq!(unpack(&bytes, bits).collect::<Vec<_>>(), numbers, "{bits} bits");
        }
    }

    #[test]
    fn a_head_comes_back_and_any_other_is_refused() {
        let head = Head { kind: Kind::Fetch, set: 16, count: 5, version: [7; 32] };
        let mut message = head.write().to_vec();
        message.extend(b"abc");
        assert_eq!(Head::read(&message), Some((head.clone(), b"abc".as_slice())));
        assert_eq!(head.strip("it", &message, 3), Ok(b"abc".as_slice()));
        assert!(matches!(head.strip("it", &message, 4), Err(WireError::Length { .. })));
        for at in 0..HEAD {
            let mut other = message.clone();
            other[at] ^= 1;
            assert_eq!(head.strip("it", &other, 3), Err(WireError::Head("it")), "{at}");
        }
        for message in [&b""[..], &message[..HEAD - 1], b"DPRQ3456789012345678901234567890123456789012"] {
            assert_eq!(Head::read(message), None);
        }
    }
}
