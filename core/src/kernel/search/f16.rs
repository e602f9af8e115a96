//! Half-precision (f16) vectors and their inner products: half of the memory that a search reads.
//!
//! A row is kept as `f16` numbers and a scale, a power of two, so that none of its numbers is too large for sixteen
//! bits and none that counts is too small. Sums run in the order that is quickest on the instruction set: use this
//! module to choose rows, and [`super::f32`] to score them.

use half::f16;

use super::super::isa::{best, vectorised};
use super::super::vector::{Simd, widen};
use super::i8::greatest;

/// The bound below which the greatest magnitude of a row lies once the row is scaled; the greatest f16 number is
/// twice as large.
const LIMIT: f32 = 32_768.0;

/// Sums kept side by side, so that one addition need not wait for the one before.
const SUMS: usize = 4;

/// Writes `row` as `f16` numbers to `numbers`, which is as long, and returns the scale: a number of the row is about
/// its f16 number times the scale.
///
/// Numbers must be finite.
pub fn to_f16(row: &[f32], numbers: &mut [u16]) -> f32 {
    debug_assert_eq!(row.len(), numbers.len());
    let (scale, inverse) = scale(row);
    for (half, value) in numbers.iter_mut().zip(row) {
        *half = f16::from_f32(value * inverse).to_bits();
    }
    scale
}

/// Replaces `scaled` by `query` with its greatest magnitude below one, so that no sum over a row's numbers overflows.
pub fn scale_query(query: &[f32], scaled: &mut Vec<f32>) {
    let power = power(query).max(f32::MIN_POSITIVE);
    scaled.clear();
    scaled.extend(query.iter().map(|value| value / power * 0.5));
}

/// Computes the inner products of `query` with `rows` `[sums, dim]`, row after row, into `sums`.
pub fn f16_products(query: &[f32], rows: &[u16], sums: &mut [f32]) {
    debug_assert_eq!(rows.len(), sums.len() * query.len());
    vectorised!(best(), |query: &[f32], rows: &[u16], sums: &mut [f32]| {
        for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(query.len())) {
            *sum = dot::<S>(query, row);
        }
    });
}

/// Returns the scale that f16 numbers are multiplied by, and its inverse; both are powers of two.
fn scale(values: &[f32]) -> (f32, f32) {
    let power = power(values);
    // So small that the inverse would overflow: nothing that counts is lost.
    if power < f32::MIN_POSITIVE * LIMIT * LIMIT {
        (0.0, 0.0)
    } else {
        (power / LIMIT * 2.0, LIMIT / 2.0 / power)
    }
}

/// Returns the greatest power of two that is not above the greatest magnitude; 0 where that magnitude is next to
/// nothing.
fn power(values: &[f32]) -> f32 {
    f32::from_bits(greatest(values).to_bits() & f32::INFINITY.to_bits())
}

#[inline(always)]
fn dot<S: Simd>(query: &[f32], row: &[u16]) -> f32 {
    let turns = query.len() / (S::LANES * SUMS);
    let mut sums = [S::splat(0.0); SUMS];
    for turn in 0..turns {
        for (at, sum) in sums.iter_mut().enumerate() {
            let place = turn * SUMS + at;
            *sum = S::mul_add(S::load(query, place), S::load_half(row, place), *sum);
        }
    }
    let mut lanes = [0f32; 16];
    let mut total = 0.0;
    for sum in sums {
        S::store(sum, &mut lanes, 0);
        total += lanes[..S::LANES].iter().sum::<f32>();
    }
    let rest = turns * S::LANES * SUMS;
    total + query[rest..].iter().zip(&row[rest..]).map(|(a, b)| a * widen(*b)).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::super::super::isa::Isa;
    use super::*;

    fn vector(len: usize, step: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * step).sin()).collect()
    }

    fn in_f16(row: &[f32]) -> (Vec<u16>, f32) {
        let mut numbers = vec![0; row.len()];
        let scale = to_f16(row, &mut numbers);
        (numbers, scale)
    }

    #[test]
    fn a_half_is_off_by_a_two_thousandth_at_most_whatever_its_vector_s_length() {
        for size in [1e-25_f32, 1e-3, 1.0, 1e4, 1e30] {
            let row: Vec<f32> = vector(300, 0.37).iter().map(|value| value * size).collect();
            let (numbers, scale) = in_f16(&row);
            for (half, value) in numbers.iter().zip(&row) {
                let back = f16::from_bits(*half).to_f32() * scale;
                assert!((back - value).abs() <= value.abs() / 2048.0 + size * 1e-8, "{value} {back}");
            }
        }
        assert_eq!(in_f16(&[0.0, f32::MIN_POSITIVE]), (vec![0, 0], 0.0));
    }

    #[test]
    fn products_are_those_of_the_numbers_on_every_instruction_set() {
        for len in [1, 7, 63, 64, 100, 768] {
            let query = vector(len, 0.11);
            let (rows, scale) = in_f16(&vector(len * 3, 0.37));
            let mut sums = vec![0.0; 3];
            f16_products(&query, &rows, &mut sums);
            for (row, sum) in rows.chunks(len).zip(&sums) {
                let numbers = row.iter().map(|half| f64::from(f16::from_bits(*half).to_f32()));
                let plain: f64 = numbers.zip(&query).map(|(a, b)| a * f64::from(*b)).sum();
                let query = query.as_slice();
                let on = |isa: &Isa| {
                    vectorised!(isa, |query: &[f32], row: &[u16]| -> f32 { dot::<S>(query, row) })
                };
                for found in Isa::available().iter().map(on).chain([*sum]) {
                    let off = (f64::from(found) - plain).abs() * f64::from(scale);
                    assert!(off < 1e-4, "{len}: {found} {plain}");
                }
            }
        }
    }

    #[test]
    fn the_longest_question_and_row_have_a_finite_product() {
        let (numbers, _) = in_f16(&[f32::MAX; 4096]);
        let mut query = Vec::new();
        scale_query(&[f32::MAX; 4096], &mut query);
        assert!(query.iter().all(|value| *value < 1.0), "{}", query[0]);
        let mut sums = [0.0];
        f16_products(&query, &numbers, &mut sums);
        assert!(sums[0].is_finite() && sums[0] > 1e7, "{}", sums[0]);
    }
}
