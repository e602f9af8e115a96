//! The frozen sets of parameters, and the shapes of tables that they serve.
//!
//! Each set has a number, which every request names. A number that is not in this file is refused, and nothing builds a
//! set from other values. `docs/guide/encrypted.md` has the security estimate of each; `tests/python/lattice.py`
//! computes it.

/// The greatest length of a row of the rank table: the scores of longer ones would wrap around the modulus.
pub const ROW_NORM: f64 = 44.0;

/// The share of the modulus that scores leave free on each side is `1 - 1 / HEADROOM`.
const HEADROOM: f64 = 1.1;

/// The least number of standard deviations between the noise of a fetched byte and a wrong byte.
pub const LEAST_MARGIN: f64 = 9.0;

/// A set of parameters for ranking: ring-LWE in `Z_q[X]/(X^n + 1)`, `q` prime, uniform ternary secrets.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankSet {
    /// The number that requests carry.
    pub number: u8,
    /// The name in documents, and in the label of the public randomness.
    pub name: &'static str,
    /// `n`, the coefficients of a polynomial and the passages of a block.
    pub degree: usize,
    /// `q`, below 2^28.
    pub modulus: u32,
    /// Errors are uniform in `[-2^(error_bits - 1), 2^(error_bits - 1))`.
    pub error_bits: u32,
    /// High bits of the 28 of a coefficient that a question sends.
    pub sent_bits: u32,
    /// High bits of the 28 of a coefficient that the hint keeps.
    pub hint_bits: u32,
}

/// A set of parameters for fetching: ring-LWE in `Z_{2^32}[X]/(X^n + 1)`, uniform ternary secrets.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchSet {
    /// The number that requests carry.
    pub number: u8,
    /// The name in documents, and in the label of the public randomness.
    pub name: &'static str,
    /// `n`, the coefficients of a polynomial.
    pub degree: usize,
    /// Errors are uniform in `[-2^(error_bits - 1), 2^(error_bits - 1))`.
    pub error_bits: u32,
}

/// Bits of a number modulo the modulus of ranking.
pub(super) const RANK_BITS: u32 = 28;

/// Bits of an answer's coefficient in ranking.
pub(super) const RANK_ANSWER_BITS: u32 = 8;

/// High bits of the 32 of a number that the hint and the answers of fetching keep.
pub(super) const FETCH_BITS: u32 = 16;

/// A byte of a text stands above so many bits of noise.
pub(super) const BYTE_SHIFT: u32 = 24;

const Q: u32 = 268_369_921;

/// All sets for ranking. The second has twice the upload, for the day on which the first is doubted.
pub static RANK_SETS: [RankSet; 2] = [
    RankSet {
        number: 1,
        name: "rank-1024",
        degree: 1024,
        modulus: Q,
        error_bits: 11,
        sent_bits: 20,
        hint_bits: 13,
    },
    RankSet {
        number: 2,
        name: "rank-2048",
        degree: 2048,
        modulus: Q,
        error_bits: 5,
        sent_bits: 24,
        hint_bits: 14,
    },
];

/// All sets for fetching.
pub static FETCH_SETS: [FetchSet; 1] =
    [FetchSet { number: 16, name: "text-2048", degree: 2048, error_bits: 5 }];

/// Parameters that are refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// A set that this program does not have.
    #[error("the parameter set {0} is not known: sets 1 and 2 rank, set 16 fetches")]
    Set(u8),
    /// A number outside its range.
    #[error("{name} is {got}, outside {least} to {most}")]
    Range {
        /// The name of the number.
        name: &'static str,
        /// As given.
        got: u64,
        /// The least that is allowed.
        least: u64,
        /// The greatest that is allowed.
        most: u64,
    },
    /// Columns that are not whole polynomials.
    #[error("{columns} columns are not a multiple of {degree}")]
    Columns {
        /// As given.
        columns: usize,
        /// The degree of the set.
        degree: usize,
    },
    /// Rows so long that their scores would wrap around, or that are not a number.
    #[error("the rows of the rank table have a length of {0}, above {ROW_NORM}")]
    RowNorm(f64),
    /// Noise under which bytes would be fetched wrong.
    #[error(
        "the noise of a fetched byte is {0:.1} standard deviations from an error; {LEAST_MARGIN} are needed"
    )]
    Margin(f64),
}

