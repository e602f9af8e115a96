//! Codes of 4 bits: the coordinates of passages' vectors, as a page downloads them to rank passages by itself.
//!
//! A file is self-contained: a head, a scale for each dimension, and a row of half bytes for each passage. A half byte
//! `c` stands for the coordinate `(2c - 15) * scale`, so that 16 levels lie evenly around 0.

/// First bytes of a file of private search.
const MAGIC: &[u8; 4] = b"DPRF";

/// The kind of file that codes are.
const KIND: u16 = 2;

/// The newest format of files of codes, and the only one.
pub const CODES_FORMAT: u16 = 1;

/// Bytes before the scales: the magic, kind and format as u16, the number of rows as u64, the number of dimensions as
/// u32, and four zeros.
const HEAD: usize = 24;

/// Most dimensions of a code.
pub const MAX_DIMS: usize = 8192;

/// The greatest scale that is read: with a greater one, sums of products would not be finite.
const MAX_SCALE: f32 = 1e12;

/// Distances between two levels that are tried, in standard deviations. 0.335 is the best one for normal numbers.
const STEPS: [f64; 9] = [0.2, 0.24, 0.28, 0.31, 0.335, 0.36, 0.39, 0.43, 0.5];

/// Bytes that are no file of codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodesError {
    /// Bytes that do not begin as such a file does: another file, or a truncated one.
    #[error("the codes are not a file of that kind: it does not begin with DPRF and the kind 2")]
    Kind,
    /// A format of a later version.
    #[error("the codes have format {got}, this program reads {known}: use a newer one", known = CODES_FORMAT)]
    Format {
        /// The file's.
        got: u16,
    },
    /// A number of dimensions that no file has.
    #[error("the codes have {got} dimensions, 1 to {max} are possible", max = MAX_DIMS)]
    Dims {
        /// The file's.
        got: u32,
    },
    /// A length in bytes that is not that of the rows.
    #[error("the codes have {bytes} bytes, which is not what {rows} rows of {dims} dimensions take")]
    Length {
        /// Bytes given.
        bytes: usize,
        /// Rows that the head names.
        rows: u64,
        /// Dimensions that it names.
        dims: usize,
    },
    /// A scale that is negative, infinite, NaN or huge.
    #[error("the scale of dimension {dimension} of the codes is not a number from 0 to {max}", max = MAX_SCALE)]
    Scale {
        /// The dimension, from 0.
        dimension: usize,
    },
}

/// The codes of some passages, opened to a byte for each number.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes {
    /// `[dims]`
    scales: Vec<f32>,
    /// `[rows, dims]`, odd numbers from -15 to 15.
    rows: Vec<i8>,
}

/// Returns the file of the codes of `coordinates` `[any, dims]`. The distance between two levels is chosen for each
/// dimension, so that the sum of squared errors is small.
pub fn encode(coordinates: &[f32], dims: usize) -> Vec<u8> {
    let count = coordinates.len().checked_div(dims).unwrap_or(0);
    let scales: Vec<f32> = (0..dims).map(|at| scale(coordinates, dims, at)).collect();
    let mut bytes = Vec::with_capacity(HEAD + dims * 4 + count * dims.div_ceil(2));
    bytes.extend_from_slice(MAGIC);
    bytes.extend(KIND.to_le_bytes());
    bytes.extend(CODES_FORMAT.to_le_bytes());
    bytes.extend((count as u64).to_le_bytes());
    bytes.extend((dims as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
    for row in coordinates.chunks_exact(dims.max(1)) {
        bytes.extend(row.chunks(2).zip(scales.chunks(2)).map(|(values, scales)| {
            let half = |at: usize| values.get(at).map_or(0, |value| level(*value, scales[at]));
            half(0) | (half(1) << 4)
        }));
    }
    bytes
}

/// Returns the level of a coordinate, 0 to 15.
fn level(value: f32, scale: f32) -> u8 {
    // The cast takes NaN to 0 and stays within the bounds of u8.
    if scale > 0.0 { (value / (2.0 * scale) + 8.0).floor().clamp(0.0, 15.0) as u8 } else { 8 }
}

/// Returns half the distance between two levels for one dimension.
fn scale(coordinates: &[f32], dims: usize, at: usize) -> f32 {
    let column = || coordinates.iter().skip(at).step_by(dims.max(1));
    let squares: f64 = column().map(|value| f64::from(*value).powi(2)).sum();
    let deviation = (squares / column().count().max(1) as f64).sqrt();
    let error = |scale: f32| -> f64 {
        let lost = |value: &f32| {
            f64::from(value - f32::from(2 * i16::from(level(*value, scale)) - 15) * scale).powi(2)
        };
        column().map(lost).sum()
    };
    let tried = STEPS.map(|step| (deviation * step / 2.0) as f32).map(|scale| (error(scale), scale));
    let best = tried.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, scale)| scale);
    if best.is_finite() { best.min(MAX_SCALE) } else { 0.0 }
}

