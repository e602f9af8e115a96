//! Quantized (8-bit) vectors and their inner products: a quarter of the memory that a search reads.
//!
//! A row is kept as `i8` numbers and a scale, a query as `i16` numbers and a scale: two products and their sum are
//! one instruction on every target, so the finer query costs nothing. Sums are whole numbers, so a pair has one score
//! on every instruction set, and the score is off by what the row lost in rounding: at most half a step of each
//! number.

use super::super::isa::{best, vectorised};

/// The greatest magnitude of a row's numbers.
const ROW_LIMIT: f32 = 127.0;

/// Quantizes `row` to eight bits into `codes`, which is as long, and returns the scale: a number of the row is about
/// its code times the scale.
///
/// Numbers must be finite.
pub fn quantize_row(row: &[f32], codes: &mut [i8]) -> f32 {
    debug_assert_eq!(row.len(), codes.len());
    vectorised!(best(), |row: &[f32], codes: &mut [i8]| -> f32 {
        let (scale, inverse) = scale(row, ROW_LIMIT);
        for (code, value) in codes.iter_mut().zip(row) {
            *code = whole(value * inverse) as i8;
        }
        scale
    })
}

/// Quantizes `query` to sixteen bits into `codes`, which it replaces, and returns the scale. The numbers are so small
/// that no sum over a row's codes overflows.
pub fn quantize_query(query: &[f32], codes: &mut Vec<i16>) -> f32 {
    let limit = (i32::MAX as usize / (128 * query.len().max(1))).min(i16::MAX as usize) as f32;
    let (scale, inverse) = scale(query, limit);
    codes.clear();
    codes.extend(query.iter().map(|value| whole(value * inverse) as i16));
    scale
}

/// Returns the scale that a code is multiplied by, and its inverse.
#[inline(always)]
pub(super) fn scale(values: &[f32], limit: f32) -> (f32, f32) {
    let max = greatest(values);
    // So small that the inverse would overflow: nothing that counts is lost.
    if max < f32::MIN_POSITIVE * limit { (0.0, 0.0) } else { (max / limit, limit / max) }
}

/// Returns the greatest magnitude of `values`, which are finite; 0 where there are none.
#[inline(always)]
pub(super) fn greatest(values: &[f32]) -> f32 {
    match cfg!(target_arch = "wasm32") {
        // Less code, in a module that pages download.
        true => values.iter().fold(0f32, |most, value| most.max(value.abs())),
        // Without their sign the bits of numbers are in the numbers' order, and compilers make vectors of the loop.
        false => f32::from_bits(values.iter().fold(0, |most, value| most.max(value.abs().to_bits()))),
    }
}

/// Returns the nearest whole number.
#[inline(always)]
pub(super) fn whole(value: f32) -> i32 {
    // Added and taken off again, it leaves a whole number in the low mantissa bits; compilers make vectors of that.
    const ROUND: f32 = 12_582_912.0;
    (value + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32
}

/// Computes the inner products of `query` with the quantized `rows` `[sums, dim]`, row after row, into `sums`.
pub fn quantized_products(query: &[i16], rows: &[i8], sums: &mut [i32]) {
    debug_assert_eq!(rows.len(), sums.len() * query.len());
    vectorised!(best(), |query: &[i16], rows: &[i8], sums: &mut [i32]| {
        for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(query.len())) {
            *sum = dot(query, row);
        }
    });
}

/// Returns the inner product by one plain sum, in which the compiler finds the instruction that adds two products.
#[inline(always)]
fn dot(query: &[i16], row: &[i8]) -> i32 {
    query.iter().zip(row).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::isa::Isa;
    use super::*;

    fn vector(len: usize, step: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * step).sin()).collect()
    }

    fn coded(row: &[f32]) -> (Vec<i8>, f32) {
        let mut codes = vec![0; row.len()];
        let scale = quantize_row(row, &mut codes);
        (codes, scale)
    }

    #[test]
    fn a_score_in_eight_bits_is_off_by_half_a_step_of_each_number_at_most() {
        for len in [1, 7, 63, 100, 768, 4096] {
            let (query, row) = (vector(len, 0.37), vector(len, 0.11));
            let exact: f64 = query.iter().zip(&row).map(|(a, b)| f64::from(a * b)).sum();
            let (codes, scale) = coded(&row);
            let mut numbers = Vec::new();
            let query_scale = quantize_query(&query, &mut numbers);
            let mut sums = vec![0];
            quantized_products(&numbers, &codes, &mut sums);
            let score = f64::from(sums[0]) * f64::from(scale) * f64::from(query_scale);
            let loss: f64 = query.iter().map(|a| f64::from(a.abs() * scale) / 2.0).sum();
            assert!((score - exact).abs() <= loss * 1.01 + 1e-3, "{len}: {score} {exact} {loss}");
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow_and_zeros_stay_zero() {
        for len in [1, 768, 8192] {
            let (codes, scale) = coded(&vec![-3.0; len]);
            let mut numbers = Vec::new();
            let query_scale = quantize_query(&vec![-5.0; len], &mut numbers);
            let mut sums = vec![0];
            quantized_products(&numbers, &codes, &mut sums);
            let score = sums[0] as f32 * scale * query_scale;
            assert!((score / (15.0 * len as f32) - 1.0).abs() < 1e-2, "{len}: {score}");
        }
        assert_eq!(coded(&[0.0, 0.0]), (vec![0, 0], 0.0));
        assert_eq!(coded(&[f32::MIN_POSITIVE, 0.0]), (vec![0, 0], 0.0));
    }

    #[test]
    fn every_instruction_set_gives_the_same_sums() {
        let dim = 100;
        let (rows, _) = coded(&vector(dim * 9, 0.7));
        let mut numbers = Vec::new();
        quantize_query(&vector(dim, 0.3), &mut numbers);
        let mut sums = vec![0; 9];
        quantized_products(&numbers, &rows, &mut sums);
        for (row, sum) in rows.chunks(dim).zip(&sums) {
            let query = numbers.as_slice();
            for isa in Isa::available() {
                assert_eq!(vectorised!(isa, |query: &[i16], row: &[i8]| -> i32 { dot(query, row) }), *sum);
            }
        }
    }
}
