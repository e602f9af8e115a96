//! Vectors in four bits a number, by which a graph is searched: a second copy beside the quantized vectors, half as long.

use std::io::{self, Write};

use dpr_core::kernel::search::binary::Rotation;
use dpr_core::kernel::search::i4::{Query, encode_row, products_at, row_bytes};
use rayon::prelude::*;

use super::Matrix;
use super::binary::mean;
use super::codes::Values;
use crate::vectors::rows;
use dpr_files::Mapped;

/// The 4-bit codes of vectors less their mean and rotated, `[count, row_bytes(dim)]`, with a scale each.
///
/// `codes.i4` holds the codes of all rows, then the scales as little-endian f32.
#[derive(Debug)]
pub(super) struct Nibbles {
    codes: Values<u8>,
    scales: Vec<f32>,
    rotation: Rotation,
}

/// A question in the form that 4-bit codes are scored by.
#[derive(Debug)]
pub(super) struct NibbleQuery {
    query: Query,
    sums: Vec<i32>,
}

impl Nibbles {
    /// Makes the codes of the vectors of `matrix`.
    pub(super) fn of(matrix: &Matrix) -> Self {
        let (dim, count) = (matrix.dim(), matrix.count());
        let (mean, rotation, bytes) = (mean(matrix), Rotation::new(dim), row_bytes(dim));
        let (mut codes, mut scales) = (vec![0; count * bytes], vec![0.0; count]);
        matrix.rows().for_each_block(dim, |start, block| {
            let codes = codes[start * bytes..].par_chunks_mut(bytes);
            let rows = codes.zip(block.par_chunks(dim)).zip(&mut scales[start..]).with_min_len(64);
            rows.for_each_init(Vec::new, |centred, ((codes, row), scale)| {
                centred.clear();
                let less_mean = row.iter().zip(&mean).map(|(value, mean)| value - mean);
                centred.extend(less_mean.map(|value| value.clamp(f32::MIN, f32::MAX)));
                *scale = encode_row(&rotation, centred, codes);
            });
        });
        Self { codes: Values::Owned(codes), scales, rotation }
    }

    /// Takes a file of the codes of `count` vectors of `dim` numbers. The error says what is wrong with it.
    pub(super) fn of_file(file: Mapped, count: usize, dim: usize) -> Result<Self, String> {
        let (bytes, start) = (file.bytes(), count * row_bytes(dim));
        if bytes.len() != start + count * size_of::<f32>() {
            return Err(format!(
                "{} bytes are not those of {count} vectors of {dim} numbers in four bits",
                bytes.len()
            ));
        }
        let scales = bytes[start..].as_chunks().0.iter();
        let scales: Vec<f32> = scales.map(|scale| f32::from_le_bytes(*scale)).collect();
        if let Some(row) = scales.iter().position(|scale| !scale.is_finite()) {
            return Err(format!("the scale of row {row} is not finite"));
        }
        Ok(Self { codes: Values::Mapped(file, 0..start), scales, rotation: Rotation::new(dim) })
    }

    /// Writes the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.codes.as_slice())?;
        rows::write(&self.scales, out)
    }

    /// Returns `true` if the codes of `matrix` are the very same.
    pub(super) fn are_of(&self, matrix: &Matrix) -> bool {
        let made = Self::of(matrix);
        made.scales == self.scales && made.codes.as_slice() == self.codes.as_slice()
    }

    /// Prepares a question.
    pub(super) fn query(&self, question: &[f32]) -> NibbleQuery {
        // The product with the mean is the same for all rows.
        NibbleQuery { query: Query::new(&self.rotation, question), sums: Vec::new() }
    }

    /// Replaces `scores` by the scores of these rows, which only compare rows.
    pub(super) fn scores_at(&self, query: &mut NibbleQuery, rows: &[u32], scores: &mut Vec<f32>) {
        products_at(&query.query, self.codes.as_slice(), rows, &mut query.sums);
        scores.clear();
        let scaled = rows.iter().zip(&query.sums);
        scores.extend(scaled.map(|(row, sum)| *sum as f32 * self.scales[*row as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::random::SplitMix;

    fn matrix(count: usize, dim: usize) -> Matrix {
        let mut random = SplitMix::new(9);
        let values: Vec<f32> = (0..count * dim).map(|_| random.normal() as f32 + 0.5).collect();
        Matrix::new(values, count, dim, |row| row.to_string()).unwrap()
    }

    fn of_bytes(bytes: &[u8], matrix: &Matrix) -> Result<Nibbles, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), bytes).unwrap();
        Nibbles::of_file(Mapped::open(file.path()).unwrap(), matrix.count(), matrix.dim())
    }

    #[test]
    fn a_file_of_four_bit_codes_is_read_back_and_one_that_does_not_fit_is_refused() {
        let matrix = matrix(30, 70);
        let mut bytes = Vec::new();
        Nibbles::of(&matrix).write(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 30 * (64 + 4));
        assert!(of_bytes(&bytes, &matrix).unwrap().are_of(&matrix));
        for bad in [f32::NAN, f32::INFINITY] {
            let mut bytes = bytes.clone();
            bytes[30 * 64 + 8..][..4].copy_from_slice(&bad.to_le_bytes());
            let error = of_bytes(&bytes, &matrix).unwrap_err();
            assert!(error.contains("the scale of row 2 is not finite"), "{error}");
        }
        for length in [0, 1, bytes.len() - 1] {
            let error = of_bytes(&bytes[..length], &matrix).unwrap_err();
            assert!(error.contains("are not those of 30 vectors of 70 numbers"), "{error}");
        }
        bytes[0] ^= 1;
        assert!(!of_bytes(&bytes, &matrix).unwrap().are_of(&matrix), "a code that is not the vector's");
    }

    #[test]
    fn four_bit_scores_rank_rows_nearly_as_their_vectors_do() {
        let matrix = matrix(2000, 128);
        let codes = Nibbles::of(&matrix);
        let rows: Vec<u32> = (0..2000).collect();
        for at in 0..20 {
            let question = matrix.row(at * 97);
            let (mut scores, mut exact) = (Vec::new(), Vec::new());
            codes.scores_at(&mut codes.query(question), &rows, &mut scores);
            matrix.scores_at(question, &rows, &mut exact);
            let best = |scores: &[f32], count: usize| {
                let mut order = rows.clone();
                order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
                order.truncate(count);
                order
            };
            let found = best(&scores, 40);
            let hits = best(&exact, 10).iter().filter(|row| found.contains(row)).count();
            assert!(hits >= 9, "{at}: {hits}");
        }
    }
}
