//! Kernels of polynomial rings: number-theoretic transforms, and the two products that a private search is made of.
//!
//! All arithmetic is of whole numbers, so every instruction set gives the same result. No branch and no address depends
//! on the numbers.

#[cfg(target_arch = "x86_64")]
mod vnni;

use super::isa::{Isa, best, vectorised};

/// Coefficients of a polynomial that are summed at once: their 64-bit sums fill the vector registers.
pub const CHUNK: usize = 64;

/// Columns of a byte table that are multiplied at once, so that the queries' part of them stays in the cache.
const TILE: usize = 2048;

/// Products that [`multiply_transforms`] may add up: with a modulus below 2^28 their sum stays below 2^64.
pub const MAX_PRODUCTS: usize = 256;

/// The negacyclic number-theoretic transform of `Z_p[X]/(X^n + 1)`: products of polynomials become products of
/// numbers.
///
/// The butterflies are those of Longa and Naehrig (2016), with Shoup's multiplication by constants.
#[derive(Debug)]
pub struct Ntt {
    modulus: u32,
    /// Powers of a primitive `2 n`-th root of one in bit-reversed order, each with its Shoup quotient.
    roots: Vec<(u32, u32)>,
    inverse_roots: Vec<(u32, u32)>,
    degree_inverse: (u32, u32),
}

impl Ntt {
    /// Makes the tables for `degree` coefficients modulo the prime `modulus`; `None` unless `degree` is a power of two
    /// above 1, `modulus` is below 2^31 and twice the degree divides `modulus - 1`.
    pub fn new(modulus: u32, degree: usize) -> Option<Self> {
        let two_n = u32::try_from(degree.checked_mul(2)?).ok()?;
        if !degree.is_power_of_two() || degree < 2 || modulus >= 1 << 31 || modulus % two_n != 1 {
            return None;
        }
        // A power x^((p-1)/2n) is a primitive 2n-th root exactly when its n-th power is -1.
        let is_root = |root: &u32| power(*root, degree as u32, modulus) == modulus - 1;
        let root =
            (2..1000).map(|base| power(base, (modulus - 1) / two_n, modulus)).find(|root| is_root(root))?;
        let inverse = power(root, modulus - 2, modulus);
        let bits = degree.trailing_zeros();
        let table = |root: u32| -> Vec<(u32, u32)> {
            let exponent = |at: usize| (at as u32).reverse_bits() >> (32 - bits);
            (0..degree).map(|at| with_quotient(power(root, exponent(at), modulus), modulus)).collect()
        };
        let degree_inverse = with_quotient(power(degree as u32, modulus - 2, modulus), modulus);
        Some(Self { modulus, roots: table(root), inverse_roots: table(inverse), degree_inverse })
    }

    /// Returns the prime.
    pub fn modulus(&self) -> u32 {
        self.modulus
    }

    /// Returns the number of coefficients.
    pub fn degree(&self) -> usize {
        self.roots.len()
    }

    /// Transforms coefficients `[degree]` below the modulus, in place.
    ///
    /// # Panics
    /// When `values` has another length.
    pub fn forward(&self, values: &mut [u32]) {
        self.forward_on(best(), values);
    }

    /// Transforms back, in place.
    ///
    /// # Panics
    /// When `values` has another length.
    pub fn inverse(&self, values: &mut [u32]) {
        self.inverse_on(best(), values);
    }