impl Codes {
    /// Reads a file and checks everything in it.
    ///
    /// # Errors
    /// [`CodesError`] says what is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodesError> {
        let (head, numbers) = bytes.split_at_checked(HEAD).ok_or(CodesError::Kind)?;
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let number = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte))
        };
        if &head[..4] != MAGIC || word(4) != KIND {
            return Err(CodesError::Kind);
        }
        if word(6) != CODES_FORMAT {
            return Err(CodesError::Format { got: word(6) });
        }
        let (count, got) = (number(8, 8), number(16, 4) as u32);
        let dims = got as usize;
        if dims == 0 || dims > MAX_DIMS {
            return Err(CodesError::Dims { got });
        }
        let wrong = CodesError::Length { bytes: bytes.len(), rows: count, dims };
        let width = dims.div_ceil(2);
        let expected = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
        if expected.and_then(|rows| rows.checked_add(dims * 4)) != Some(numbers.len()) {
            return Err(wrong);
        }
        let (scales, rows) = numbers.split_at(dims * 4);
        let scales: Vec<f32> =
            scales.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if let Some(dimension) = scales.iter().position(|scale| !(0.0..=MAX_SCALE).contains(scale)) {
            return Err(CodesError::Scale { dimension });
        }
        let mut opened = Vec::with_capacity(rows.len() / width * dims);
        for row in rows.chunks_exact(width) {
            let nibbles = row.iter().flat_map(|byte| [byte & 15, byte >> 4]);
            opened.extend(nibbles.take(dims).map(|nibble| 2 * nibble.cast_signed() - 15));
        }
        Ok(Self { scales, rows: opened })
    }

    /// Returns the number of dimensions.
    pub fn dims(&self) -> usize {
        self.scales.len()
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.rows.len() / self.dims()
    }

    /// Returns `true` if there are no passages.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the scale of each dimension.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Returns the numbers `[len, dims]`; a coordinate is about its number times the scale.
    pub fn rows(&self) -> &[i8] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    fn normal(count: usize, dims: usize) -> Vec<f32> {
        let mut random = SplitMix::new(4);
        (0..count * dims).map(|at| (random.normal() * (1.0 + (at % dims) as f64)) as f32).collect()
    }

    #[test]
    fn coordinates_come_back_within_the_error_of_sixteen_levels() {
        for dims in [1, 2, 7, 64] {
            let coordinates = normal(500, dims);
            let bytes = encode(&coordinates, dims);
            assert_eq!(bytes.len(), 24 + dims * 4 + 500 * dims.div_ceil(2));
            let codes = Codes::from_bytes(&bytes).unwrap();
            assert_eq!((codes.len(), codes.dims(), codes.is_empty()), (500, dims, false));
            assert!(codes.rows().iter().all(|number| (-15..=15).contains(number) && number % 2 != 0));
            let opened = codes.rows().iter().enumerate();
            let (mut lost, mut all) = (0.0, 0.0);
            for ((at, number), exact) in opened.zip(&coordinates) {
                let value = f32::from(*number) * codes.scales()[at % dims];
                let weight = 1.0 / (1.0 + (at % dims) as f64).powi(2);
                lost += f64::from(value - exact).powi(2) * weight;
                all += f64::from(*exact).powi(2) * weight;
            }
            // Theory says 0.0115 for normal numbers.
            assert!(lost / all < 0.013, "{dims}: {}", lost / all);
        }
    }

    #[test]
    fn what_does_not_vary_is_coded_too() {
        let codes = Codes::from_bytes(&encode(&[0.0, 3.0, 0.0, 3.0], 2)).unwrap();
        assert_eq!(codes.scales()[0], 0.0);
        let value = f32::from(codes.rows()[1]) * codes.scales()[1];
        assert!((value - 3.0).abs() < 0.4, "{value}");
        let odd = Codes::from_bytes(&encode(&[f32::NAN, f32::INFINITY], 1)).unwrap();
        assert!(odd.scales().iter().all(|scale| scale.is_finite()));
    }

    #[test]
    fn what_is_no_file_of_codes_is_refused() {
        use CodesError::*;
        let good = encode(&normal(6, 5), 5);
        let with = |at: usize, values: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + values.len()].copy_from_slice(values);
            Codes::from_bytes(&bytes)
        };
        for cut in [0, 4, 23] {
            assert_eq!(Codes::from_bytes(&good[..cut]), Err(Kind), "{cut}");
        }
        for cut in [24, 30, 44, good.len() - 1] {
            assert!(matches!(Codes::from_bytes(&good[..cut]), Err(Length { .. })), "{cut}");
        }
        assert!(matches!(Codes::from_bytes(&[&good[..], &[0]].concat()), Err(Length { .. })));
        assert_eq!(with(0, b"DPRX"), Err(Kind));
        assert_eq!(with(4, &[1]), Err(Kind));
        assert_eq!(with(6, &[9]), Err(Format { got: 9 }));
        for rows in [0u64, 5, 7, u64::MAX, 1 << 62] {
            assert!(matches!(with(8, &rows.to_le_bytes()), Err(Length { .. })), "{rows}");
        }
        for dims in [0, 8193, u32::MAX] {
            assert_eq!(with(16, &dims.to_le_bytes()), Err(Dims { got: dims }));
        }
        for scale in [f32::NAN, f32::INFINITY, -1.0, 1e13] {
            assert_eq!(with(24 + 8, &scale.to_le_bytes()), Err(Scale { dimension: 2 }));
        }
    }
}
