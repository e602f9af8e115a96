//! Quantized (8-bit) vectors and their inner products: a quarter of the memory that a search reads.
//!
//! A row is kept as `i8` numbers and a scale, a query as `i16` numbers and a scale: where two products and their sum
//! are one instruction, the finer query costs nothing, and with AVX-512 VNNI its two bytes are multiplied apart. Sums
//! are whole numbers, so a pair has one score on every instruction set, and the score is off by what the row lost in
//! rounding: at most half a step of each number.

use super::super::dot::{NibbleDots, QueryBytes, RowDots};
use super::super::isa::{Isa, RowTask, best, vectorised};
use super::super::vector::prefetch;

/// The greatest magnitude of a row's numbers.
const ROW_LIMIT: f32 = 127.0;

/// Rows whose products are made at a time.
const ROWS: usize = 4;

/// The number of rows by which prefetching is ahead of the sums, where rows lie apart.
const AHEAD: usize = 2 * ROWS;

/// A query whose numbers are of sixteen bits at most.
#[derive(Clone, Debug, Default)]
pub struct QuantizedQuery(QueryBytes);

impl QuantizedQuery {
    /// Quantizes `query` in place of what was here, and returns the scale: a number of the query is about its code
    /// times the scale. The codes are so small that no sum over a row's codes overflows.
    pub fn set(&mut self, query: &[f32]) -> f32 {
        let limit = (i32::MAX as usize / (128 * query.len().max(1))).min(QueryBytes::LIMIT as usize) as f32;
        let (scale, inverse) = scale(query, limit);
        self.0.set(query.iter().map(|value| whole(value * inverse) as i16));
        scale
    }

    /// Takes the codes of a row in place of what was here.
    pub fn set_row(&mut self, row: &[i8]) {
        self.0.set(row.iter().map(|code| i16::from(*code)));
    }
}

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

/// Returns the scale that a code is multiplied by, and its inverse.
#[inline(always)]
fn scale(values: &[f32], limit: f32) -> (f32, f32) {
    let max = values.iter().fold(0f32, |max, value| max.max(value.abs()));
    // So small that the inverse would overflow: nothing that counts is lost.
    if max < f32::MIN_POSITIVE * ROW_LIMIT { (0.0, 0.0) } else { (max / limit, limit / max) }
}

/// Returns the nearest whole number.
#[inline(always)]
fn whole(value: f32) -> i32 {
    // Added and taken off again, it leaves a whole number in the low mantissa bits; compilers make vectors of that.
    const ROUND: f32 = 12_582_912.0;
    (value + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32
}

/// Computes the inner products of `query` with the quantized `rows` `[sums, dim]`, row after row, into `sums`.
pub fn quantized_products(query: &QuantizedQuery, rows: &[i8], sums: &mut [i32]) {
    products(best(), query, rows, sums);
}

fn products(isa: Isa, query: &QuantizedQuery, rows: &[i8], sums: &mut [i32]) {
    struct Kernel<'a>(&'a QueryBytes, &'a [i8], &'a mut [i32]);
    impl RowTask for Kernel<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: RowDots + NibbleDots>(self) {
            let Self(query, rows, sums) = self;
            let dim = query.len();
            let (fours, rest) = sums.as_chunks_mut::<ROWS>();
            for (at, sums) in fours.iter_mut().enumerate() {
                let rows = &rows[at * ROWS * dim..][..ROWS * dim];
                *sums = D::dots(query, std::array::from_fn(|row| &rows[row * dim..][..dim]));
            }
            let rows = &rows[fours.len() * ROWS * dim..];
            for (at, sum) in rest.iter_mut().enumerate() {
                *sum = D::dot(query, &rows[at * dim..][..dim]);
            }
        }
    }
    debug_assert_eq!(rows.len(), sums.len() * query.0.len());
    isa.run_rows(Kernel(&query.0, rows, sums));
}

/// Replaces `sums` by the inner products of `query` with the quantized rows of `rows` `[any, dim]` that `picked`
/// names.
///
/// # Panics
/// When `picked` names a row that is not in `rows`.
pub fn quantized_products_at(query: &QuantizedQuery, rows: &[i8], picked: &[u32], sums: &mut Vec<i32>) {
    products_at(best(), query, rows, picked, sums);
}

fn products_at(isa: Isa, query: &QuantizedQuery, rows: &[i8], picked: &[u32], sums: &mut Vec<i32>) {
    struct Kernel<'a>(&'a QueryBytes, &'a [i8], &'a [u32], &'a mut Vec<i32>);
    impl RowTask for Kernel<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: RowDots + NibbleDots>(self) {
            let Self(query, rows, picked, sums) = self;
            let row = |row: u32| &rows[row as usize * query.len()..][..query.len()];
            picked.iter().take(AHEAD).for_each(|next| prefetch(row(*next)));
            let (fours, rest) = picked.as_chunks::<ROWS>();
            for (at, four) in fours.iter().enumerate() {
                let next = picked.get(at * ROWS + AHEAD..).unwrap_or_default();
                next.iter().take(ROWS).for_each(|next| prefetch(row(*next)));
                sums.extend(D::dots(query, four.map(row)));
            }
            sums.extend(rest.iter().map(|here| D::dot(query, row(*here))));
        }
    }
    sums.clear();
    isa.run_rows(Kernel(&query.0, rows, picked, sums));
}