    /// Multiplies `values` by `others`, number by number.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn multiply(&self, values: &mut [u32], others: &[u32]) {
        assert_eq!(values.len(), others.len(), "transforms of one ring have one length");
        let modulus = u64::from(self.modulus);
        for (value, other) in values.iter_mut().zip(others) {
            *value = (u64::from(*value) * u64::from(*other) % modulus) as u32;
        }
    }

    fn forward_on(&self, isa: Isa, values: &mut [u32]) {
        assert_eq!(values.len(), self.degree(), "a polynomial of this ring");
        let (roots, modulus) = (&self.roots[..], self.modulus);
        vectorised!(isa, |values: &mut [u32], roots: &[(u32, u32)], modulus: u32| {
            let (mut half, mut groups) = (values.len() / 2, 1);
            while half > 0 {
                for (group, root) in values.chunks_exact_mut(2 * half).zip(&roots[groups..2 * groups]) {
                    let (low, high) = group.split_at_mut(half);
                    for (low, high) in low.iter_mut().zip(high) {
                        let turned = times(*high, *root, modulus);
                        let before = *low;
                        *low = sum(before, turned, modulus);
                        *high = difference(before, turned, modulus);
                    }
                }
                half /= 2;
                groups *= 2;
            }
        });
    }

    fn inverse_on(&self, isa: Isa, values: &mut [u32]) {
        assert_eq!(values.len(), self.degree(), "a polynomial of this ring");
        let (roots, modulus, last) = (&self.inverse_roots[..], self.modulus, self.degree_inverse);
        vectorised!(isa, |values: &mut [u32], roots: &[(u32, u32)], modulus: u32, last: (u32, u32)| {
            let (mut half, mut groups) = (1, values.len() / 2);
            while groups > 0 {
                for (group, root) in values.chunks_exact_mut(2 * half).zip(&roots[groups..2 * groups]) {
                    let (low, high) = group.split_at_mut(half);
                    for (low, high) in low.iter_mut().zip(high) {
                        let (before, other) = (*low, *high);
                        *low = sum(before, other, modulus);
                        *high = times(difference(before, other, modulus), *root, modulus);
                    }
                }
                half *= 2;
                groups /= 2;
            }
            for value in values {
                *value = times(*value, last, modulus);
            }
        });
    }
}

fn power(base: u32, mut exponent: u32, modulus: u32) -> u32 {
    let (modulus, mut base, mut result) = (u64::from(modulus), u64::from(base), 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % modulus;
        }
        base = base * base % modulus;
        exponent >>= 1;
    }
    result as u32
}

/// Returns a constant with the quotient by which [`times`] reduces.
fn with_quotient(constant: u32, modulus: u32) -> (u32, u32) {
    (constant, ((u64::from(constant) << 32) / u64::from(modulus)) as u32)
}

#[inline(always)]
fn times(value: u32, (constant, quotient): (u32, u32), modulus: u32) -> u32 {
    let whole = ((u64::from(value) * u64::from(quotient)) >> 32) as u32;
    let rest = value.wrapping_mul(constant).wrapping_sub(whole.wrapping_mul(modulus));
    rest.min(rest.wrapping_sub(modulus))
}

#[inline(always)]
fn sum(a: u32, b: u32, modulus: u32) -> u32 {
    let sum = a + b;
    sum.min(sum.wrapping_sub(modulus))
}

#[inline(always)]
fn difference(a: u32, b: u32, modulus: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    difference.min(difference.wrapping_add(modulus))
}

/// Computes the sums over `i` of `table[i] * question[i]`, number by number, modulo `modulus`, for each question.
///
/// `table` and each question are `[products, degree]` of numbers below the modulus, which is below 2^28; `sums` is
/// `[questions, degree]`. The table is read once for all questions.
///
/// # Panics
/// When the lengths do not agree, `degree` is not a multiple of 64, or there are more than [`MAX_PRODUCTS`] products.
pub fn multiply_transforms(
    table: &[u32],
    questions: &[&[u32]],
    degree: usize,
    modulus: u32,
    sums: &mut [u32],
) {
    multiply_transforms_on(best(), table, questions, degree, modulus, sums);
}

fn multiply_transforms_on(
    isa: Isa,
    table: &[u32],
    questions: &[&[u32]],
    degree: usize,
    modulus: u32,
    sums: &mut [u32],
) {
    assert!(degree > 0 && degree.is_multiple_of(CHUNK), "whole chunks of coefficients");
    assert!(table.len().is_multiple_of(degree) && table.len() / degree <= MAX_PRODUCTS, "so many products");
    assert!(questions.iter().all(|question| question.len() == table.len()), "one length");
    assert_eq!(sums.len(), questions.len() * degree, "a polynomial for each question");
    vectorised!(isa, |table: &[u32], questions: &[&[u32]], degree: usize, modulus: u32, sums: &mut [u32]| {
        for chunk in (0..degree).step_by(CHUNK) {
            for (question, sums) in questions.iter().zip(sums.chunks_exact_mut(degree)) {
                let mut totals = [0u64; CHUNK];
                for (row, numbers) in table.chunks_exact(degree).zip(question.chunks_exact(degree)) {
                    let (row, numbers) = (&row[chunk..chunk + CHUNK], &numbers[chunk..chunk + CHUNK]);
                    for ((total, a), b) in totals.iter_mut().zip(row).zip(numbers) {
                        *total += u64::from(*a) * u64::from(*b);
                    }
                }
                for (sum, total) in sums[chunk..chunk + CHUNK].iter_mut().zip(totals) {
                    *sum = (total % u64::from(modulus)) as u32;
                }
            }
        }
    });
}

