//! Eight-bit matrix products: weights `i8` with a scale an output, inputs of 14 bits with a scale a token.
//!
//! Two kernels compute the same whole sums. [`pairs`] multiplies two inputs at a time in 16 bits, an instruction on every
//! target (`i32x4.dot_i16x8_s`, `pmaddwd`). [`halves`] takes an input apart into two numbers of seven bits and multiplies
//! four at a time, an instruction of relaxed SIMD in browsers.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over fixed arrays by index are what stays in registers, without checks of bounds"
)]

#[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
mod halves;
mod pairs;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use super::super::gemm::blocks_of;
use super::super::isa::{Isa, MAX_MR, Task};
use super::super::math::max_abs;
use super::super::vector::Simd;
use super::output::Output;
#[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
use halves::Halves;
use pairs::Pairs;

/// Outputs of a panel.
pub(super) const OUTPUTS: usize = 8;

/// A vector of weights: the layout is the kernel's.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
type Block = std::arch::wasm32::v128;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
type Block = [i8; 16];

/// A way to compute the products.
trait Products {
    /// Returns the number of blocks of a panel, and of words of a token, for `k` inputs.
    fn length(k: usize) -> usize;

    /// Returns the rows of a tile at most, where an instruction set has `mr`.
    fn rows(mr: usize) -> usize;

    /// Appends the blocks of a panel of `rows`, each of `k` weights, and sets what the sums will have too much.
    fn pack(rows: &[&[i8]], k: usize, blocks: &mut Vec<Block>, offsets: &mut [i32; OUTPUTS]);

    /// Sets the words of a token to its inputs `row` times `inverse`.
    fn fill(row: &[f32], inverse: f32, to: &mut [i32]);

    /// Returns the sums of the products of rows of words with a panel of as many blocks.
    fn sums<const ROWS: usize>(
        rows: [&[i32]; ROWS],
        panel: &[Block],
        offsets: &[i32; OUTPUTS],
    ) -> [[i32; OUTPUTS]; ROWS];
}

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// [`pairs`].
    Pairs,
    /// [`halves`].
    #[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
    Halves,
}

impl Kernel {
    /// Returns the quickest kernel here.
    pub(super) fn best() -> Self {
        #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
        if halves::is_quicker() {
            return Self::Halves;
        }
        Self::Pairs
    }
}

/// A matrix `[n, k]` (outputs by inputs) in panels of [`OUTPUTS`] outputs.
#[derive(Debug)]
pub(super) struct QuantizedPanels {
    kernel: Kernel,
    /// `[panels][blocks of a panel]`, zero beyond `n` and `k`.
    blocks: Vec<Block>,
    /// Scales of the outputs, zero beyond `n`.
    scales: Vec<[f32; OUTPUTS]>,
    /// What the sums have too much, with [`halves`], whose inputs have no sign.
    offsets: Vec<[i32; OUTPUTS]>,
    n: usize,
    k: usize,
}

impl QuantizedPanels {
    /// Packs a matrix `[n, k]` from its parts in order: `values` row-major and one scale a row, times `factor`.
    pub(super) fn new(kernel: Kernel, parts: &[(&[i8], &[f32], f32)], k: usize) -> Self {
        match kernel {
            Kernel::Pairs => Self::packed::<Pairs>(kernel, parts, k),
            #[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
            Kernel::Halves => Self::packed::<Halves>(kernel, parts, k),
        }
    }

    fn packed<P: Products>(kernel: Kernel, parts: &[(&[i8], &[f32], f32)], k: usize) -> Self {
        let rows: Vec<&[i8]> = parts.iter().flat_map(|(values, ..)| values.chunks_exact(k)).collect();
        let mut scales = vec![[0f32; OUTPUTS]; rows.len().div_ceil(OUTPUTS)];
        let all = parts.iter().flat_map(|(_, scales, factor)| scales.iter().map(move |scale| scale * factor));
        for (to, scale) in scales.as_flattened_mut().iter_mut().zip(all) {
            *to = scale;
        }
        let mut blocks = Vec::with_capacity(scales.len() * P::length(k));
        let mut offsets = vec![[0; OUTPUTS]; scales.len()];
        for (rows, offsets) in rows.chunks(OUTPUTS).zip(&mut offsets) {
            P::pack(rows, k, &mut blocks, offsets);
        }
        Self { kernel, blocks, scales, offsets, n: rows.len(), k }
    }

    /// Returns the number of outputs of the matrix.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Computes the products with `x`, row-major `[m, k]`, and gives them to `to`.
    #[cfg_attr(
        all(target_arch = "wasm32", feature = "relaxed-simd"),
        target_feature(enable = "simd128,relaxed-simd")
    )]
    pub(super) fn apply(&self, isa: Isa, x: &[f32], input: &mut QuantizedInput, to: Output<'_>) {
        match self.kernel {
            Kernel::Pairs => isa.run(Product::<Pairs> { x, panels: self, input, to, by: PhantomData }),
            #[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
            Kernel::Halves => isa.run(Product::<Halves> { x, panels: self, input, to, by: PhantomData }),
        }
    }
}

/// The products of one layer.
struct Product<'a, P> {
    x: &'a [f32],
    panels: &'a QuantizedPanels,
    input: &'a mut QuantizedInput,
    to: Output<'a>,
    by: PhantomData<P>,
}

