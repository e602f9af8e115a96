//! Centroids: the middle of each bucket, as 8-bit numbers, by which a page finds the buckets that a question is about.

use crate::kernel::search::i8::{quantize_query, quantized_products};

/// First bytes of a file of private search.
const MAGIC: &[u8; 4] = b"DPRF";

/// The kind of file that centroids are.
const KIND: u16 = 4;

/// The newest format of files of centroids, and the only one.
pub const CENTROIDS_FORMAT: u16 = 1;

/// Bytes before the numbers: the magic, kind and format as u16, the number of buckets as u64, the number of dimensions
/// as u32, and four zeros.
const HEAD: usize = 24;

/// Most buckets of a site.
pub const MAX_BUCKETS: usize = 4096;

/// Bytes that are not a file of centroids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CentroidsError {
    /// Bytes that do not begin as such a file does: another file, or a truncated one.
    #[error("the centroids are not a file of that kind: it does not begin with DPRF and the kind 4")]
    Kind,
    /// A format of a later version.
    #[error("the centroids have format {got}, this program reads {known}: use a newer one", known = CENTROIDS_FORMAT)]
    Format {
        /// The file's.
        got: u16,
    },
    /// A shape that no file has.
    #[error(
        "the centroids are {count} of {dims} dimensions; 1 to {buckets} of 1 to {most} are possible",
        buckets = MAX_BUCKETS, most = super::super::codes::MAX_DIMS
    )]
    Shape {
        /// Buckets that the head names.
        count: u64,
        /// Dimensions that it names.
        dims: u32,
    },
    /// A length in bytes that is not that of the numbers.
    #[error("the centroids have {got} bytes, expected {expected}: download them again")]
    Length {
        /// Bytes given.
        got: usize,
        /// Bytes of such a shape.
        expected: usize,
    },
}

/// The centroids of a site's buckets, in the directions in which its passages are coded.
///
/// All numbers have one scale, so that the nearest ones are found by sums of whole numbers alone, which are the same on
/// every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Centroids {
    /// `[count, dims]`
    rows: Vec<i8>,
    dims: usize,
}

