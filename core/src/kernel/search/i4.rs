//! Vectors in four bits a number, and a scale: half the memory of [`super::i8`], for the way through a graph, where a
//! row need only be told from rows that lie elsewhere.
//!
//! A row, less what all rows share, is rotated as in [`super::binary`], so that its numbers are about normally
//! distributed whatever its directions. A number becomes the nearest of sixteen odd steps `2 n - 15`, of a size that is
//! best for such numbers (Max 1960). With the scale `|o|² / ⟨o, c⟩` of a row `o` with the codes `c`, the scaled product
//! `⟨q, c⟩` estimates `⟨q, o⟩` without a bias. Sums are whole numbers, the same on every instruction set.

use super::super::dot::{NibbleDots, NibbleQuery};
use super::super::isa::{Isa, NibbleTask, best, vectorised};
use super::super::vector::prefetch;
use super::binary::{Rotation, turn_scaled};

/// Numbers of a block of a row, which takes half as many bytes.
const BLOCK: usize = 128;

/// Half the step between the values of two codes, for numbers of variance 1: the step that loses least is 0.3352.
const HALF_STEP: f32 = 0.1676;

/// The greatest magnitude of a query's number.
const QUERY_LIMIT: f32 = 127.0;

/// Rows whose products are made at a time.
const ROWS: usize = 4;

/// The number of rows by which prefetching is ahead of the sums.
const AHEAD: usize = 3 * ROWS;

/// Returns the number of bytes that the codes of a row of `dim` numbers take.
pub fn row_bytes(dim: usize) -> usize {
    dim.div_ceil(BLOCK) * BLOCK / 2
}

/// Rotates `row` (`[dim]`, finite), writes its codes into `codes` (`[row_bytes(dim)]`) and returns the
/// scale. What `row` holds then is of no use.
pub fn encode_row(rotation: &Rotation, row: &mut [f32], codes: &mut [u8]) -> f32 {
    debug_assert_eq!(codes.len(), row_bytes(row.len()));
    let most = turn_scaled(rotation, row);
    let row: &[f32] = row;
    vectorised!(best(), |row: &[f32], codes: &mut [u8], most: f32| -> f32 {
        codes.fill(0);
        let mut squares = [0f32; 16];
        let (chunks, rest) = row.as_chunks::<16>();
        for chunk in chunks {
            squares.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value * value);
        }
        let squared = squares.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>();
        let deviation = (squared / row.len().max(1) as f32).sqrt();
        if most == 0.0 || deviation == 0.0 {
            return 0.0;
        }
        let inverse = 0.5 / (deviation * HALF_STEP);
        let mut along = 0f32;
        for (numbers, bytes) in row.chunks(BLOCK).zip(codes.as_chunks_mut::<{ BLOCK / 2 }>().0) {
            for (at, value) in numbers.iter().enumerate() {
                let code = (value * inverse + 8.0).clamp(0.0, 15.0) as u8;
                along += value * f32::from(2 * i16::from(code) - 15);
                bytes[at % (BLOCK / 2)] |= code << (at / (BLOCK / 2) * 4);
            }
        }
        (f64::from(most) * f64::from(squared) / f64::from(along)).min(f64::from(f32::MAX)) as f32
    })
}

/// A query in the form that rows of 4-bit numbers are scored by.
#[derive(Clone, Debug, Default)]
pub struct Query {
    numbers: NibbleQuery,
    step: f64,
}

impl Query {
    /// Rotates and quantizes `query` (`[dim]`). Its norm is left out of the products; see [`Query::step`].
    pub fn new(rotation: &Rotation, query: &[f32]) -> Self {
        let mut turned = query.to_vec();
        let scale = turn_scaled(rotation, &mut turned);
        let most = turned.iter().fold(0f32, |most, value| most.max(value.abs()));
        let inverse = if most > 0.0 { QUERY_LIMIT / most } else { 0.0 };
        let mut numbers = NibbleQuery::default();
        numbers.set(turned.iter().map(|value| (value * inverse).round() as i8));
        Self { numbers, step: f64::from(scale) * f64::from(most) / f64::from(QUERY_LIMIT) }
    }

    /// Returns the size of a number's unit: a product times the row's scale times this estimates the inner product.
    pub fn step(&self) -> f64 {
        self.step
    }
}

/// Replaces `sums` by the products of `query` with the rows of `rows` `[any, row_bytes]` that `picked` names, without
/// the scales of the rows.
///
/// # Panics
/// When `picked` names a row that is not in `rows`.
pub fn products_at(query: &Query, rows: &[u8], picked: &[u32], sums: &mut Vec<i32>) {
    products_at_by(best(), &query.numbers, rows, picked, sums);
}