impl<P: Products> Task for Product<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        let Self { x, panels, input, mut to, .. } = self;
        input.quantize::<P>(x, panels.k);
        let mut sums = [[0f32; OUTPUTS]; MAX_MR];
        let blocks = panels.blocks.chunks_exact(P::length(panels.k));
        for (index, panel) in blocks.zip(&panels.scales).zip(&panels.offsets).enumerate() {
            let ((blocks, scales), offsets) = panel;
            for (first, rows) in blocks_of(x.len() / panels.k, P::rows(MR)) {
                product::<P, MR>(input, first, rows, (blocks, scales, offsets), &mut sums);
                to.put::<S, OUTPUTS>(first, index, &mut sums[..rows]);
            }
        }
    }
}

/// The number that makes an input of 14 bits with a sign one without.
const OFFSET: i32 = 8192;

/// Returns the largest input that cannot overflow a sum over `k` inputs, with weights down to -128.
fn input_limit(k: usize) -> f32 {
    (i32::MAX as usize / (128 * k.max(1))).min(OFFSET as usize - 1) as f32
}

/// Returns `x * inverse` as a whole number of 14 bits with [`OFFSET`] added.
#[inline(always)]
fn code(x: f32, inverse: f32) -> u32 {
    // Added and taken off again, it rounds to a whole number in the low mantissa bits. Whatever NaN becomes, it is a
    // number of 14 bits.
    const ROUND: f32 = 12_582_912.0;
    (x * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits() - OFFSET as u32) & 0x3fff
}

/// Inputs of a product in 14 bits; reused from one product to the next.
#[derive(Debug, Default)]
pub(super) struct QuantizedInput {
    /// `[m][words of a token]`, in the layout of the kernel.
    words: Vec<i32>,
    /// One scale a token.
    scales: Vec<f32>,
}

impl QuantizedInput {
    /// Replaces the contents by `x`, row-major `[m, k]`.
    #[inline(always)]
    fn quantize<P: Products>(&mut self, x: &[f32], k: usize) {
        let limit = input_limit(k);
        let stride = P::length(k);
        self.scales.clear();
        self.words.resize(x.len() / k * stride, 0);
        for (row, to) in x.chunks_exact(k).zip(self.words.chunks_exact_mut(stride)) {
            let max = max_abs(row);
            let inverse = if max > 0.0 { limit / max } else { 0.0 };
            P::fill(row, inverse, to);
            self.scales.push(max / limit);
        }
    }
}

/// The blocks, scales and offsets of a panel.
type Panel<'a> = (&'a [Block], &'a [f32; OUTPUTS], &'a [i32; OUTPUTS]);

/// Computes the products of `rows` tokens from `first` on with a panel, `[rows][OUTPUTS]`, into `sums`.
#[inline(always)]
fn product<P: Products, const MR: usize>(
    input: &QuantizedInput,
    first: usize,
    rows: usize,
    panel: Panel<'_>,
    sums: &mut [[f32; OUTPUTS]; MAX_MR],
) {
    // The guards are constants: only the sizes that the instruction set uses are compiled.
    match rows {
        1 => tile::<P, 1>(input, first, panel, sums),
        2 if P::rows(MR) >= 2 => tile::<P, 2>(input, first, panel, sums),
        3 if P::rows(MR) >= 3 => tile::<P, 3>(input, first, panel, sums),
        4 if P::rows(MR) >= 4 => tile::<P, 4>(input, first, panel, sums),
        5 if P::rows(MR) >= 5 => tile::<P, 5>(input, first, panel, sums),
        6 if P::rows(MR) >= 6 => tile::<P, 6>(input, first, panel, sums),
        7 if P::rows(MR) >= 7 => tile::<P, 7>(input, first, panel, sums),
        8 if P::rows(MR) >= 8 => tile::<P, 8>(input, first, panel, sums),
        _ => debug_assert_eq!(rows, 0, "blocks are at most that many rows"),
    }
}

#[inline(always)]
fn tile<P: Products, const ROWS: usize>(
    input: &QuantizedInput,
    first: usize,
    (blocks, scales, offsets): Panel<'_>,
    sums: &mut [[f32; OUTPUTS]; MAX_MR],
) {
    let rows = std::array::from_fn(|i| &input.words[(first + i) * blocks.len()..][..blocks.len()]);
    let whole = P::sums::<ROWS>(rows, blocks, offsets);
    for i in 0..ROWS {
        let scale = input.scales[first + i];
        for j in 0..OUTPUTS {
            sums[i][j] = whole[i][j] as f32 * (scale * scales[j]);
        }
    }
}

/// Returns a vector of these weights.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
fn block(b: [i8; 16]) -> Block {
    let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15] = b;
    std::arch::wasm32::i8x16(b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15)
}

/// Returns a vector of these weights.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn block(bytes: [i8; 16]) -> Block {
    bytes
}

/// Returns the whole numbers of two vectors.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
fn whole([low, high]: [Block; 2]) -> [i32; OUTPUTS] {
    use std::arch::wasm32::i32x4_extract_lane;
    [
        i32x4_extract_lane::<0>(low),
        i32x4_extract_lane::<1>(low),
        i32x4_extract_lane::<2>(low),
        i32x4_extract_lane::<3>(low),
        i32x4_extract_lane::<0>(high),
        i32x4_extract_lane::<1>(high),
        i32x4_extract_lane::<2>(high),
        i32x4_extract_lane::<3>(high),
    ]
}