pub(super) fn within(name: &'static str, got: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    if (least..=most).contains(&got) { Ok(()) } else { Err(ParameterError::Range { name, got, least, most }) }
}

/// The sizes of a rank table: with the set they decide the length of every message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankShape {
    set: &'static RankSet,
    dims: usize,
    passages: usize,
}

impl RankShape {
    /// Checks a shape: 32 to 256 dimensions, 1 to 2^24 passages.
    ///
    /// # Errors
    /// [`ParameterError`].
    pub fn new(set: u8, dims: usize, passages: usize) -> Result<Self, ParameterError> {
        let set = RANK_SETS.iter().find(|known| known.number == set).ok_or(ParameterError::Set(set))?;
        within("the number of dimensions", dims as u64, 32, 256)?;
        within("the number of passages", passages as u64, 1, 1 << 24)?;
        Ok(Self { set, dims, passages })
    }

    /// Returns the set of parameters.
    pub fn set(&self) -> &'static RankSet {
        self.set
    }

    /// Returns the dimensions, so the polynomials of a question.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Returns the number of passages.
    pub fn passages(&self) -> usize {
        self.passages
    }

    /// Returns the number of blocks of passages, the last one filled up.
    pub fn blocks(&self) -> usize {
        self.passages.div_ceil(self.set.degree)
    }

    /// Returns the bytes of a question, without the head.
    pub fn question_bytes(&self) -> usize {
        self.dims * self.set.degree * self.set.sent_bits as usize / 8
    }

    /// Returns the bytes of an answer, without the head: one for each passage of each block.
    pub fn answer_bytes(&self) -> usize {
        self.blocks() * self.set.degree
    }

    /// Returns the bytes of the hint.
    pub fn hint_bytes(&self) -> usize {
        self.blocks() * self.set.degree * self.set.hint_bits as usize / 8
    }

    /// Returns what 1 in a question is multiplied by.
    pub(super) fn amplitude(&self) -> f64 {
        (f64::from(self.set.modulus) / (2.0 * HEADROOM * ROW_NORM)).floor()
    }

    /// Returns the predicted standard deviation of a decoded inner product whose block has rows of this length (root
    /// of the mean square).
    pub fn noise(&self, row_norm: f64) -> f64 {
        let degree = self.set.degree as f64;
        let uniform = |bits: u32| f64::from(1u32 << bits).powi(2) / 12.0;
        let sent = uniform(self.set.error_bits) + uniform(RANK_BITS - self.set.sent_bits);
        let hint = uniform(RANK_BITS - self.set.hint_bits);
        let answer = uniform(RANK_BITS - RANK_ANSWER_BITS);
        (degree * row_norm.powi(2) * sent + degree * 2.0 / 3.0 * hint + answer).sqrt() / self.amplitude()
    }
}

/// The sizes of a table of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchShape {
    set: &'static FetchSet,
    columns: usize,
    rows: usize,
}

/// Columns from which on questions send more bits.
const WIDE: usize = 131_072;

impl FetchShape {
    /// Checks a shape: columns are whole polynomials up to 524,288, rows 32 to 65,536 bytes.
    ///
    /// # Errors
    /// [`ParameterError`].
    pub fn new(set: u8, columns: usize, rows: usize) -> Result<Self, ParameterError> {
        let set = FETCH_SETS.iter().find(|known| known.number == set).ok_or(ParameterError::Set(set))?;
        within("the number of columns", columns as u64, set.degree as u64, 4 * WIDE as u64)?;
        within("the number of rows", rows as u64, 32, 1 << 16)?;
        if !columns.is_multiple_of(set.degree) {
            return Err(ParameterError::Columns { columns, degree: set.degree });
        }
        Ok(Self { set, columns, rows })
    }

    /// Returns the set of parameters.
    pub fn set(&self) -> &'static FetchSet {
        self.set
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the bytes of a column.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the high bits of the 32 of a number that a question sends.
    pub fn sent_bits(&self) -> u32 {
        if self.columns > WIDE { 28 } else { 26 }
    }

