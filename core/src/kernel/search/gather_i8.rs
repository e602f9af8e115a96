//! Inner products of a query with rows quantized to eight bits: those gathered from anywhere in an index, as the search
//! of a graph scores them, and all of a block, as exact search does.
//!
//! Rows are those of [`super::i8`], and so is the query: 16-bit numbers, which AVX-512 VNNI multiplies byte by byte. Sums
//! are whole numbers, the same on every instruction set.

use super::super::dot::{QueryBytes, RowDots};
use super::super::isa::{Isa, RowTask, best, vectorised};
use super::super::vector::prefetch;
use super::i8::{scale, whole};

/// Rows whose products are computed at a time.
const ROWS: usize = 4;

/// The number of rows by which prefetching is ahead of the sums.
const AHEAD: usize = 2 * ROWS;

/// A query of 16-bit numbers, laid out for products.
#[derive(Clone, Debug, Default)]
pub struct GatherQuery(QueryBytes);

impl GatherQuery {
    /// Quantizes `query` `[dim]` in place of what was here, and returns the scale: a number of the query is about its
    /// code times the scale. The codes are so small that no sum over a row's codes overflows.
    pub fn set(&mut self, query: &[f32]) -> f32 {
        let bytes = &mut self.0;
        vectorised!(best(), |bytes: &mut QueryBytes, query: &[f32]| -> f32 {
            let (scale, inverse) = scale(query, limit(query.len()));
            bytes.set(query.iter().map(|value| whole(value * inverse) as i16));
            scale
        })
    }

    /// Takes the codes `[dim]` of a row in place of what was here.
    pub fn set_row(&mut self, row: &[i8]) {
        self.0.set(row.iter().map(|code| i16::from(*code)));
    }
}

/// Returns the greatest magnitude of a query's number.
fn limit(dim: usize) -> f32 {
    (i32::MAX as usize / (128 * dim.max(1))).min(QueryBytes::LIMIT as usize) as f32
}

/// Replaces `sums` by the inner products of `query` with the quantized rows of `rows` `[any, dim]` that `picked` names.
///
/// # Panics
/// When `picked` names a row that is not in `rows`.
pub fn gathered_products(query: &GatherQuery, rows: &[i8], picked: &[u32], sums: &mut Vec<i32>) {
    products(best(), query, rows, picked, sums);
}

fn products(isa: Isa, query: &GatherQuery, rows: &[i8], picked: &[u32], sums: &mut Vec<i32>) {
    struct Products<'a>(&'a QueryBytes, &'a [i8], &'a [u32], &'a mut Vec<i32>);
    impl RowTask for Products<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: RowDots>(self) {
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
    isa.run_rows(Products(&query.0, rows, picked, sums));
}

/// Computes the inner products of `query` with the quantized `rows` `[sums, dim]`, row after row, into `sums`.
pub fn scanned_products(query: &GatherQuery, rows: &[i8], sums: &mut [i32]) {
    scan(best(), query, rows, sums);
}

fn scan(isa: Isa, query: &GatherQuery, rows: &[i8], sums: &mut [i32]) {
    struct Products<'a>(&'a QueryBytes, &'a [i8], &'a mut [i32]);
    impl RowTask for Products<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: RowDots>(self) {
            let Self(query, rows, sums) = self;
            let dim = query.len();
            let (fours, rest) = sums.as_chunks_mut::<ROWS>();
            let mut blocks = rows.chunks_exact(ROWS * dim);
            for (four, block) in fours.iter_mut().zip(&mut blocks) {
                *four = D::dots(query, [0, 1, 2, 3].map(|row| &block[row * dim..][..dim]));
            }
            let last = blocks.remainder().chunks_exact(dim);
            rest.iter_mut().zip(last).for_each(|(sum, row)| *sum = D::dot(query, row));
        }
    }
    debug_assert_eq!(rows.len(), sums.len() * query.0.len());
    isa.run_rows(Products(&query.0, rows, sums));
}

/// Returns the inner product of two quantized rows.
pub fn row_product(a: &[i8], b: &[i8]) -> i32 {
    product(best(), a, b)
}

