//! The file of a bucket: the codes and the texts of its passages, padded, so that all buckets of a site have one
//! length.

/// First bytes of a file of private search.
const MAGIC: &[u8; 4] = b"DPRF";

/// The kind of file that a bucket is.
const KIND: u16 = 5;

/// The newest format of buckets, and the only one.
pub const BUCKET_FORMAT: u16 = 1;

/// Bytes before the codes: the magic, kind and format as u16, the number of passages as u64, the bytes of the codes and
/// the bytes of the texts as u32.
const HEAD: usize = 24;

/// Bytes that are not a bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketFileError {
    /// Bytes that do not begin as such a file does: another file, or a truncated one.
    #[error("the bucket is not a file of that kind: it does not begin with DPRF and the kind 5")]
    Kind,
    /// A format of a later version.
    #[error("the bucket has format {got}, this program reads {known}: use a newer one", known = BUCKET_FORMAT)]
    Format {
        /// The file's.
        got: u16,
    },
    /// A number of passages that differs from the manifest's.
    #[error("the bucket is of {got} passages, {expected} were promised")]
    Passages {
        /// Passages that the file names.
        got: u64,
        /// Passages that were promised.
        expected: usize,
    },
    /// Codes and texts that are longer than the file, or padding that is not zeros.
    #[error("the bucket has {bytes} bytes, which are not its codes, its texts and zeros")]
    Length {
        /// Bytes of the file.
        bytes: usize,
    },
}

/// A bucket's two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketFile<'a> {
    /// A file of [codes](crate::private::codes).
    pub codes: &'a [u8],
    /// A file of texts.
    pub texts: &'a [u8],
}

/// Returns the bytes of a bucket without padding.
pub fn bucket_bytes(codes: &[u8], texts: &[u8]) -> usize {
    HEAD + codes.len() + texts.len()
}

/// Returns the file of a bucket of so many passages, with zeros up to `length` bytes.
pub fn encode_bucket(passages: usize, codes: &[u8], texts: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(MAGIC);
    bytes.extend(KIND.to_le_bytes());
    bytes.extend(BUCKET_FORMAT.to_le_bytes());
    bytes.extend((passages as u64).to_le_bytes());
    bytes.extend((codes.len() as u32).to_le_bytes());
    bytes.extend((texts.len() as u32).to_le_bytes());
    bytes.extend_from_slice(codes);
    bytes.extend_from_slice(texts);
    bytes.resize(length.max(bytes.len()), 0);
    bytes
}

impl<'a> BucketFile<'a> {
    /// Takes a file apart, which was promised to hold so many passages.
    ///
    /// # Errors
    /// [`BucketFileError`] says what is wrong. Codes and texts are not looked into.
    pub fn read(bytes: &'a [u8], passages: usize) -> Result<Self, BucketFileError> {
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or(BucketFileError::Kind)?;
        let number = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte))
        };
        if &head[..4] != MAGIC || number(4, 2) != u64::from(KIND) {
            return Err(BucketFileError::Kind);
        }
        let format = number(6, 2) as u16;
        if format != BUCKET_FORMAT {
            return Err(BucketFileError::Format { got: format });
        }
        let got = number(8, 8);
        if got != passages as u64 {
            return Err(BucketFileError::Passages { got, expected: passages });
        }
        let wrong = BucketFileError::Length { bytes: bytes.len() };
        let (codes, rest) = rest.split_at_checked(number(16, 4) as usize).ok_or(wrong.clone())?;
        let (texts, padding) = rest.split_at_checked(number(20, 4) as usize).ok_or(wrong.clone())?;
        match padding.iter().all(|byte| *byte == 0) {
            true => Ok(Self { codes, texts }),
            false => Err(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_comes_apart_into_what_it_was_made_of_whatever_its_padding() {
        let (codes, texts) = ([1, 2, 3], [4, 5]);
        for length in [0, 29, 30, 100] {
            let bytes = encode_bucket(7, &codes, &texts, length);
            assert_eq!(bytes.len(), length.max(bucket_bytes(&codes, &texts)));
            let read = BucketFile::read(&bytes, 7).unwrap();
            assert_eq!((read.codes, read.texts), (&codes[..], &texts[..]));
        }
    }

    #[test]
    fn bytes_that_are_not_the_bucket_that_was_promised_are_refused() {
        use BucketFileError::*;
        let good = encode_bucket(7, &[1, 2, 3], &[4, 5], 40);
        let with = |at: usize, values: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + values.len()].copy_from_slice(values);
            BucketFile::read(&bytes, 7).map(drop)
        };
        for cut in [0, 4, 23] {
            assert_eq!(BucketFile::read(&good[..cut], 7), Err(Kind), "{cut}");
        }
        for cut in [24, 26, 28] {
            assert_eq!(BucketFile::read(&good[..cut], 7), Err(Length { bytes: cut }));
        }
        assert_eq!(with(0, b"DPRX"), Err(Kind));
        assert_eq!(with(4, &[2]), Err(Kind));
        assert_eq!(with(6, &[9]), Err(Format { got: 9 }));
        assert_eq!(BucketFile::read(&good, 8), Err(Passages { got: 7, expected: 8 }));
        assert_eq!(with(8, &u64::MAX.to_le_bytes()), Err(Passages { got: u64::MAX, expected: 7 }));
        for at in [16, 20] {
            assert_eq!(with(at, &u32::MAX.to_le_bytes()), Err(Length { bytes: 40 }));
        }
        assert_eq!(with(39, &[1]), Err(Length { bytes: 40 }));
    }
}
