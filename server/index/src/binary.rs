//! Binary vectors: a second copy of an index's vectors in one bit a number, by which rows are chosen to be scored.

use std::cmp::Ordering;
use std::io::{self, Write};

use dpr_core::kernel::search::binary::{
    BinaryQuery, Rotation, binarize_row, binary_products, gathered_binary_products, words,
};
use dpr_core::kernel::search::prefetch;
use rayon::prelude::*;

use super::Matrix;
use super::codes::{Codes, Values};
use super::sums::product;
use crate::vectors::rows;
use dpr_files::Mapped;

/// Rows that are chosen for each that is asked for, and beyond these.
const RESCORED: (usize, usize) = (10, 100);

/// What a bound is above the estimate, in lengths of the question, for a row whose scale is 1: two standard deviations.
/// A standard deviation is the scale times the sine of the angle between a rotated row and its signs, 0.6 (Gao and Long
/// 2024, theorem 3.2). The floor's own error, that of 8-bit codes, is left out: it is less where rows differ from their
/// mean by more than a hundredth of their length.
const MARGIN: f32 = 1.2;

/// Rows that are bounded before the codes of those that are kept are prefetched.
const GROUP: usize = 8;

/// Numbers of a vector from which a graph has signs: shorter ones are read whole in about the same time.
const GRAPH_FROM: usize = 256;

/// Returns `true` if a graph of vectors of `dim` numbers has their signs.
pub(super) fn has_signs(dim: usize) -> bool {
    dim >= GRAPH_FROM
}

/// Numbers of a vector below which more rows are chosen: an estimate is off by about one divided by their square root.
const FULL: usize = 768;

/// The signs of vectors `[count, dim]`, less their mean and rotated, with a scale each.
///
/// `codes.b1` holds the words of all rows, 64 signs each, as little-endian u64, then the scales and the mean as f32.
#[derive(Debug)]
pub(super) struct Binary {
    words: Values<u64>,
    scales: Vec<f32>,
    mean: Vec<f32>,
    rotation: Rotation,
}

impl Binary {
    /// Makes the signs of the vectors of `matrix`.
    pub(super) fn of(matrix: &Matrix) -> Self {
        let (dim, count) = (matrix.dim(), matrix.count());
        let (mean, rotation) = (mean(matrix), Rotation::new(dim));
        let (mut bits, mut scales) = (vec![0; count * words(dim)], vec![0.0; count]);
        matrix.rows().for_each_block(dim, |start, block| {
            let bits = bits[start * words(dim)..].par_chunks_mut(words(dim));
            let rows = bits.zip(block.par_chunks(dim)).zip(&mut scales[start..]).with_min_len(64);
            rows.for_each_init(Vec::new, |centred, ((bits, row), scale)| {
                centred.clear();
                let less_mean = row.iter().zip(&mean).map(|(value, mean)| value - mean);
                centred.extend(less_mean.map(|value| value.clamp(f32::MIN, f32::MAX)));
                *scale = binarize_row(&rotation, centred, bits);
            });
        });
        Self { words: Values::Owned(bits), scales, mean, rotation }
    }

    /// Takes a file of the signs of `count` vectors of `dim` numbers. The error says what is wrong with it.
    pub(super) fn of_file(file: Mapped, count: usize, dim: usize) -> Result<Self, String> {
        let (bytes, start) = (file.bytes(), count * words(dim) * size_of::<u64>());
        if bytes.len() != start + (count + dim) * size_of::<f32>() {
            return Err(format!(
                "{} bytes are not those of {count} binary vectors of {dim} numbers",
                bytes.len()
            ));
        }
        let numbers = bytes[start..].as_chunks().0.iter().map(|number| f32::from_le_bytes(*number));
        let mut scales: Vec<f32> = numbers.collect();
        if let Some(at) = scales.iter().position(|number| !number.is_finite()) {
            return Err(match at < count {
                true => format!("the scale of row {at} is not finite"),
                false => format!("number {} of the mean is not finite", at - count),
            });
        }
        let mean = scales.split_off(count);
        let words = match cfg!(target_endian = "big") {
            true => Values::Owned(
                bytes[..start].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect(),
            ),
            false => Values::Mapped(file, 0..start),
        };
        Ok(Self { words, scales, mean, rotation: Rotation::new(dim) })
    }