fn products_at_by(isa: Isa, query: &NibbleQuery, rows: &[u8], picked: &[u32], sums: &mut Vec<i32>) {
    struct Kernel<'a>(&'a NibbleQuery, &'a [u8], &'a [u32], &'a mut Vec<i32>);
    impl NibbleTask for Kernel<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: NibbleDots>(self) {
            let Self(query, rows, picked, sums) = self;
            let row = |row: u32| &rows[row as usize * query.row_bytes()..][..query.row_bytes()];
            picked.iter().take(AHEAD).for_each(|next| prefetch(row(*next)));
            let (fours, rest) = picked.as_chunks::<ROWS>();
            for (at, four) in fours.iter().enumerate() {
                let next = picked.get(at * ROWS + AHEAD..).unwrap_or_default();
                next.iter().take(ROWS).for_each(|next| prefetch(row(*next)));
                sums.extend(D::nibble_dots(query, four.map(row)).map(|sum| query.centred(sum)));
            }
            sums.extend(rest.iter().map(|here| query.centred(D::nibble_dot(query, row(*here)))));
        }
    }
    sums.clear();
    isa.run_nibbles(Kernel(query, rows, picked, sums));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    fn normal(len: usize, seed: u64) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        (0..len).map(|_| random.normal() as f32).collect()
    }

    fn product(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    /// Returns the code of a row's number, 0 to 15.
    fn code(row: &[u8], at: usize) -> i32 {
        let byte = row[at / BLOCK * BLOCK / 2 + at % (BLOCK / 2)];
        i32::from(if at % BLOCK < BLOCK / 2 { byte & 15 } else { byte >> 4 })
    }

    #[test]
    fn products_are_those_of_the_codes_on_every_instruction_set_to_the_extremes() {
        for dim in [1, 5, 63, 64, 65, 127, 128, 129, 384, 768, 1000] {
            let bytes = row_bytes(dim);
            let drawn: Vec<u8> =
                normal(9 * bytes, 3).iter().map(|value| (value * 60.0) as i32 as u8).collect();
            for rows in [drawn, vec![0; 9 * bytes], vec![0xff; 9 * bytes]] {
                let numbers = normal(dim, 5);
                let drawn: Vec<i8> = numbers.iter().map(|value| (value * 40.0) as i8).collect();
                for numbers in [drawn, vec![0; dim], vec![127; dim], vec![-127; dim]] {
                    let mut query = NibbleQuery::default();
                    query.set(numbers.iter().copied());
                    let plain: Vec<i32> = rows
                        .chunks(bytes)
                        .map(|row| {
                            (0..dim).map(|at| i32::from(numbers[at]) * (2 * code(row, at) - 15)).sum::<i32>()
                        })
                        .collect();
                    for isa in Isa::available() {
                        let mut sums = vec![7];
                        products_at_by(isa, &query, &rows, &[8, 0, 3, 3, 1, 7], &mut sums);
                        assert_eq!(sums, [8, 0, 3, 3, 1, 7].map(|row| plain[row]), "{isa:?} {dim}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_scaled_product_estimates_the_inner_product() {
        let dim = 768;
        let rotation = Rotation::new(dim);
        let (mut off, count) = (0.0, 50);
        for seed in 0..count {
            // A few directions hold most of the length, as in vectors of text.
            let spiky = |seed: u64| -> Vec<f32> {
                let spike = |at: usize| if at % 97 == 3 { 20.0 } else { 1.0 };
                normal(dim, seed).iter().enumerate().map(|(at, value)| value * spike(at)).collect()
            };
            let (question, row) = (spiky(seed), spiky(seed + 1000));
            let lengths = (product(&question, &question) * product(&row, &row)).sqrt();
            let mut codes = vec![0; row_bytes(dim)];
            let scale = encode_row(&rotation, &mut row.clone(), &mut codes);
            let mut sums = Vec::new();
            let query = Query::new(&rotation, &question);
            products_at(&query, &codes, &[0], &mut sums);
            let estimate = f64::from(sums[0]) * f64::from(scale) * query.step();
            off += ((estimate - product(&question, &row)) / lengths).powi(2);
        }
        // Theory: sqrt(0.0115 / 768) = 0.0039 for normal numbers in sixteen steps.
        let off = f64::sqrt(off / f64::from(count as u32));
        assert!((0.002..0.006).contains(&off), "{off}");
    }

    #[test]
    fn a_row_of_zeros_scores_nothing_and_no_size_overflows() {
        for dim in [1, 100, 128] {
            let rotation = Rotation::new(dim);
            let mut codes = vec![1; row_bytes(dim)];
            assert_eq!(encode_row(&rotation, &mut vec![0.0; dim], &mut codes), 0.0);
            for size in [f32::MIN_POSITIVE, 1e-30, 1e30, f32::MAX] {
                let scale = encode_row(&rotation, &mut vec![size; dim], &mut codes);
                assert!(scale >= 0.0 && scale.is_finite(), "{dim} {size}: {scale}");
                let mut sums = Vec::new();
                products_at(&Query::new(&rotation, &vec![size; dim]), &codes, &[0], &mut sums);
                assert!(sums[0] > 0, "{dim} {size}: {}", sums[0]);
            }
            let mut sums = Vec::new();
            products_at(&Query::new(&rotation, &vec![0.0; dim]), &codes, &[0], &mut sums);
            assert_eq!(sums, [0]);
        }
    }
}
