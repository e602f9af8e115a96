//! The multiplications at the heart of a matrix product: of single precision, and of narrower numbers in words of 32
//! bits.
//!
//! A word holds two numbers in bf16 or four in 8 bits, the first in the lowest bits. A lane multiplies a word of inputs
//! with a word of weights and adds the products to its sum. Processors with AVX-512 BF16 or AVX-512 VNNI do this by one
//! instruction; elsewhere the weights of a word are widened first, and inputs in 8 bits are in words of two.

use std::marker::PhantomData;

use super::vector::Simd;

/// A multiplication of inputs with a vector of weights, into sums in registers.
pub(super) trait Dot {
    /// The type in which an input and a weight are stored.
    type Number: Copy + Default;
    /// A vector of sums.
    type V: Copy;
    /// An input in every lane.
    type Input: Copy;
    /// Sums in a vector.
    const LANES: usize;
    /// Sums of 0.
    fn zero() -> Self::V;
    /// Returns `x` in every lane.
    fn input(x: Self::Number) -> Self::Input;
    /// Adds the products of `input` with the weights from `at * LANES` on to the sums.
    fn add(sums: Self::V, input: Self::Input, weights: &[Self::Number], at: usize) -> Self::V;
    /// Sets the numbers from `at * LANES` on to the sums.
    fn store(sums: Self::V, to: &mut [f32], at: usize);
}

/// A multiplication of inputs in 8 bits without a sign with weights in 8 bits with one, whose sums are whole numbers of 32
/// bits in two's complement, the same on every instruction set.
///
/// A line of weights has a word of four for each output; where there are two [`PARTS`](Self::PARTS), in the order of
/// [`split_pairs`].
#[cfg(not(target_arch = "wasm32"))]
pub(super) trait WholeDot {
    /// Vectors of as many numbers in single precision.
    type Single: Simd;
    /// A vector of sums.
    type V: Copy;
    /// A word of inputs in every lane.
    type Input: Copy;
    /// Sums in a vector.
    const LANES: usize;
    /// Words of inputs for a line of weights: one of four inputs in 8 bits each, or two of two inputs in 16 bits each.
    const PARTS: usize;
    /// Returns sums of 0.
    fn zero() -> Self::V;
    /// Returns a word of inputs in every lane.
    fn input(word: u32) -> Self::Input;
    /// Adds the products of `input`, word `part` of those for a line, with the line's weights of the outputs from
    /// `at * LANES` on to the sums.
    fn add(sums: Self::V, input: Self::Input, line: &[u32], part: usize, at: usize) -> Self::V;
    /// Returns the sums in single precision, their bits read with a sign.
    fn to_single(sums: Self::V) -> <Self::Single as Simd>::V;
    /// Returns the sums from `at * LANES` on.
    fn load_sums(from: &[u32], at: usize) -> Self::V;
    /// Sets the numbers from `at * LANES` on to the sums.
    fn store_sums(sums: Self::V, to: &mut [u32], at: usize);
}

/// Products in single precision.
pub(super) struct Single<S>(PhantomData<S>);

impl<S: Simd> Dot for Single<S> {
    type Number = f32;
    type V = S::V;
    type Input = S::V;
    const LANES: usize = S::LANES;
    #[inline(always)]
    fn zero() -> S::V {
        S::splat(0.0)
    }
    #[inline(always)]
    fn input(x: f32) -> S::V {
        S::splat(x)
    }
    #[inline(always)]
    fn add(sums: S::V, input: S::V, weights: &[f32], at: usize) -> S::V {
        S::mul_add(input, S::load(weights, at), sums)
    }
    #[inline(always)]
    fn store(sums: S::V, to: &mut [f32], at: usize) {
        S::store(sums, to, at);
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod rows;
#[cfg(not(target_arch = "wasm32"))]
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "wasm32"))]
pub(super) use rows::{BLOCK, Pairs, QueryBytes, RowDots, SignBlock};
#[cfg(not(target_arch = "wasm32"))]
pub(super) use words::{Bf16, Shorts, byte_words, set_words, split_pairs, to_bf16};
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{NativeBf16, NativeBytes};
