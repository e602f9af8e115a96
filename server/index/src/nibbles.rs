//! Vectors in four bits a number, by which a graph is searched: a second copy beside the quantized vectors, half as long.
//!
//! The rows are taken less their mean, and what a row has along one direction is a number that is kept in f32: along the
//! axis of the number that is far greater than the others, if there is one, else along the mean. Only the rest is in
//! four bits. The error of a score grows with the lengths of the rest, of the row's and of the question's, so vectors
//! that a coordinate was added to (Euclidean distance), or that all point one way, lose no more than others.

use std::io::{self, Write};

use dpr_core::kernel::search::binary::Rotation;
use dpr_core::kernel::search::i4::{Query, encode_row, products_at, row_bytes};
use rayon::prelude::*;

use super::Matrix;
use super::binary::mean;
use super::codes::Values;
use crate::vectors::rows;
use dpr_files::Mapped;

/// A number is far greater than others if its mean square is so many times the mean of all.
const GREAT: f64 = 16.0;

/// Rows that say whether a number is far greater than others.
const LOOKED_AT: usize = 1024;

/// The 4-bit codes of vectors, `[count, row_bytes(dim)]`, with two numbers each.
///
/// `codes.i4` holds the direction, the scales and the parts along the direction as little-endian f32, then
/// the codes of all rows.
#[derive(Debug)]
pub(super) struct Nibbles {
    codes: Values<u8>,
    /// What the sum of a row's products is multiplied by.
    scales: Vec<f32>,
    /// The inner product of each row, less the mean, with the direction.
    along: Vec<f32>,
    /// The direction of length 1, `[dim]`; zeros where the mean is zero and no number is great.
    direction: Vec<f32>,
    rotation: Rotation,
}

/// A question in the form that 4-bit codes are scored by.
#[derive(Debug)]
pub(super) struct NibbleQuery {
    query: Query,
    /// The question's inner product with the direction, in units of the query's step.
    along: f32,
    sums: Vec<i32>,
}

impl Nibbles {
    /// Makes the codes of the vectors of `matrix`.
    pub(super) fn of(matrix: &Matrix) -> Self {
        let (dim, count) = (matrix.dim(), matrix.count());
        let (mean, rotation, bytes) = (mean(matrix), Rotation::new(dim), row_bytes(dim));
        let direction = direction(matrix, &mean);
        let (mut codes, mut scales, mut along) = (vec![0; count * bytes], vec![0.0; count], vec![0.0; count]);
        matrix.rows().for_each_block(dim, |start, block| {
            let codes = codes[start * bytes..].par_chunks_mut(bytes);
            let numbers = scales[start..].par_iter_mut().zip(&mut along[start..]);
            let rows = codes.zip(block.par_chunks(dim)).zip(numbers).with_min_len(64);
            rows.for_each_init(Vec::new, |rest, ((codes, row), (scale, along))| {
                rest.clear();
                rest.extend(row.iter().zip(&mean).map(|(value, mean)| value - mean));
                *along = take_along(&direction, rest);
                *scale = encode_row(&rotation, rest, codes);
            });
        });
        Self { codes: Values::Owned(codes), scales, along, direction, rotation }
    }

    /// Takes a file of the codes of `count` vectors of `dim` numbers. The error says what is wrong with it.
    pub(super) fn of_file(file: Mapped, count: usize, dim: usize) -> Result<Self, String> {
        let got = file.bytes().len();
        let start =
            count.checked_mul(2).and_then(|numbers| numbers.checked_add(dim)?.checked_mul(size_of::<f32>()));
        let codes = row_bytes(dim).checked_mul(count);
        let (Some(start), Some(codes)) = (start, codes) else {
            return Err(format!("{count} vectors of {dim} numbers in four bits are more than a file holds"));
        };
        if start.checked_add(codes) != Some(got) {
            return Err(format!(
                "{got} bytes are not those of {count} vectors of {dim} numbers in four bits"
            ));
        }
        let numbers = file.bytes()[..start].as_chunks().0.iter();
        let mut direction: Vec<f32> = numbers.map(|number| f32::from_le_bytes(*number)).collect();
        if let Some(at) = direction.iter().position(|number| !number.is_finite()) {
            return Err(match at.checked_sub(dim) {
                None => format!("number {at} of the direction is not finite"),
                Some(row) if row < count => format!("the scale of row {row} is not finite"),
                Some(row) => format!("the part of row {} along the direction is not finite", row - count),
            });
        }
        let along = direction.split_off(dim + count);
        let scales = direction.split_off(dim);
        let codes = Values::Mapped(file, start..got);
        Ok(Self { codes, scales, along, direction, rotation: Rotation::new(dim) })
    }

    /// Writes the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        rows::write(&self.direction, out)?;
        rows::write(&self.scales, out)?;
        rows::write(&self.along, out)?;
        out.write_all(self.codes.as_slice())
    }

    /// Returns `true` if the codes of `matrix` are the very same.
    pub(super) fn are_of(&self, matrix: &Matrix) -> bool {
        let made = Self::of(matrix);
        made.direction == self.direction
            && made.scales == self.scales
            && made.along == self.along
            && made.codes.as_slice() == self.codes.as_slice()
    }

    /// Prepares a question. The product with the mean is left out: it is the same for all rows.
    pub(super) fn query(&self, question: &[f32]) -> NibbleQuery {
        let mut rest = question.to_vec();
        let along = take_along(&self.direction, &mut rest);
        let query = Query::new(&self.rotation, &rest);
        // A question along the direction has no rest: any step will do.
        let step =
            if query.step() > 0.0 { query.step() } else { f64::from(along.abs()).max(f64::MIN_POSITIVE) };
        NibbleQuery { query, along: (f64::from(along) / step) as f32, sums: Vec::new() }
    }

    /// Replaces `scores` by the scores of these rows, which only compare rows.
    pub(super) fn scores_at(&self, query: &mut NibbleQuery, rows: &[u32], scores: &mut Vec<f32>) {
        products_at(&query.query, self.codes.as_slice(), rows, &mut query.sums);
        scores.clear();
        scores.extend(rows.iter().zip(&query.sums).map(|(row, sum)| {
            let row = *row as usize;
            *sum as f32 * self.scales[row] + query.along * self.along[row]
        }));
    }
}

