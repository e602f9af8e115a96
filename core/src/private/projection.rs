//! Projection: the principal directions of an index's vectors, by which a page makes fewer numbers of a question's
//! vector, and a server makes a vector of them again.

use half::f16;

use crate::kernel::search::batch::QueryBatch;
use crate::kernel::search::f32::inner_product;
use crate::model::sha256_hex;

/// First bytes of a file of private search.
const MAGIC: &[u8; 4] = b"DPRF";

/// The kind of file that a projection is.
const KIND: u16 = 1;

/// The newest format of projection files, and the only one.
pub const PROJECTION_FORMAT: u16 = 1;

/// Bytes before the numbers: the magic, kind and format as u16, and the number of rows as u64.
const HEAD: usize = 16;

/// The greatest difference allowed between inner products of rows and those of orthonormal rows. Rounding to f16 moves
/// them by some 0.0005.
const TOLERANCE: f32 = 0.01;

/// Most numbers in a vector, which bounds the work of the check.
const MAX_DIM: usize = 8192;

/// A projection of vectors `[dim]` to `[rank]`: a mean and orthonormal rows, the most important first.
///
/// The rows are the principal directions of passages' vectors. The first `d` of them are what a question is projected
/// on before it is sent; all of them are the frame in which candidates are coded.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    mean: Vec<f32>,
    /// `[rank, dim]`, each number as an f16 holds it.
    rows: Vec<f32>,
    rank: usize,
    sha256: String,
}

/// The reason why bytes or numbers are not a projection.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    /// Bytes that do not begin as a projection file does: another file, or a truncated one.
    #[error("the projection is not a file of that kind: it does not begin with DPRF and the kind 1")]
    Kind,
    /// A format of a later version.
    #[error("the projection has format {got}, this program reads {known}: use a newer one", known = PROJECTION_FORMAT)]
    Format {
        /// The file's.
        got: u16,
    },
    /// A length in bytes that is not that of the rows.
    #[error(
        "the projection has {bytes} bytes, which {rank} rows of one length do not come to: download it again"
    )]
    Length {
        /// Bytes given.
        bytes: usize,
        /// Rows that the head names.
        rank: u64,
    },
    /// Rows and a mean that do not fit together, or more of them than there can be.
    #[error(
        "a projection of {rank} rows to vectors of {dim} numbers is not possible: 1 to {dim} rows, {max} numbers at most",
        max = MAX_DIM
    )]
    Shape {
        /// Rows.
        rank: usize,
        /// Numbers in a vector.
        dim: usize,
    },
    /// A NaN or an infinity.
    #[error("the projection holds a number that is not finite")]
    NotFinite,
    /// Rows that are longer or shorter than 1, or not at right angles: inner products would not be kept by
    /// [`lift`](Projection::lift) and codes.
    #[error(
        "rows {first} and {second} of the projection have the inner product {got}, not {expected}: do not use it, \
         passages would be ranked by other scores"
    )]
    NotOrthonormal {
        /// A row.
        first: usize,
        /// The row that it was multiplied by, which may be the same.
        second: usize,
        /// Their inner product.
        got: f32,
        /// 0 or 1.
        expected: f32,
    },
}

impl Projection {
    /// Makes a projection of a mean `[dim]` and orthonormal rows `[rank, dim]`, which are rounded to f16.
    ///
    /// # Errors
    /// [`ProjectionError`] for a shape that is not possible, numbers that are not finite, and rows that are not
    /// orthonormal within 1 %.
    pub fn new(mean: Vec<f32>, rows: &[f32]) -> Result<Self, ProjectionError> {
        let dim = mean.len();
        let rank = rows.len().checked_div(dim).unwrap_or(0);
        if dim > MAX_DIM || rank == 0 || rank > dim || rank * dim != rows.len() {
            return Err(ProjectionError::Shape { rank, dim });
        }
        let rows: Vec<f32> = rows.iter().map(|value| f16::from_f32(*value).to_f32()).collect();
        if mean.iter().chain(&rows).any(|value| !value.is_finite()) {
            return Err(ProjectionError::NotFinite);
        }
        check_orthonormal(&rows, rank, dim)?;
        let mut projection = Self { mean, rows, rank, sha256: String::new() };
        projection.sha256 = sha256_hex(&projection.to_bytes());
        Ok(projection)
    }