/// Returns the file of `centroids` `[any, dims]`, which are rounded to 8 bits with one scale for all.
pub fn encode_centroids(centroids: &[f32], dims: usize) -> Vec<u8> {
    let greatest = centroids.iter().fold(0f32, |most, value| most.max(value.abs()));
    let factor = if greatest > f32::MIN_POSITIVE { 127.0 / greatest } else { 0.0 };
    let count = centroids.len().checked_div(dims).unwrap_or(0);
    let mut bytes = Vec::with_capacity(HEAD + centroids.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend(KIND.to_le_bytes());
    bytes.extend(CENTROIDS_FORMAT.to_le_bytes());
    bytes.extend((count as u64).to_le_bytes());
    bytes.extend((dims as u32).to_le_bytes());
    bytes.extend([0; 4]);
    // The cast stays within the bounds of i8.
    bytes.extend(centroids.iter().map(|value| ((value * factor).round() as i8).cast_unsigned()));
    bytes
}

impl Centroids {
    /// Reads a file and checks its shape.
    ///
    /// # Errors
    /// [`CentroidsError`] says what is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CentroidsError> {
        let (head, numbers) = bytes.split_at_checked(HEAD).ok_or(CentroidsError::Kind)?;
        let number = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte))
        };
        if &head[..4] != MAGIC || number(4, 2) != u64::from(KIND) {
            return Err(CentroidsError::Kind);
        }
        let got = number(6, 2) as u16;
        if got != CENTROIDS_FORMAT {
            return Err(CentroidsError::Format { got });
        }
        let (count, dims) = (number(8, 8), number(16, 4) as u32);
        let (most, widest) = (MAX_BUCKETS as u64, super::super::codes::MAX_DIMS as u32);
        if !(1..=most).contains(&count) || !(1..=widest).contains(&dims) {
            return Err(CentroidsError::Shape { count, dims });
        }
        let expected = count as usize * dims as usize;
        if numbers.len() != expected {
            return Err(CentroidsError::Length { got: bytes.len(), expected: HEAD + expected });
        }
        let rows = numbers.iter().map(|byte| byte.cast_signed()).collect();
        Ok(Self { rows, dims: dims as usize })
    }

    /// Returns the number of buckets.
    pub fn len(&self) -> usize {
        self.rows.len() / self.dims
    }

    /// Returns `true` if there are no buckets, which no file says.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the numbers in a centroid.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Returns the centroid of a bucket, or an empty slice for a number beyond the last bucket.
    pub(super) fn row(&self, bucket: usize) -> &[i8] {
        self.rows.chunks_exact(self.dims).nth(bucket).unwrap_or_default()
    }

    /// Returns the centroids as directions `[count, dims]`, each of length 1; zeros where a centroid is zero.
    pub fn directions(&self) -> Vec<f32> {
        let of = |row: &[i8]| -> Vec<f32> {
            let length = row.iter().map(|x| f32::from(*x) * f32::from(*x)).sum::<f32>().sqrt();
            row.iter().map(|x| if length > 0.0 { f32::from(*x) / length } else { 0.0 }).collect()
        };
        self.rows.chunks_exact(self.dims).flat_map(of).collect()
    }

    /// Returns the bucket whose centroid has the greatest inner product with these coordinates `[dims]`: the one that
    /// a question is about. Of equal ones it is the first.
    pub fn home(&self, coordinates: &[f32]) -> usize {
        let mut query = Vec::new();
        quantize_query(coordinates, &mut query);
        self.nearest(&query, 1).first().copied().unwrap_or(0)
    }

    /// Returns the buckets of the greatest inner products with `query` `[dims]`, greatest first.
    pub(super) fn nearest(&self, query: &[i16], count: usize) -> Vec<usize> {
        let mut sums = vec![0; self.len()];
        quantized_products(query, &self.rows, &mut sums);
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by_key(|bucket| (std::cmp::Reverse(sums[*bucket]), *bucket));
        order.truncate(count);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    fn normal(count: usize, dims: usize) -> Vec<f32> {
        let mut random = SplitMix::new(8);
        (0..count * dims).map(|_| random.normal() as f32).collect()
    }

    #[test]
    fn the_home_of_a_question_is_the_bucket_of_the_greatest_inner_product() {
        let numbers = normal(50, 12);
        let centroids = Centroids::from_bytes(&encode_centroids(&numbers, 12)).unwrap();
        assert_eq!((centroids.len(), centroids.dims(), centroids.is_empty()), (50, 12, false));
        for question in normal(300, 12).chunks_exact(12) {
            let product = |row: &[f32]| -> f32 { row.iter().zip(question).map(|(a, b)| a * b).sum() };
            let best = numbers.chunks_exact(12).map(product).fold(f32::MIN, f32::max);
            let home = centroids.home(question);
            // Two that are nearly equal may change places by the rounding.
            assert!(best - product(&numbers[home * 12..][..12]) < 0.3, "{home}");
        }
        assert_eq!(centroids.home(&[0.0; 12]), 0);
        for (row, exact) in centroids.directions().chunks_exact(12).zip(numbers.chunks_exact(12)) {
            let (mut length, mut along, mut whole) = (0.0, 0.0, 0.0);
            for (a, b) in row.iter().zip(exact) {
                (length, along, whole) = (length + a * a, along + a * b, whole + b * b);
            }
            assert!((length - 1.0).abs() < 1e-5 && along / whole.sqrt() > 0.999);
        }
    }

    #[test]
    fn bytes_that_are_not_centroids_are_refused() {
        use CentroidsError::*;
        let good = encode_centroids(&normal(6, 5), 5);
        assert_eq!(good.len(), 24 + 30);
        let with = |at: usize, values: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + values.len()].copy_from_slice(values);
            Centroids::from_bytes(&bytes)
        };
        for cut in [0, 4, 23] {
            assert_eq!(Centroids::from_bytes(&good[..cut]), Err(Kind), "{cut}");
        }
        assert_eq!(Centroids::from_bytes(&good[..53]), Err(Length { got: 53, expected: 54 }));
        assert!(matches!(Centroids::from_bytes(&[&good[..], &[0]].concat()), Err(Length { .. })));
        assert_eq!(with(0, b"DPRX"), Err(Kind));
        assert_eq!(with(4, &[2]), Err(Kind));
        assert_eq!(with(6, &[9]), Err(Format { got: 9 }));
        for count in [0, 4097, u64::MAX] {
            assert_eq!(with(8, &count.to_le_bytes()), Err(Shape { count, dims: 5 }));
        }
        for dims in [0, 8193, u32::MAX] {
            assert_eq!(with(16, &dims.to_le_bytes()), Err(Shape { count: 6, dims }));
        }
        assert!(matches!(with(8, &7u64.to_le_bytes()), Err(Length { .. })));
    }

    #[test]
    fn centroids_without_spread_are_written_and_read() {
        for numbers in [vec![0.0; 6], vec![f32::NAN; 6], vec![f32::MAX; 6]] {
            let centroids = Centroids::from_bytes(&encode_centroids(&numbers, 3)).unwrap();
            assert_eq!(centroids.home(&[1.0, 2.0, 3.0]), 0);
        }
    }
}
