//! Binary vectors: the signs of a vector after a random rotation, one bit a number, and a scale (RaBitQ, Gao and Long
//! 2024): a thirty-second of the memory that a search reads.
//!
//! With the signs `s` (1 or -1) of a rotated row `o`, and the scale `|o|² / ⟨o, s⟩`, the scaled product `⟨q, s⟩` is an
//! estimate of `⟨q, o⟩` that is off by about `|q| |o| / √dim`. The rotation makes that so for every row, whatever its
//! directions. A query is rotated alike and rounded to four bits: the products are whole numbers, the same on every
//! instruction set.

use super::super::dot::{BLOCK, RowDots, SignBlock};
use super::super::isa::{Isa, RowTask, best, vectorised};
use super::i8::{greatest, whole};
use crate::random::SplitMix;

/// Rounds of a rotation: signs, then Hadamard transforms.
const ROUNDS: usize = 3;

/// The greatest magnitude of a query's number.
const QUERY_LIMIT: f32 = 7.0;

/// Rows whose products are computed at a time.
const ROWS: usize = 4;

/// Key of the signs of a rotation. With the sizes it is part of the format of files.
const SIGNS: u64 = 0x0b17;

/// Returns the number of words of 64 bits that a row of `dim` numbers takes.
pub fn words(dim: usize) -> usize {
    dim.div_ceil(BLOCK)
}

/// A random rotation of vectors of one size, the same in every program: three rounds, each of random signs and then
/// Hadamard transforms of the first and the last `2^n` numbers, as many as there are.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// `[ROUNDS, dim]`: 1 or -1.
    signs: Vec<f32>,
    dim: usize,
    /// Numbers of a transform.
    block: usize,
}

impl Rotation {
    /// Makes the rotation of vectors of `dim` numbers.
    pub fn new(dim: usize) -> Self {
        let block = if dim == 0 { 0 } else { 1 << dim.ilog2() };
        let mut random = SplitMix::keyed(&[SIGNS, dim as u64]);
        let signs = (0..ROUNDS * dim).map(|_| if random.bits() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
        Self { signs, dim, block }
    }

    /// Rotates `values` (`[dim]`).
    #[inline(always)]
    fn turn(&self, values: &mut [f32]) {
        let block = self.block;
        for signs in self.signs.chunks_exact(values.len()) {
            values.iter_mut().zip(signs).for_each(|(value, sign)| *value *= sign);
            // A transform makes its numbers longer by the square root of their number.
            let shorter = 1.0 / (block as f32).sqrt();
            let last = values.len() - block;
            for start in if last == 0 { 0..1 } else { 0..2 } {
                let part = &mut values[start * last..][..block];
                hadamard(part);
                part.iter_mut().for_each(|value| *value *= shorter);
            }
        }
    }
}

/// Numbers of a vector that are computed side by side.
const LANES: usize = 8;

const _: () = assert!(LANES == 8, "hadamard has a stage within lanes for each power of two below 8");

/// Transforms `values`, a power of two of them, by the Hadamard matrix of 1 and -1.
#[inline(always)]
fn hadamard(values: &mut [f32]) {
    if values.len() < LANES {
        return transform(values, |a, b| (a + b, a - b));
    }
    let lanes = values.as_chunks_mut::<LANES>().0;
    // The first stages combine numbers of one vector, the others whole vectors.
    for lanes in &mut *lanes {
        *lanes = within::<4>(within::<2>(within::<1>(*lanes)));
    }
    transform(lanes, |a, b| {
        (std::array::from_fn(|at| a[at] + b[at]), std::array::from_fn(|at| a[at] - b[at]))
    });
}

/// Returns the sums and differences of numbers that are `HALF` places from each other, a stage of a transform.
#[inline(always)]
fn within<const HALF: usize>(lanes: [f32; LANES]) -> [f32; LANES] {
    std::array::from_fn(|at| match at & HALF {
        0 => lanes[at] + lanes[at | HALF],
        _ => lanes[at ^ HALF] - lanes[at],
    })
}

/// Replaces numbers, or vectors of them, a power of two, by their sums and differences in each stage of a transform.
#[inline(always)]
fn transform<T: Copy>(values: &mut [T], sum_and_difference: impl Fn(T, T) -> (T, T)) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = sum_and_difference(*a, *b);
            }
        }
        half *= 2;
    }
}