    /// Reads the file's bytes and checks everything in them: whoever hands out a projection may be whom the question
    /// is hidden from.
    ///
    /// # Errors
    /// [`ProjectionError`] says what is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProjectionError> {
        let (head, numbers) = bytes.split_at_checked(HEAD).ok_or(ProjectionError::Kind)?;
        let (magic, rest) = head.split_at(4);
        let word = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        if magic != MAGIC || word(0) != KIND {
            return Err(ProjectionError::Kind);
        }
        if word(2) != PROJECTION_FORMAT {
            return Err(ProjectionError::Format { got: word(2) });
        }
        let rank = rest[4..].iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
        let wrong = ProjectionError::Length { bytes: bytes.len(), rank };
        // A row's numbers take 2 bytes each, the mean's 4: the length and the rank tell how many there are.
        let Ok(rows) = usize::try_from(rank) else { return Err(wrong) };
        let column = rows.checked_mul(2).and_then(|bytes| bytes.checked_add(4)).ok_or(wrong.clone())?;
        if rows == 0 || numbers.is_empty() || !numbers.len().is_multiple_of(column) {
            return Err(wrong);
        }
        let (mean, rows) = numbers.split_at(numbers.len() / column * 4);
        let mean = mean.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let rows: Vec<f32> =
            rows.as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect();
        Self::new(mean, &rows)
    }

    /// Returns the file's bytes: a head, the mean `[dim]` as f32 and the rows `[rank, dim]` as f16, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.mean.len() * 4 + self.rows.len() * 2);
        bytes.extend_from_slice(MAGIC);
        bytes.extend(KIND.to_le_bytes());
        bytes.extend(PROJECTION_FORMAT.to_le_bytes());
        bytes.extend((self.rank as u64).to_le_bytes());
        bytes.extend(self.mean.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(self.rows.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()));
        bytes
    }

    /// Returns the numbers in a vector.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Returns the number of rows.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the mean `[dim]` of the vectors that the directions are of.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Returns the SHA-256 of [`Projection::to_bytes`], by which requests name the projection.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the first `dims` coordinates of `vector` `[dim]`, all of them where there are fewer: its inner products
    /// with the rows.
    pub fn project(&self, vector: &[f32], dims: usize) -> Vec<f32> {
        self.rows.chunks_exact(self.dim()).take(dims).map(|row| inner_product(row, vector)).collect()
    }

    /// Returns all coordinates `[rank]` of the distance of `vector` `[dim]` from the mean, as codes hold them.
    pub fn centred(&self, vector: &[f32]) -> Vec<f32> {
        let centred: Vec<f32> = vector.iter().zip(self.mean()).map(|(value, mean)| value - mean).collect();
        self.project(&centred, self.rank())
    }

    /// Returns the projection on the first `rank` rows, on all of them where there are fewer.
    ///
    /// # Errors
    /// [`ProjectionError::Shape`] for no rows.
    pub fn first(&self, rank: usize) -> Result<Self, ProjectionError> {
        Self::new(self.mean.clone(), &self.rows[..rank.min(self.rank) * self.dim()])
    }

    /// Returns the vector `[dim]` whose inner product with any `x` is that of `coordinates` with the first coordinates
    /// of `x`: what an index is searched with for a question that was projected.
    pub fn lift(&self, coordinates: &[f32]) -> Vec<f32> {
        let mut vector = vec![0f32; self.dim()];
        for (row, coordinate) in self.rows.chunks_exact(self.dim()).zip(coordinates) {
            vector.iter_mut().zip(row).for_each(|(sum, value)| *sum += coordinate * value);
        }
        vector
    }
}