    /// Writes the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let words = self.words.as_slice();
        match cfg!(target_endian = "big") {
            true => words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?,
            false => out.write_all(bytemuck::cast_slice(words))?,
        }
        rows::write(&self.scales, out)?;
        rows::write(&self.mean, out)
    }

    /// Returns `true` if the signs of `matrix` are the very same.
    pub(super) fn are_of(&self, matrix: &Matrix) -> bool {
        let made = Self::of(matrix);
        made.scales == self.scales && made.mean == self.mean && made.words.as_slice() == self.words.as_slice()
    }
}

/// A question whose scores by signs estimate those by the vectors, and bound them, but for few: a bound is two standard
/// deviations above the estimate.
#[derive(Debug)]
pub(super) struct SignQuery<'a> {
    signs: &'a Binary,
    query: BinaryQuery,
    /// The question's product with the mean, which is part of every score.
    mean: f32,
    /// What a bound is above the estimate, for a row whose scale is 1.
    margin: f32,
    products: Vec<i32>,
}

impl Binary {
    /// Prepares a question.
    pub(super) fn sign_query(&self, question: &[f32]) -> SignQuery<'_> {
        let (mean, length) =
            (product(question, &self.mean) as f32, product(question, question).sqrt() as f32);
        let query = BinaryQuery::new(&self.rotation, question);
        SignQuery { signs: self, query, mean, margin: MARGIN * length, products: Vec::new() }
    }
}

impl SignQuery<'_> {
    /// Keeps the rows whose bound is at least `floor`, in their order, and calls `prefetch_row` for each as soon as it
    /// is known to be kept, while the signs of the next ones are still to be read.
    pub(super) fn retain(&mut self, rows: &mut Vec<u32>, floor: f32, prefetch_row: impl Fn(u32)) {
        let (signs, scales) = (self.signs.words.as_slice(), &self.signs.scales);
        let (words, step, least) = (words(self.signs.mean.len()), self.query.step(), floor - self.mean);
        rows.iter().for_each(|row| prefetch(&signs[*row as usize * words..][..words]));
        let mut kept = 0;
        for start in (0..rows.len()).step_by(GROUP) {
            let end = rows.len().min(start + GROUP);
            gathered_binary_products(&self.query, signs, &rows[start..end], &mut self.products);
            let before = kept;
            for (at, product) in self.products.iter().enumerate() {
                let row = rows[start + at];
                // Written before it is known whether it stays: no branch.
                rows[kept] = row;
                let bound = scales[row as usize] * (*product as f32 * step + self.margin);
                // A bound that is not a number rules nothing out.
                kept += usize::from(bound.partial_cmp(&least) != Some(Ordering::Less));
            }
            rows[before..kept].iter().for_each(|row| prefetch_row(*row));
        }
        rows.truncate(kept);
    }

    /// Replaces `scores` by the estimates of `rows`, in units of `unit`, and leaves rows whose estimates are below
    /// `floor` by more than their [`margin`](Self::margin) out of both.
    pub(super) fn estimate(&mut self, rows: &mut Vec<u32>, floor: f32, unit: f32, scores: &mut Vec<f32>) {
        let (signs, scales) = (self.signs.words.as_slice(), &self.signs.scales);
        let (words, step, unit) = (words(self.signs.mean.len()), self.query.step(), unit.recip());
        rows.iter().for_each(|row| prefetch(&signs[*row as usize * words..][..words]));
        gathered_binary_products(&self.query, signs, rows, &mut self.products);
        scores.clear();
        let mut kept = 0;
        for (at, product) in self.products.iter().enumerate() {
            let row = rows[at];
            let (scale, product) = (scales[row as usize], *product as f32 * step);
            let bound = (scale * (product + self.margin) + self.mean) * unit;
            // A bound that is not a number rules nothing out.
            if bound < floor {
                continue;
            }
            let estimate = (scale * product + self.mean) * unit;
            rows[kept] = row;
            kept += 1;
            // An estimate that is not a number says nothing: the row is scored first.
            scores.push(if estimate.is_nan() { f32::INFINITY } else { estimate });
        }
        rows.truncate(kept);
    }

    /// Returns what the score of `row` is above its estimate at most, but for few, in units of `unit`.
    pub(super) fn margin(&self, row: u32, unit: f32) -> f32 {
        self.signs.scales[row as usize] * self.margin / unit
    }
}

/// Returns the mean of all rows, `[dim]`, added in their order, so that it is the same on any number of threads.
fn mean(matrix: &Matrix) -> Vec<f32> {
    let dim = matrix.dim();
    let mut sums = vec![0f64; dim];
    matrix.rows().for_each_block(dim, |_, block| {
        for row in block.chunks_exact(dim) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
        }
    });
    let count = matrix.count().max(1) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}