/// Divides `values` by the greatest magnitude among them and rotates them; returns that magnitude, 0 where all are 0.
#[inline(always)]
fn turn_scaled(rotation: &Rotation, values: &mut [f32]) -> f32 {
    debug_assert_eq!(values.len(), rotation.dim);
    let most = greatest(values);
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value /= most);
        rotation.turn(values);
    }
    most
}

/// Rotates `row` (`[dim]`, finite), writes its signs into `bits` (`[words(dim)]`), a set bit for a number that is not
/// negative, and returns the scale. What `row` holds then is of no use.
pub fn binarize_row(rotation: &Rotation, row: &mut [f32], bits: &mut [u64]) -> f32 {
    vectorised!(best(), |rotation: &Rotation, row: &mut [f32], bits: &mut [u64]| -> f32 {
        let most = turn_scaled(rotation, row);
        for (word, numbers) in bits.iter_mut().zip(row.chunks(BLOCK)) {
            *word = numbers.iter().rev().fold(0, |word, value| word << 1 | u64::from(*value >= 0.0));
        }
        let squared: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
        let along: f64 = row.iter().map(|value| f64::from(value.abs())).sum();
        if most == 0.0 || along == 0.0 {
            return 0.0;
        }
        (f64::from(most) * squared / along).min(f64::from(f32::MAX)) as f32
    })
}

/// A query in the form that binary rows are scored by.
#[derive(Clone, Debug, Default)]
pub struct BinaryQuery {
    blocks: Vec<SignBlock>,
    /// Sum of the numbers.
    total: i32,
    step: f32,
}

impl BinaryQuery {
    /// Rotates `query` (`[dim]`, finite) and rounds it to four bits.
    pub fn new(rotation: &Rotation, query: &[f32]) -> Self {
        let mut values = query.to_vec();
        let values = values.as_mut_slice();
        vectorised!(best(), |rotation: &Rotation, values: &mut [f32]| -> BinaryQuery {
            let unit = turn_scaled(rotation, values);
            let most = greatest(values);
            let scale = if most > 0.0 { QUERY_LIMIT / most } else { 0.0 };
            let step = f64::from(unit) * f64::from(most) / f64::from(QUERY_LIMIT);
            let step = step.min(f64::from(f32::MAX)) as f32;
            let mut query = BinaryQuery { step, ..BinaryQuery::default() };
            for values in values.chunks(BLOCK) {
                let mut numbers = [0; BLOCK];
                numbers
                    .iter_mut()
                    .zip(values)
                    .for_each(|(number, value)| *number = whole(value * scale) as i8);
                query.total += numbers.iter().map(|number| i32::from(*number)).sum::<i32>();
                query.blocks.push(SignBlock::new(numbers));
            }
            query
        })
    }

    /// Returns what a product is multiplied by, with the scale of its row, to estimate the inner product.
    pub fn step(&self) -> f32 {
        self.step
    }
}

/// Computes the products of `query` with binary `rows` (`[products, words]`), row after row: whole numbers, without the
/// scales of the rows and the query's step.
pub fn binary_products(query: &BinaryQuery, rows: &[u64], products: &mut [f32]) {
    debug_assert_eq!(rows.len(), products.len() * query.blocks.len());
    products_in_order(best(), query, rows, products);
}

fn products_in_order(isa: Isa, query: &BinaryQuery, rows: &[u64], products: &mut [f32]) {
    struct InOrder<'a>(&'a BinaryQuery, &'a [u64], &'a mut [f32]);
    impl RowTask for InOrder<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: RowDots>(self) {
            let Self(query, rows, products) = self;
            let words = query.blocks.len();
            let (fours, rest) = products.as_chunks_mut::<ROWS>();
            let (of_fours, of_rest) = rows.split_at(fours.len() * ROWS * words);
            for (products, rows) in fours.iter_mut().zip(of_fours.chunks_exact(ROWS * words)) {
                let rows = std::array::from_fn(|row| &rows[row * words..][..words]);
                let sums = D::sums_of_set(&query.blocks, rows);
                *products = sums.map(|sum| (2 * sum - query.total) as f32);
            }
            for (product, row) in rest.iter_mut().zip(of_rest.chunks_exact(words)) {
                *product = (2 * D::sum_of_set(&query.blocks, row) - query.total) as f32;
            }
        }
    }
    if !query.blocks.is_empty() {
        isa.run_rows(InOrder(query, rows, products));
    }
}