/// Adds the inner products of every row of `table` `[rows, columns]` with each query `[columns]` to `sums`
/// `[queries, rows]`, modulo 2^32. The table is read once for all queries.
///
/// # Panics
/// When the lengths do not agree, or `columns` is not a multiple of 2,048.
pub fn multiply_bytes(table: &[i8], queries: &[&[u32]], sums: &mut [u32]) {
    multiply_bytes_on(best(), table, queries, sums);
}

fn multiply_bytes_on(isa: Isa, table: &[i8], queries: &[&[u32]], sums: &mut [u32]) {
    let Some(columns) = queries.first().map(|query| query.len()) else { return };
    assert!(columns > 0 && columns.is_multiple_of(TILE), "whole tiles of columns");
    assert!(queries.iter().all(|query| query.len() == columns), "one length");
    let rows = table.len() / columns;
    assert_eq!((table.len(), sums.len()), (rows * columns, queries.len() * rows), "a sum for each row");
    #[cfg(target_arch = "x86_64")]
    if vnni::multiply_bytes(isa, table, queries, sums) {
        return;
    }
    vectorised!(isa, |table: &[i8], queries: &[&[u32]], sums: &mut [u32], rows: usize, columns: usize| {
        for tile in (0..columns).step_by(TILE) {
            for (row, bytes) in table.chunks_exact(columns).enumerate() {
                let bytes = &bytes[tile..tile + TILE];
                for (query, sums) in queries.iter().zip(sums.chunks_exact_mut(rows)) {
                    let product = product(&query[tile..tile + TILE], bytes);
                    sums[row] = sums[row].wrapping_add(product);
                }
            }
        }
    });
}

/// Returns the inner product by one plain sum, which the compiler spreads over the vector registers.
#[inline(always)]
fn product(query: &[u32], bytes: &[i8]) -> u32 {
    query
        .iter()
        .zip(bytes)
        .fold(0u32, |sum, (number, byte)| sum.wrapping_add(number.wrapping_mul(i32::from(*byte) as u32)))
}

/// Returns the inner product of `numbers` with `signs` of the same length, which are -1, 0 or 1, modulo 2^32.
///
/// # Panics
/// When the lengths differ.
pub fn multiply_signs(numbers: &[u16], signs: &[i32]) -> u32 {
    multiply_signs_on(best(), numbers, signs)
}