impl Codes for Binary {
    type Query = BinaryQuery;

    fn query(&self, question: &[f32]) -> BinaryQuery {
        // The product with the mean is the same for all rows.
        BinaryQuery::new(&self.rotation, question)
    }

    fn scores(&self, query: &mut BinaryQuery, start: usize, scores: &mut [f32]) {
        let words = words(self.mean.len());
        binary_products(query, &self.words.as_slice()[start * words..][..scores.len() * words], scores);
        scores.iter_mut().zip(&self.scales[start..]).for_each(|(score, scale)| *score *= scale);
    }

    fn rescored(&self, k: usize) -> usize {
        let rows = k.saturating_mul(RESCORED.0).saturating_add(RESCORED.1);
        let more = (FULL as f64 / self.mean.len().max(1) as f64).sqrt().max(1.0);
        (rows as f64 * more) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Storage;
    use crate::quantized::AnyQuantized;
    use dpr_core::random::SplitMix;

    fn matrix(count: usize, dim: usize) -> Matrix {
        let mut random = SplitMix::new(9);
        let values: Vec<f32> = (0..count * dim).map(|_| random.normal() as f32 + 0.5).collect();
        Matrix::new(values, count, dim, |row| row.to_string()).unwrap()
    }

    fn of_bytes(bytes: &[u8], matrix: &Matrix) -> Result<AnyQuantized, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), bytes).unwrap();
        let mapped = Mapped::open(file.path()).unwrap();
        Ok(AnyQuantized::of_file(mapped, matrix, Storage::Binary)?.unwrap())
    }

    #[test]
    fn a_file_is_read_back_and_one_that_does_not_fit_is_refused() {
        let matrix = matrix(30, 70);
        let mut bytes = Vec::new();
        Binary::of(&matrix).write(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 30 * 16 + (30 + 70) * 4);
        assert!(of_bytes(&bytes, &matrix).unwrap().are_of(&matrix));
        for (at, expected) in
            [(30 * 16 + 2 * 4, "the scale of row 2"), (30 * 16 + 30 * 4, "number 0 of the mean")]
        {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut bytes = bytes.clone();
                bytes[at..at + 4].copy_from_slice(&bad.to_le_bytes());
                let error = of_bytes(&bytes, &matrix).unwrap_err();
                assert!(error.contains(expected) && error.contains("not finite"), "{error}");
            }
        }
        for length in [0, 1, 479, bytes.len() - 1] {
            let error = of_bytes(&bytes[..length], &matrix).unwrap_err();
            assert!(error.contains("are not those of 30 binary vectors of 70 numbers"), "{error}");
        }
        let mut other = bytes.clone();
        other[0] ^= 1;
        assert!(!of_bytes(&other, &matrix).unwrap().are_of(&matrix), "a sign that is not the vector's");
    }

    #[test]
    fn a_mean_that_all_rows_share_does_not_hide_what_tells_them_apart() {
        let (count, dim) = (200, 64);
        let mut random = SplitMix::new(3);
        // All rows lie within a cone around one direction, as DPR's vectors do.
        let values: Vec<f32> = (0..count * dim)
            .map(|at| 5.0 * f32::from(u8::from(at % dim == 7)) + random.normal() as f32)
            .collect();
        let matrix = Matrix::new(values, count, dim, |row| row.to_string()).unwrap();
        let codes = Binary::of(&matrix);
        let query: Vec<f32> = matrix.row(17).to_vec();
        let (mut prepared, mut scores) = (codes.query(&query), vec![0.0; count]);
        codes.scores(&mut prepared, 0, &mut scores);
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
        assert_eq!(best, 17);
    }

    #[test]
    fn bounds_keep_nearly_all_rows_above_the_floor_in_their_order_and_leave_most_others_out() {
        let (count, dim) = (4000, 768);
        let matrix = matrix(count, dim);
        let codes = Binary::of(&matrix);
        let (mut above, mut kept_above, mut kept_all) = (0, 0, 0);
        for seed in 0..20 {
            let mut random = SplitMix::new(seed);
            let question: Vec<f32> = (0..dim).map(|_| 3.0 * random.normal() as f32 - 0.2).collect();
            let all: Vec<u32> = (0..count as u32).rev().collect();
            let mut scores = Vec::new();
            matrix.scores_at(&question, &all, &mut scores);
            let mut sorted = scores.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let floor = sorted[count / 50];
            let mut kept = all.clone();
            codes.sign_query(&question).retain(&mut kept, floor, |_| {});
            assert!(kept.is_sorted_by(|a, b| a > b), "in the order that they came");
            let is_above = |row: &u32| scores[count - 1 - *row as usize] >= floor;
            above += all.iter().filter(|row| is_above(row)).count();
            kept_above += kept.iter().filter(|row| is_above(row)).count();
            kept_all += kept.len();
        }
        // Two standard deviations leave out 2 of 100 rows that are at the floor, and fewer above it.
        assert!(kept_above as f64 >= 0.98 * f64::from(above as u32), "{kept_above} of {above}");
        assert!(kept_all < 20 * count * 2 / 5, "{kept_all} of {}", 20 * count);
    }

    #[test]
    fn bounds_of_rows_of_extreme_lengths_leave_none_out_that_is_among_the_best() {
        for size in [1e-15, 1e-5, 1.0, 1e15] {
            let mut random = SplitMix::new(8);
            let (count, dim) = (300, 256);
            let values: Vec<f32> = (0..count * dim).map(|_| size * random.normal() as f32).collect();
            let matrix = Matrix::new(values, count, dim, |row| row.to_string()).unwrap();
            let codes = Binary::of(&matrix);
            for row in [0, 17, 299] {
                let question = matrix.row(row).to_vec();
                let mut scores = Vec::new();
                matrix.scores_at(&question, &[row as u32], &mut scores);
                let mut kept = vec![row as u32];
                codes.sign_query(&question).retain(&mut kept, scores[0] * 0.9, |_| {});
                assert_eq!(kept, [row as u32], "{size}");
            }
        }
    }

    #[test]
    fn estimates_are_off_by_what_their_theorem_says_and_rows_below_the_floor_are_left_out() {
        let (count, dim, unit) = (2000, 768, 0.25);
        let matrix = matrix(count, dim);
        let codes = Binary::of(&matrix);
        let mut random = SplitMix::new(2);
        let question: Vec<f32> = (0..dim).map(|_| 3.0 * random.normal() as f32 - 0.2).collect();
        let all: Vec<u32> = (0..count as u32).collect();
        let (mut exact, mut estimates) = (Vec::new(), Vec::new());
        matrix.scores_at(&question, &all, &mut exact);
        let mut query = codes.sign_query(&question);
        query.estimate(&mut all.clone(), f32::NEG_INFINITY, unit, &mut estimates);
        let errors = exact.iter().zip(&estimates).map(|(exact, estimate)| f64::from(estimate * unit - exact));
        let (sum, squares) = errors.fold((0.0, 0.0), |(sum, squares), e| (sum + e, squares + e * e));
        let scale = codes.scales.iter().sum::<f32>() / count as f32;
        let expected = f64::from(MARGIN / 2.0 * scale) * product(&question, &question).sqrt();
        let deviation = (squares / count as f64).sqrt();
        assert!((0.8..1.2).contains(&(deviation / expected)), "{deviation}, expected {expected}");
        assert!((sum / count as f64).abs() < 0.1 * deviation, "no bias: {}", sum / count as f64);
        let floor = 1000.0;
        let (mut rows, mut kept) = (all.clone(), Vec::new());
        query.estimate(&mut rows, floor, unit, &mut kept);
        let bound = |row: &u32| estimates[*row as usize] + query.margin(*row, unit);
        // Rows within rounding of the floor may be on either side of it.
        assert!(rows.iter().all(|row| bound(row) >= floor - 0.01));
        let above = all.iter().filter(|row| bound(row) >= floor + 0.01);
        assert!(above.clone().all(|row| rows.binary_search(row).is_ok()));
        assert!((count / 50..count / 3).contains(&rows.len()), "{}", rows.len());
        assert!(rows.iter().zip(&kept).all(|(row, estimate)| *estimate == estimates[*row as usize]));
    }

    #[test]
    fn an_estimate_that_is_not_a_number_comes_first() {
        let matrix = matrix(50, 256);
        let codes = Binary::of(&matrix);
        let mut query = codes.sign_query(&vec![0.0; 256]);
        let (mut rows, mut estimates) = (vec![3, 1, 2], Vec::new());
        query.estimate(&mut rows, 1.0, 0.0, &mut estimates);
        assert_eq!((rows, estimates), (vec![3, 1, 2], vec![f32::INFINITY; 3]));
    }
}
