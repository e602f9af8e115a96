//! Dot products of packed words for processors without AVX-512 BF16 or AVX-512 VNNI: the bf16 numbers and the 8-bit
//! weights of a word are widened, then multiplied.

use std::marker::PhantomData;

use super::super::vector::{Portable, Simd};
use super::{Dot, WholeDot};

/// Returns the nearest bf16, of two equally near ones the even one, as `half` and PyTorch do; compilers vectorise this
/// function. An infinity stays one, and a NaN stays a NaN.
#[inline(always)]
pub(in super::super) fn to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if x.is_nan() { bits >> 16 | 0x40 } else { rounded }
}

/// Sets words to numbers in bf16, two a word, the first in the low half.
#[inline(always)]
pub(in super::super) fn set_words(numbers: &[f32], words: &mut [u32]) {
    let (pairs, odd) = numbers.as_chunks::<2>();
    for (word, [low, high]) in words.iter_mut().zip(pairs) {
        *word = to_bf16(*low) | to_bf16(*high) << 16;
    }
    if let ([last], Some(word)) = (odd, words.get_mut(pairs.len())) {
        *word = to_bf16(*last);
    }
}

/// Returns words of four numbers each, with zeros beyond the last one.
pub(in super::super) fn byte_words(numbers: &[i8]) -> impl Iterator<Item = u32> {
    let join = |word, number: &i8| word << 8 | u32::from(number.cast_unsigned());
    numbers.chunks(4).map(move |numbers| numbers.iter().rev().fold(0, join))
}

/// Puts the low pairs of a line of words of four bytes before the high pairs, as a [`WholeDot`] of two parts reads them.
pub(in super::super) fn split_pairs(line: &mut [u32]) {
    let pairs = |shift: u32| line.iter().map(move |word| word >> shift & 0xffff);
    let all: Vec<u32> = pairs(0).chain(pairs(16)).collect();
    for (word, pair) in line.iter_mut().zip(all.as_chunks().0) {
        let [low, high] = pair;
        *word = low | high << 16;
    }
}

/// Vectors of words.
pub(in super::super) trait Words: Simd {
    /// A vector of `Simd::LANES` words.
    type W: Copy;
    /// Returns `x` in every lane.
    fn splat_word(x: u32) -> Self::W;
    /// Returns the words from `at * LANES` on.
    fn load_words(from: &[u32], at: usize) -> Self::W;
    /// Sets the words from `at * LANES` on.
    fn store_words(words: Self::W, to: &mut [u32], at: usize);
    /// Returns the low and the high half of every word, in bf16, as single precision.
    fn widen_halves(words: Self::W) -> [Self::V; 2];
    /// Returns the pairs of bytes with a sign in half a vector of words, that from `at * LANES / 2` on, as words of two
    /// 16-bit numbers.
    fn widen_pairs(from: &[u32], at: usize) -> Self::W;
    /// Adds the products of two pairs of signed 16-bit numbers to the 32-bit sum of each lane.
    fn add_pairs(sums: Self::W, a: Self::W, b: Self::W) -> Self::W;
    /// Returns signed 32-bit sums as single precision.
    fn to_single(sums: Self::W) -> Self::V;
}

/// Products of two numbers in bf16, with sums in single precision.
pub(in super::super) struct Bf16<S>(PhantomData<S>);

impl<S: Words> Dot for Bf16<S> {
    type Number = u32;
    type V = S::V;
    type Input = [S::V; 2];
    const LANES: usize = S::LANES;
    #[inline(always)]
    fn zero() -> S::V {
        S::splat(0.0)
    }
    #[inline(always)]
    fn input(x: u32) -> [S::V; 2] {
        S::widen_halves(S::splat_word(x))
    }
    #[inline(always)]
    fn add(sums: S::V, input: [S::V; 2], weights: &[u32], at: usize) -> S::V {
        let weights = S::widen_halves(S::load_words(weights, at));
        // The order of the instruction `vdpbf16ps`.
        S::mul_add(input[0], weights[0], S::mul_add(input[1], weights[1], sums))
    }
    #[inline(always)]
    fn store(sums: S::V, to: &mut [f32], at: usize) {
        S::store(sums, to, at);
    }
}

/// Products of two inputs and two weights in 16 bits each. The weights are widened.
pub(in super::super) struct Shorts<S>(PhantomData<S>);

impl<S: Words> WholeDot for Shorts<S> {
    type Single = S;
    type V = S::W;
    type Input = S::W;
    const LANES: usize = S::LANES;
    const PARTS: usize = 2;
    #[inline(always)]
    fn zero() -> S::W {
        S::splat_word(0)
    }
    #[inline(always)]
    fn input(word: u32) -> S::W {
        S::splat_word(word)
    }
    #[inline(always)]
    fn add(sums: S::W, input: S::W, line: &[u32], part: usize, at: usize) -> S::W {
        S::add_pairs(sums, input, S::widen_pairs(line, part * (line.len() / S::LANES) + at))
    }
    #[inline(always)]
    fn to_single(sums: S::W) -> S::V {
        S::to_single(sums)
    }
    #[inline(always)]
    fn load_sums(from: &[u32], at: usize) -> S::W {
        S::load_words(from, at)
    }
    #[inline(always)]
    fn store_sums(sums: S::W, to: &mut [u32], at: usize) {
        S::store_words(sums, to, at);
    }
}

impl Words for Portable {
    type W = [u32; 4];
    #[inline(always)]
    fn splat_word(x: u32) -> [u32; 4] {
        [x; 4]
    }
    #[inline(always)]
    fn load_words(from: &[u32], at: usize) -> [u32; 4] {
        from.as_chunks().0[at]
    }
    #[inline(always)]
    fn store_words(words: [u32; 4], to: &mut [u32], at: usize) {
        to.as_chunks_mut().0[at] = words;
    }
    #[inline(always)]
    fn widen_halves(words: [u32; 4]) -> [[f32; 4]; 2] {
        [words.map(|word| f32::from_bits(word << 16)), words.map(|word| f32::from_bits(word & 0xffff_0000))]
    }
    #[inline(always)]
    fn widen_pairs(from: &[u32], at: usize) -> [u32; 4] {
        let pair = |bytes: u32| {
            let [low, high, ..] =
                bytes.to_le_bytes().map(|byte| i16::from(byte.cast_signed()).cast_unsigned());
            u32::from(low) | u32::from(high) << 16
        };
        let [low, high]: [u32; 2] = from.as_chunks().0[at];
        [low, low >> 16, high, high >> 16].map(pair)
    }
    #[inline(always)]
    fn add_pairs(sums: [u32; 4], a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        let signed_pair = |word: u32| [i32::from(word as i16), word as i32 >> 16];
        std::array::from_fn(|i| {
            let ([a0, a1], [b0, b1]) = (signed_pair(a[i]), signed_pair(b[i]));
            (sums[i] as i32).wrapping_add(a0 * b0).wrapping_add(a1 * b1) as u32
        })
    }
    #[inline(always)]
    fn to_single(sums: [u32; 4]) -> [f32; 4] {
        sums.map(|sum| sum as i32 as f32)
    }
}