/// Returns the direction along which rows are kept whole.
fn direction(matrix: &Matrix, mean: &[f32]) -> Vec<f32> {
    let mut squares = vec![0f64; matrix.dim()];
    for row in (0..matrix.count()).step_by(matrix.count().div_ceil(LOOKED_AT).max(1)) {
        squares.iter_mut().zip(matrix.row(row)).for_each(|(sum, value)| *sum += f64::from(*value).powi(2));
    }
    let average = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
    let great = (0..squares.len()).max_by(|a, b| squares[*a].total_cmp(&squares[*b]));
    if let Some(great) = great.filter(|at| squares[*at] > GREAT * average) {
        return (0..squares.len()).map(|at| f32::from(u8::from(at == great))).collect();
    }
    let norm = mean.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let inverse = if norm > 0.0 { 1.0 / norm } else { 0.0 };
    mean.iter().map(|value| (f64::from(*value) * inverse) as f32).collect()
}

/// Takes off `vector` its part along `direction`, and returns the length of that part.
fn take_along(direction: &[f32], vector: &mut [f32]) -> f32 {
    let along: f64 = direction.iter().zip(&*vector).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    vector.iter_mut().zip(direction).for_each(|(value, unit)| {
        *value = (f64::from(*value) - along * f64::from(*unit)) as f32;
    });
    along as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::random::SplitMix;

    /// Normal numbers around 0.5, the last of each row `great` times as far from 0.
    fn matrix(count: usize, dim: usize, great: f32) -> Matrix {
        let mut random = SplitMix::new(9);
        let mut values: Vec<f32> = (0..count * dim).map(|_| random.normal() as f32 + 0.5).collect();
        values.iter_mut().skip(dim - 1).step_by(dim).for_each(|value| *value = great * (*value + 10.0));
        Matrix::new(values, count, dim, |row| row.to_string()).unwrap()
    }

    fn of_bytes(bytes: &[u8], matrix: &Matrix) -> Result<Nibbles, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), bytes).unwrap();
        Nibbles::of_file(Mapped::open(file.path()).unwrap(), matrix.count(), matrix.dim())
    }

    #[test]
    fn a_file_of_four_bit_codes_is_read_back_and_one_that_does_not_fit_is_refused() {
        let matrix = matrix(30, 70, 1.0);
        let mut bytes = Vec::new();
        Nibbles::of(&matrix).write(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 70 * 4 + 30 * (64 + 8));
        assert!(of_bytes(&bytes, &matrix).unwrap().are_of(&matrix));
        let places =
            [(3, "number 3 of the direction"), (72, "the scale of row 2"), (105, "the part of row 5")];
        for (place, what) in places {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut bytes = bytes.clone();
                bytes[place * 4..][..4].copy_from_slice(&bad.to_le_bytes());
                let error = of_bytes(&bytes, &matrix).unwrap_err();
                assert!(error.contains(what) && error.contains("not finite"), "{error}");
            }
        }
        for length in [0, 1, bytes.len() - 1] {
            let error = of_bytes(&bytes[..length], &matrix).unwrap_err();
            assert!(error.contains("are not those of 30 vectors of 70 numbers"), "{error}");
        }
        for place in [0, 290, 410, bytes.len() - 1] {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1;
            let is_of = of_bytes(&bytes, &matrix).is_ok_and(|codes| codes.are_of(&matrix));
            assert!(!is_of, "byte {place} is not the vectors'");
        }
    }

    #[test]
    fn four_bit_scores_rank_rows_nearly_as_their_vectors_do_even_where_one_number_is_great() {
        for great in [1.0, 30.0, 300.0] {
            let matrix = matrix(2000, 128, great);
            let codes = Nibbles::of(&matrix);
            let rows: Vec<u32> = (0..2000).collect();
            for at in 0..20 {
                let mut question = matrix.row(at * 97).to_vec();
                // As of a lifted question: the great number is 1, and the others decide as much as it.
                question[127] /= great * great;
                let (mut scores, mut exact) = (Vec::new(), Vec::new());
                codes.scores_at(&mut codes.query(&question), &rows, &mut scores);
                matrix.scores_at(&question, &rows, &mut exact);
                let best = |scores: &[f32], count: usize| {
                    let mut order = rows.clone();
                    order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
                    order.truncate(count);
                    order
                };
                let found = best(&scores, 40);
                let hits = best(&exact, 10).iter().filter(|row| found.contains(row)).count();
                assert!(hits >= 9, "{great} {at}: {hits}");
            }
        }
    }

    #[test]
    fn a_question_along_the_mean_and_one_of_zeros_score_numbers() {
        let matrix = Matrix::new(vec![2.0; 10 * 16], 10, 16, |row| row.to_string()).unwrap();
        let codes = Nibbles::of(&matrix);
        for question in [[1.0; 16], [0.0; 16], [1e30; 16], [f32::MIN_POSITIVE; 16]] {
            let mut scores = Vec::new();
            codes.scores_at(&mut codes.query(&question), &[0, 9], &mut scores);
            assert!(scores.iter().all(|score| score.is_finite()), "{scores:?}");
        }
    }
}