/// Returns the inner product of two quantized rows.
pub fn quantized_product(a: &[i8], b: &[i8]) -> i32 {
    product(best(), a, b)
}

fn product(isa: Isa, a: &[i8], b: &[i8]) -> i32 {
    struct Kernel<'a>(&'a [i8], &'a [i8]);
    impl RowTask for Kernel<'_> {
        type Output = i32;
        #[inline(always)]
        fn run<D: RowDots + NibbleDots>(self) -> i32 {
            D::between(self.0, self.1)
        }
    }
    isa.run_rows(Kernel(a, b))
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

    fn quantized(query: &[f32]) -> (QuantizedQuery, f32) {
        let mut quantized = QuantizedQuery::default();
        let scale = quantized.set(query);
        (quantized, scale)
    }

    #[test]
    fn a_score_in_eight_bits_is_off_by_half_a_step_of_each_number_at_most() {
        for len in [1, 7, 63, 100, 768, 4096] {
            let (query, row) = (vector(len, 0.37), vector(len, 0.11));
            let exact: f64 = query.iter().zip(&row).map(|(a, b)| f64::from(a * b)).sum();
            let (codes, scale) = coded(&row);
            let (numbers, query_scale) = quantized(&query);
            let mut sums = vec![0];
            quantized_products(&numbers, &codes, &mut sums);
            let score = f64::from(sums[0]) * f64::from(scale) * f64::from(query_scale);
            let loss: f64 = query.iter().map(|a| f64::from(a.abs() * scale) / 2.0).sum();
            assert!((score - exact).abs() <= loss * 1.01 + 1e-3, "{len}: {score} {exact} {loss}");
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow_and_zeros_stay_zero() {
        for len in [1, 384, 768, 8192, 100_000] {
            let (codes, scale) = coded(&vec![-3.0; len]);
            let (numbers, query_scale) = quantized(&vec![-5.0; len]);
            let mut sums = vec![0; 1];
            for isa in Isa::available() {
                products(isa, &numbers, &codes, &mut sums);
                let score = sums[0] as f32 * scale * query_scale;
                assert!((score / (15.0 * len as f32) - 1.0).abs() < 1e-2, "{isa:?} {len}: {score}");
            }
        }
        assert_eq!(coded(&[0.0, 0.0]), (vec![0, 0], 0.0));
        assert_eq!(coded(&[f32::MIN_POSITIVE, 0.0]), (vec![0, 0], 0.0));
    }

    /// Whole numbers of a query and of nine rows: drawn, zero, and each pair of extremes.
    fn cases(len: usize) -> Vec<(Vec<i16>, Vec<i8>)> {
        let most = (i32::MAX as usize / (128 * len.max(1))).min(QueryBytes::LIMIT as usize) as i16;
        let query = |at: usize| (at as i64 * 7919 % (2 * i64::from(most) + 1) - i64::from(most)) as i16;
        let mut cases =
            vec![((0..len).map(query).collect(), (0..9 * len).map(|at| (at * 31) as i8).collect())];
        for number in [0, most, -most, 128.min(most), (-128).max(-most), 127, 255.min(most)] {
            for code in [i8::MIN, -127, 0, 127] {
                cases.push((vec![number; len], vec![code; 9 * len]));
            }
        }
        cases
    }

    #[test]
    fn sums_are_the_plain_ones_on_every_instruction_set_to_the_extremes() {
        for len in [1, 5, 63, 64, 65, 100, 127, 128, 384, 768, 1000] {
            for (numbers, rows) in cases(len) {
                let plain: Vec<i32> = rows
                    .chunks(len)
                    .map(|row| row.iter().zip(&numbers).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum())
                    .collect();
                let mut query = QuantizedQuery::default();
                query.0.set(numbers.iter().copied());
                for isa in Isa::available() {
                    let mut sums = vec![1; 9];
                    products(isa, &query, &rows, &mut sums);
                    assert_eq!(sums, plain, "{isa:?} {len}");
                    let mut picked = vec![7];
                    products_at(isa, &query, &rows, &[8, 0, 3, 3, 1, 7], &mut picked);
                    assert_eq!(picked, [8, 0, 3, 3, 1, 7].map(|row| plain[row]), "{isa:?} {len}");
                }
            }
        }
    }

    #[test]
    fn a_row_asked_for_its_neighbours_gives_the_products_of_two_rows_on_every_instruction_set() {
        for len in [1, 63, 64, 100, 768] {
            for (_, rows) in cases(len) {
                let (a, b) = (&rows[..len], &rows[len..2 * len]);
                let plain: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                let mut query = QuantizedQuery::default();
                query.set_row(a);
                for isa in Isa::available() {
                    let mut sums = vec![1];
                    products(isa, &query, b, &mut sums);
                    assert_eq!((sums[0], product(isa, a, b)), (plain, plain), "{isa:?} {len}");
                }
            }
        }
    }
}