fn product(isa: Isa, a: &[i8], b: &[i8]) -> i32 {
    struct Product<'a>(&'a [i8], &'a [i8]);
    impl RowTask for Product<'_> {
        type Output = i32;
        #[inline(always)]
        fn run<D: RowDots>(self) -> i32 {
            D::between(self.0, self.1)
        }
    }
    isa.run_rows(Product(a, b))
}

#[cfg(test)]
mod tests {
    use super::super::i8::quantize_row;
    use super::*;

    fn vector(len: usize, step: f32) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * step).sin()).collect()
    }

    fn sum(a: &[i64], b: &[i8]) -> i32 {
        a.iter().zip(b).map(|(a, b)| a * i64::from(*b)).sum::<i64>().try_into().unwrap()
    }

    #[test]
    fn every_instruction_set_gives_the_whole_sums_of_rows_in_any_order() {
        for dim in [1, 3, 63, 64, 65, 100, 128, 768, 1000] {
            let count = 11;
            let mut codes = vec![0; dim * count];
            for (row, codes) in codes.chunks_exact_mut(dim).enumerate() {
                quantize_row(&vector(dim, 0.7 + row as f32), codes);
            }
            let row = |row: u32| &codes[row as usize * dim..][..dim];
            let picked = [8, 0, 3, 3, 1, 7, 10, 2, 9];
            let (values, mut question, mut of_row) =
                (vector(dim, 0.3), GatherQuery::default(), GatherQuery::default());
            question.set(&values);
            of_row.set_row(row(5));
            let (_, inverse) = scale(&values, limit(dim));
            let numbers: Vec<i64> = values.iter().map(|value| i64::from(whole(value * inverse))).collect();
            let of_five: Vec<i64> = row(5).iter().map(|code| i64::from(*code)).collect();
            for isa in Isa::available() {
                for picked in [0, 1, 3, 4, 5, 9].map(|most| &picked[..most]) {
                    for (query, numbers) in [(&question, &numbers), (&of_row, &of_five)] {
                        let mut sums = vec![7];
                        products(isa, query, &codes, picked, &mut sums);
                        let expected = picked.iter().map(|picked| sum(numbers, row(*picked)));
                        assert_eq!(sums, expected.collect::<Vec<_>>(), "{dim} {isa:?}");
                    }
                }
                assert_eq!(product(isa, row(5), row(2)), sum(&of_five, row(2)), "{dim} {isa:?}");
                for most in [0, 1, 4, 7, count] {
                    let mut sums = vec![7; most];
                    scan(isa, &question, &codes[..most * dim], &mut sums);
                    let expected = (0..most as u32).map(|each| sum(&numbers, row(each)));
                    assert_eq!(sums, expected.collect::<Vec<_>>(), "{dim} {isa:?}");
                }
            }
        }
    }

    #[test]
    fn the_greatest_numbers_do_not_overflow() {
        for len in [1, 64, 500, 768, 8192] {
            for (value, code) in [(-5.0, -127), (-5.0, 127), (5.0, -127), (5.0, 127), (5.0, -128)] {
                let (mut query, rows) = (GatherQuery::default(), vec![code; 4 * len]);
                let step = query.set(&vec![value; len]);
                for isa in Isa::available() {
                    let mut sums = Vec::new();
                    products(isa, &query, &rows, &[0, 3, 2, 1, 0], &mut sums);
                    let mut of_all = vec![0; 4];
                    scan(isa, &query, &rows, &mut of_all);
                    sums.extend(of_all);
                    let expected = f64::from(value) * f64::from(code) * len as f64;
                    for sum in sums {
                        let score = f64::from(sum) * f64::from(step);
                        assert!((score / expected - 1.0).abs() < 1e-3, "{len} {code} {isa:?}: {score}");
                    }
                    let expected = i32::from(code) * i32::from(code) * len as i32;
                    assert_eq!(product(isa, &rows[..len], &rows[len..2 * len]), expected);
                }
            }
            let (mut query, mut sums) = (GatherQuery::default(), Vec::new());
            assert_eq!(query.set(&vec![0.0; len]), 0.0);
            gathered_products(&query, &vec![127; len], &[0], &mut sums);
            assert_eq!(sums, [0]);
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_row_that_is_not_there_is_not_read() {
        let mut query = GatherQuery::default();
        query.set_row(&[1; 100]);
        gathered_products(&query, &[1; 250], &[1, 0, 1, 0, 2], &mut Vec::new());
    }
}