fn multiply_signs_on(isa: Isa, numbers: &[u16], signs: &[i32]) -> u32 {
    assert_eq!(numbers.len(), signs.len(), "one length");
    vectorised!(isa, |numbers: &[u16], signs: &[i32]| -> u32 {
        numbers.iter().zip(signs).fold(0u32, |sum, (number, sign)| {
            // A product and not a choice: the time must not tell the sign.
            sum.wrapping_add(u32::from(*number).wrapping_mul(*sign as u32))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    const PRIMES: [(u32, usize); 4] =
        [(268_369_921, 1024), (268_369_921, 2048), (2_013_265_921, 2048), (998_244_353, 2048)];

    fn numbers(count: usize, below: u32, seed: u64) -> Vec<u32> {
        let mut random = SplitMix::new(seed);
        (0..count).map(|_| random.below(below as usize) as u32).collect()
    }

    /// The product in `Z_p[X]/(X^n + 1)`, term by term.
    fn schoolbook(a: &[u32], b: &[u32], modulus: u32) -> Vec<u32> {
        let (n, modulus) = (a.len(), u64::from(modulus));
        let mut product = vec![0u64; n];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let term = u64::from(*a) * u64::from(*b) % modulus;
                let at = &mut product[(i + j) % n];
                *at = if i + j < n { *at + term } else { *at + modulus - term } % modulus;
            }
        }
        product.into_iter().map(|value| value as u32).collect()
    }

    #[test]
    fn products_of_polynomials_are_those_of_the_schoolbook_on_every_instruction_set() {
        for (modulus, degree) in PRIMES {
            let ntt = Ntt::new(modulus, degree).unwrap();
            let largest = vec![modulus - 1; degree];
            let (a, b) = (numbers(degree, modulus, 1), numbers(degree, modulus, 2));
            for (a, b) in [(&a, &b), (&largest, &largest), (&a, &largest)] {
                let expected = schoolbook(a, b, modulus);
                for isa in Isa::available() {
                    let (mut product, mut other) = (a.clone(), b.clone());
                    ntt.forward_on(isa, &mut product);
                    ntt.forward_on(isa, &mut other);
                    ntt.multiply(&mut product, &other);
                    ntt.inverse_on(isa, &mut product);
                    assert_eq!(product, expected, "{modulus} {degree} {isa:?}");
                }
            }
        }
    }

    #[test]
    fn a_modulus_or_degree_without_a_root_is_refused() {
        for (modulus, degree) in
            [(268_369_921, 1000), (268_369_921, 1), (7681, 1024), (u32::MAX, 1024), (0, 4)]
        {
            assert!(Ntt::new(modulus, degree).is_none(), "{modulus} {degree}");
        }
    }

    #[test]
    fn the_greatest_sums_of_transforms_are_exact_on_every_instruction_set() {
        let (modulus, degree) = (268_369_921, 1024);
        for products in [1, 32, MAX_PRODUCTS] {
            let table = vec![modulus - 1; products * degree];
            let random = numbers(products * degree, modulus, 5);
            let questions = [table.as_slice(), &random, &table];
            let exact = |question: &[u32]| -> Vec<u32> {
                let at = |at: usize| {
                    let terms = (0..products)
                        .map(|i| u128::from(table[i * degree + at]) * u128::from(question[i * degree + at]));
                    (terms.sum::<u128>() % u128::from(modulus)) as u32
                };
                (0..degree).map(at).collect()
            };
            let expected: Vec<u32> = questions.iter().flat_map(|question| exact(question)).collect();
            for isa in Isa::available() {
                let mut sums = vec![7; 3 * degree];
                multiply_transforms_on(isa, &table, &questions, degree, modulus, &mut sums);
                assert!(sums == expected, "{products} {isa:?}");
            }
        }
    }

    #[test]
    fn products_of_bytes_are_plain_sums_on_every_instruction_set_for_any_number_of_queries() {
        // Four rows at once and three, a whole wide tile of columns and a part of one.
        let (rows, columns) = (7, 5 * TILE);
        let mut random = SplitMix::new(3);
        let mut table: Vec<i8> = (0..rows * columns).map(|_| random.bits() as i8).collect();
        table[..columns].fill(i8::MIN);
        table[columns..2 * columns].fill(i8::MAX);
        for count in [1, 2, 3, 4, 5, 6, 11] {
            let queries: Vec<Vec<u32>> =
                (0..count).map(|_| (0..columns).map(|_| random.bits() as u32).collect()).collect();
            let queries: Vec<&[u32]> = queries.iter().map(Vec::as_slice).collect();
            let plain = |query: &[u32], row: usize| {
                table[row * columns..][..columns]
                    .iter()
                    .zip(query)
                    .fold(0u32, |sum, (a, b)| sum.wrapping_add((i32::from(*a) as u32).wrapping_mul(*b)))
            };
            let expected: Vec<u32> =
                queries.iter().flat_map(|query| (0..rows).map(|row| plain(query, row))).collect();
            for isa in Isa::available() {
                let mut sums = vec![0; count * rows];
                multiply_bytes_on(isa, &table, &queries, &mut sums);
                assert_eq!(sums, expected, "{count} {isa:?}");
            }
        }
    }

    #[test]
    fn products_with_signs_are_plain_sums_on_every_instruction_set() {
        let mut random = SplitMix::new(9);
        let values: Vec<u16> = (0..2048).map(|_| random.bits() as u16).collect();
        let signs: Vec<i32> = (0..2048).map(|_| random.below(3) as i32 - 1).collect();
        let plain: i64 = values.iter().zip(&signs).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        for isa in Isa::available() {
            assert_eq!(multiply_signs_on(isa, &values, &signs), plain as u32, "{isa:?}");
        }
    }
}