/// Replaces `products` by the products of `query` with the binary rows of `rows` `[any, words]` that `picked` names, as
/// [`binary_products`] computes them. Where the rows are far from each other, they should have been prefetched.
///
/// # Panics
/// When `picked` names a row that is not in `rows`.
pub fn gathered_binary_products(query: &BinaryQuery, rows: &[u64], picked: &[u32], products: &mut Vec<i32>) {
    products_at(best(), query, rows, picked, products);
}

fn products_at(isa: Isa, query: &BinaryQuery, rows: &[u64], picked: &[u32], products: &mut Vec<i32>) {
    struct At<'a>(&'a BinaryQuery, &'a [u64], &'a [u32], &'a mut Vec<i32>);
    impl RowTask for At<'_> {
        type Output = ();
        #[inline(always)]
        fn run<D: RowDots>(self) {
            let Self(query, rows, picked, products) = self;
            let words = query.blocks.len();
            let row = |row: u32| &rows[row as usize * words..][..words];
            let (fours, rest) = picked.as_chunks::<ROWS>();
            for four in fours {
                let sums = D::sums_of_set(&query.blocks, four.map(row));
                products.extend(sums.map(|sum| 2 * sum - query.total));
            }
            let sum = |row_at: &u32| 2 * D::sum_of_set(&query.blocks, row(*row_at)) - query.total;
            products.extend(rest.iter().map(sum));
        }
    }
    products.clear();
    isa.run_rows(At(query, rows, picked, products));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::isa::Isa;

    fn vector(len: usize, seed: u64) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        (0..len).map(|_| random.normal() as f32).collect()
    }

    fn product(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn a_rotation_keeps_lengths_and_angles_and_spreads_one_number_over_all() {
        for dim in [1, 2, 3, 64, 100, 384, 768, 1000] {
            let rotation = Rotation::new(dim);
            let (mut a, mut b) = (vector(dim, 1), vector(dim, 2));
            let before = [product(&a, &a), product(&a, &b)];
            rotation.turn(&mut a);
            rotation.turn(&mut b);
            let after = [product(&a, &a), product(&a, &b)];
            for (before, after) in before.iter().zip(after) {
                assert!((before - after).abs() < 1e-4 * dim as f64, "{dim}: {before} {after}");
            }
            let mut one = vec![0.0; dim];
            one[dim / 2] = 1.0;
            rotation.turn(&mut one);
            let most = one.iter().fold(0f32, |most, value| most.max(value.abs()));
            assert!(dim < 64 || most < 0.5, "{dim}: {most}");
        }
    }

    #[test]
    fn a_transform_rounds_as_one_stage_after_another_which_files_rely_on() {
        for len in [1, 2, 8, 32, 64, 128, 512] {
            let values = vector(len, 4);
            let (mut quick, mut plain) = (values.clone(), values);
            hadamard(&mut quick);
            let mut half = 1;
            while half < len {
                for first in (0..len).filter(|at| at & half == 0) {
                    let (a, b) = (plain[first], plain[first + half]);
                    (plain[first], plain[first + half]) = (a + b, a - b);
                }
                half *= 2;
            }
            assert_eq!(quick, plain, "{len}");
        }
    }

    #[test]
    fn the_scaled_product_estimates_the_inner_product() {
        let dim = 768;
        let rotation = Rotation::new(dim);
        let (mut off, mut count) = (0.0, 0.0);
        for seed in 0..50 {
            // A few directions hold most of the length, as in vectors of text.
            let spiky = |seed: u64| -> Vec<f32> {
                vector(dim, seed)
                    .iter()
                    .enumerate()
                    .map(|(at, v)| if at % 97 == 3 { v * 20.0 } else { *v })
                    .collect()
            };
            let (query, row) = (spiky(seed), spiky(seed + 1000));
            let (expected, lengths) =
                (product(&query, &row), (product(&query, &query) * product(&row, &row)).sqrt());
            let mut bits = vec![0; words(dim)];
            let scale = binarize_row(&rotation, &mut row.clone(), &mut bits);
            let planes = BinaryQuery::new(&rotation, &query);
            let mut found = [0.0];
            binary_products(&planes, &bits, &mut found);
            let estimate = f64::from(found[0] * scale * planes.step());
            off += ((estimate - expected) / lengths).powi(2);
            count += 1.0;
        }
        // Theory: sqrt((π/2 - 1) / 768) = 0.027 for rows without rounding of the query.
        let off = f64::sqrt(off / count);
        assert!((0.01..0.04).contains(&off), "{off}");
    }

    #[test]
    fn products_are_those_of_signs_and_numbers_on_every_instruction_set() {
        for dim in [1, 5, 63, 64, 65, 384, 768, 1000] {
            let rotation = Rotation::new(dim);
            let query = BinaryQuery::new(&rotation, &vector(dim, 7));
            let count = 7;
            let mut rows = vec![0; count * words(dim)];
            for (row, bits) in rows.chunks_exact_mut(words(dim)).enumerate() {
                binarize_row(&rotation, &mut vector(dim, 20 + row as u64), bits);
            }
            let number = |at: usize| {
                let bit = |plane: usize| (query.blocks[at / 64].planes[plane] >> (at % 64) & 1) as i32;
                bit(0) + 2 * bit(1) + 4 * bit(2) - 8 * bit(3)
            };
            assert_eq!(query.total, (0..dim).map(number).sum::<i32>());
            let expected: Vec<i32> = rows
                .chunks_exact(words(dim))
                .map(|row| {
                    let sign = |at: usize| if row[at / 64] >> (at % 64) & 1 == 1 { 1 } else { -1 };
                    (0..dim).map(|at| number(at) * sign(at)).sum()
                })
                .collect();
            for isa in Isa::available() {
                let mut found = vec![0.0; count];
                products_in_order(isa, &query, &rows, &mut found);
                assert_eq!(
                    found,
                    expected.iter().map(|sum| *sum as f32).collect::<Vec<_>>(),
                    "{dim} {isa:?}"
                );
                let picked = [6, 0, 3, 3, 5];
                let mut found = vec![9];
                products_at(isa, &query, &rows, &picked, &mut found);
                assert_eq!(found, picked.map(|row| expected[row as usize]), "{dim} {isa:?}");
                products_at(isa, &query, &rows, &[], &mut found);
                assert!(found.is_empty());
            }
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_row_that_is_not_there_is_not_read() {
        let query = BinaryQuery::new(&Rotation::new(100), &[1.0; 100]);
        gathered_binary_products(&query, &[1; 5], &[0, 1, 2], &mut Vec::new());
    }

    #[test]
    fn nothing_is_infinite_at_the_extremes_and_nothing_at_all_is_zero() {
        let rotation = Rotation::new(100);
        let mut bits = vec![0; words(100)];
        assert_eq!(binarize_row(&rotation, &mut [0.0; 100], &mut bits), 0.0);
        for size in [f32::MIN_POSITIVE, 1e-30, 1e30, f32::MAX] {
            let scale = binarize_row(&rotation, &mut [size; 100], &mut bits);
            assert!(scale > 0.0 && scale.is_finite(), "{size}: {scale}");
            let mut found = [0.0];
            let query = BinaryQuery::new(&rotation, &[size; 100]);
            binary_products(&query, &bits, &mut found);
            assert!(found[0] > 0.0, "{size}: {}", found[0]);
            assert!(query.step() > 0.0 && query.step().is_finite(), "{size}: {}", query.step());
        }
        let mut found = [1.0];
        binary_products(&BinaryQuery::new(&rotation, &[0.0; 100]), &bits, &mut found);
        assert_eq!(found, [0.0]);
    }
}