/// Refuses rows whose inner products are not those of orthonormal ones.
fn check_orthonormal(rows: &[f32], rank: usize, dim: usize) -> Result<(), ProjectionError> {
    let mut products = vec![0f32; rank * rank];
    QueryBatch::new(rows.chunks_exact(dim), dim).products(rows, &mut products);
    for (at, got) in products.into_iter().enumerate() {
        let (first, second) = (at / rank, at % rank);
        let expected = if first == second { 1.0 } else { 0.0 };
        let off = (got - expected).abs();
        // Rows of huge numbers give infinities and NaN.
        if off.is_nan() || off > TOLERANCE {
            return Err(ProjectionError::NotOrthonormal { first, second, got, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::orthonormal;
    use crate::random::SplitMix;

    pub(super) fn made(rank: usize, dim: usize) -> Projection {
        let mean = (0..dim).map(|at| (at as f32).sin() * 0.01).collect();
        Projection::new(mean, &orthonormal(rank, dim, 3)).unwrap()
    }

    #[test]
    fn a_projection_is_read_as_it_was_written() {
        let projection = made(5, 12);
        let bytes = projection.to_bytes();
        assert_eq!(bytes.len(), 16 + 12 * 4 + 5 * 12 * 2);
        let read = Projection::from_bytes(&bytes).unwrap();
        assert_eq!((&read, read.rank(), read.dim()), (&projection, 5, 12));
        assert_eq!(read.sha256(), sha256_hex(&bytes));
    }

    #[test]
    fn an_inner_product_with_a_lifted_question_is_that_of_the_coordinates() {
        let projection = made(6, 20);
        let mut random = SplitMix::new(1);
        let [question, passage]: [Vec<f32>; 2] =
            std::array::from_fn(|_| (0..20).map(|_| random.normal() as f32).collect());
        for dims in [1, 4, 6] {
            let z = projection.project(&question, dims);
            assert_eq!(z.len(), dims);
            let lifted = inner_product(&projection.lift(&z), &passage);
            let expected = inner_product(&z, &projection.project(&passage, dims));
            assert!((lifted - expected).abs() < 1e-4, "{lifted} {expected}");
        }
    }

    #[test]
    fn the_first_rows_are_a_projection_of_their_own() {
        let projection = made(5, 12);
        let vector: Vec<f32> = (0..12).map(|at| at as f32).collect();
        let first = projection.first(3).unwrap();
        assert_eq!((first.rank(), first.dim(), first.mean()), (3, 12, projection.mean()));
        assert_eq!(first.centred(&vector), projection.centred(&vector)[..3]);
        assert_eq!(projection.first(9).unwrap(), projection);
        assert!(projection.first(0).is_err());
    }

    /// Checks that bytes which a dishonest server may hand out are refused.
    #[test]
    fn what_is_not_a_projection_is_refused() {
        use ProjectionError::*;
        let good = made(5, 12).to_bytes();
        let with = |at: usize, values: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + values.len()].copy_from_slice(values);
            Projection::from_bytes(&bytes).unwrap_err()
        };
        for cut in [0, 4, 15] {
            assert_eq!(Projection::from_bytes(&good[..cut]), Err(Kind), "{cut}");
        }
        for cut in [16, 17, good.len() - 1] {
            assert!(matches!(Projection::from_bytes(&good[..cut]), Err(Length { .. })), "{cut}");
        }
        let longer = [&good[..], &[0]].concat();
        assert!(matches!(Projection::from_bytes(&longer), Err(Length { .. })));
        assert_eq!(with(0, b"DPRX"), Kind);
        assert_eq!(with(4, &[2]), Kind);
        assert_eq!(with(6, &[9]), Format { got: 9 });
        assert!(matches!(with(8, &u64::MAX.to_le_bytes()), Length { .. }));
        assert!(matches!(with(8, &[0]), Length { .. }));
        assert_eq!(with(16, &f32::NAN.to_le_bytes()), NotFinite);
        assert_eq!(with(16 + 48, &f16::INFINITY.to_le_bytes()), NotFinite);
        // Longer rows would give other scores than the vectors do.
        let twice: Vec<f32> = orthonormal(5, 12, 3).iter().map(|value| value * 2.0).collect();
        assert!(matches!(
            Projection::new(vec![0.0; 12], &twice),
            Err(NotOrthonormal { first: 0, second: 0, .. })
        ));
        let row = orthonormal(1, 12, 3);
        let same = [&row[..], &row[..]].concat();
        assert!(matches!(
            Projection::new(vec![0.0; 12], &same),
            Err(NotOrthonormal { first: 0, second: 1, .. })
        ));
        let huge = vec![f16::MAX.to_f32(); 12];
        assert!(matches!(Projection::new(vec![0.0; 12], &huge), Err(NotOrthonormal { .. })));
        for (mean, rows) in [(0, 0), (3, 12), (4, 0), (5, 12)] {
            let wrong = Projection::new(vec![0.0; mean], &vec![0.5; rows]);
            assert!(matches!(wrong, Err(Shape { .. })), "{mean} {rows}: {wrong:?}");
        }
    }
}