    /// Returns the bytes of the question for one column, without the head.
    pub fn question_bytes(&self) -> usize {
        self.columns * self.sent_bits() as usize / 8
    }

    /// Returns the bytes of the answer for one column, without the head.
    pub fn answer_bytes(&self) -> usize {
        2 * self.rows
    }

    /// Returns the bytes of the hint.
    pub fn hint_bytes(&self) -> usize {
        2 * self.rows * self.set.degree
    }

    /// Returns the predicted standard deviation of the noise below a byte of a row of this length, in 1 / 2^24 of a
    /// byte.
    pub fn noise(&self, row_norm: f64) -> f64 {
        let uniform = |bits: u32| f64::from(1u32 << bits).powi(2) / 12.0;
        let sent = uniform(self.set.error_bits) + uniform(32 - self.sent_bits());
        let rounded = uniform(32 - FETCH_BITS);
        (row_norm.powi(2) * sent + self.set.degree as f64 * 2.0 / 3.0 * rounded + rounded).sqrt()
    }

    /// Returns the standard deviations between the noise and a wrong byte.
    pub fn margin(&self, row_norm: f64) -> f64 {
        f64::from(1u32 << (BYTE_SHIFT - 1)) / self.noise(row_norm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_sets_and_sizes_outside_their_range_are_refused() {
        assert_eq!(RankShape::new(3, 192, 10), Err(ParameterError::Set(3)));
        assert_eq!(RankShape::new(16, 192, 10), Err(ParameterError::Set(16)));
        assert_eq!(FetchShape::new(1, 2048, 100), Err(ParameterError::Set(1)));
        for (dims, passages) in [(31, 1), (257, 1), (192, 0), (192, (1 << 24) + 1), (usize::MAX, 1)] {
            assert!(matches!(RankShape::new(1, dims, passages), Err(ParameterError::Range { .. })));
        }
        for (columns, rows) in [(0, 100), (2048, 31), (2048, 65_537), (526_336, 100)] {
            assert!(matches!(FetchShape::new(16, columns, rows), Err(ParameterError::Range { .. })));
        }
        assert_eq!(
            FetchShape::new(16, 2049, 100),
            Err(ParameterError::Columns { columns: 2049, degree: 2048 })
        );
    }

    #[test]
    fn messages_are_as_long_as_the_design_says() {
        let rank = RankShape::new(1, 192, 100_000).unwrap();
        assert_eq!((rank.question_bytes(), rank.answer_bytes()), (491_520, 100_352));
        assert_eq!(rank.hint_bytes(), 163_072);
        let fetch = FetchShape::new(16, 32_768, 1068).unwrap();
        assert_eq!(
            (fetch.question_bytes(), fetch.answer_bytes(), fetch.hint_bytes()),
            (106_496, 2136, 4_374_528)
        );
        assert_eq!(FetchShape::new(16, 133_120, 1068).unwrap().sent_bits(), 28);
    }

    #[test]
    fn the_predicted_noise_is_that_of_the_design() {
        // 0.00703 in units of a cosine, for rows of length 40 where the amplitude is for rows of that length.
        let noise = RankShape::new(1, 64, 1024).unwrap().noise(40.0) / ROW_NORM;
        assert!((noise - 0.00703).abs() < 2e-5, "{noise}");
        // `Public` rounds decoded scores to whole numbers: the power of ten above the noise for all rows that are taken.
        for set in [1, 2] {
            for row_norm in [0.0, 1.0, 20.0, 40.0, ROW_NORM] {
                let noise = RankShape::new(set, 64, 1024).unwrap().noise(row_norm);
                assert_eq!(noise.log10().ceil(), 0.0, "set {set}, rows of length {row_norm}: {noise}");
            }
        }
        for (columns, margin) in [(65_536, 10.5), (131_072, 9.4), (262_144, 10.5), (524_288, 9.4)] {
            let found = FetchShape::new(16, columns, 1000).unwrap().margin(74.0 * (columns as f64).sqrt());
            assert!((found - margin).abs() < 0.1, "{columns}: {found}");
        }
    }
}
