//! Eight-bit matrix products: weights `i8` with a scale an output, inputs `i16` with a scale a token.
//!
//! Two inputs at a time are multiplied and added into 32-bit sums, an instruction on every target
//! (`i32x4.dot_i16x8_s`, `pmaddwd`), so inputs of 16 bits cost what inputs of 8 would and lose next to nothing. Where a
//! browser module puts passages in order, inputs have 7 bits, which relaxed SIMD multiplies faster.

mod bits;
#[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
mod bytes;
#[cfg(any(test, all(target_arch = "wasm32", feature = "relaxed-simd")))]
mod quads;
mod rows;

use super::super::isa::MAX_MR;
pub(super) use bits::InputBits;
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
pub(super) use bytes::{ByteInput, BytePanels};
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
pub(super) use quads::{QuadInput, QuadPanels, is_selected};
pub(super) use rows::{MANY, RowTiles};

/// Outputs of a panel.
pub(super) const OUTPUTS: usize = 8;

/// The weights of [`OUTPUTS`] outputs for two inputs: `[OUTPUTS][2]`.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
type Block = std::arch::wasm32::v128;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
type Block = [i8; 2 * OUTPUTS];

/// The same in 16 bits.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
type Wide = [std::arch::wasm32::v128; 2];
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
type Wide = [i16; 2 * OUTPUTS];

/// A matrix `[n, k]` (outputs by inputs) in panels of [`OUTPUTS`] outputs, each with its inputs in pairs.
#[derive(Debug)]
pub(super) struct QuantizedPanels {
    /// `[panels][ceil(k / 2)]`, zero beyond `n` and `k`.
    blocks: Vec<Block>,
    /// Scales of the outputs, zero beyond `n`.
    scales: Vec<[f32; OUTPUTS]>,
    n: usize,
    k: usize,
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    bytes: std::sync::OnceLock<BytePanels>,
}

impl QuantizedPanels {
    /// Packs a matrix `[n, k]` from its parts in order: `values` row-major and one scale a row, times `factor`.
    pub(super) fn new(parts: &[(&[i8], &[f32], f32)], k: usize) -> Self {
        let (rows, scales) = rows_and_scales(parts, k);
        let mut blocks = Vec::with_capacity(scales.len() * k.div_ceil(2));
        for rows in rows.chunks(OUTPUTS) {
            for pair in 0..k.div_ceil(2) {
                let mut bytes = [0i8; 2 * OUTPUTS];
                for (to, row) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(rows) {
                    *to = [row[2 * pair], row.get(2 * pair + 1).copied().unwrap_or(0)];
                }
                blocks.push(lanes::block(bytes));
            }
        }
        Self {
            blocks,
            scales,
            n: rows.len(),
            k,
            #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
            bytes: Default::default(),
        }
    }

    /// Returns the number of outputs of the matrix.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Returns the number of inputs of the matrix.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    /// Returns the same matrix for inputs of 7 bits, packed when it is first asked for.
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    pub(super) fn bytes(&self) -> &BytePanels {
        self.bytes.get_or_init(|| {
            let stride = self.k.div_ceil(2);
            let mut rows = vec![0i8; self.scales.len() * OUTPUTS * self.k];
            for (rows, blocks) in
                rows.chunks_exact_mut(OUTPUTS * self.k).zip(self.blocks.chunks_exact(stride))
            {
                for (pair, block) in blocks.iter().enumerate() {
                    let bytes = lanes::bytes(*block);
                    for (row, two) in rows.chunks_exact_mut(self.k).zip(bytes.as_chunks::<2>().0) {
                        row[2 * pair..].iter_mut().zip(two).for_each(|(to, weight)| *to = *weight);
                    }
                }
            }
            BytePanels::new(&[(&rows[..self.n * self.k], &self.scales.as_flattened()[..self.n], 1.0)], self.k)
        })
    }

    /// Returns the panels in order: `[ceil(k / 2)]` blocks and the scales of the outputs.
    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[Block], &[f32; OUTPUTS])> {
        self.blocks.chunks_exact(self.k.div_ceil(2)).zip(&self.scales)
    }
}

/// Returns the rows of a matrix `[n, k]` from its parts, and their scales in panels, zero beyond `n`.
fn rows_and_scales<'a>(parts: &[(&'a [i8], &[f32], f32)], k: usize) -> (Vec<&'a [i8]>, Vec<[f32; OUTPUTS]>) {
    let rows: Vec<&[i8]> = parts.iter().flat_map(|(values, ..)| values.chunks_exact(k)).collect();
    let mut scales = vec![[0f32; OUTPUTS]; rows.len().div_ceil(OUTPUTS)];
    let all = parts.iter().flat_map(|(_, scales, factor)| scales.iter().map(move |scale| scale * factor));
    for (to, scale) in scales.as_flattened_mut().iter_mut().zip(all) {
        *to = scale;
    }
    (rows, scales)
}

/// Dequantizes integer sums: multiplies them by the scales of their token and of their outputs.
#[inline(always)]
fn dequantize(sums: [i32; OUTPUTS], token: f32, outputs: &[f32; OUTPUTS], to: &mut [f32; OUTPUTS]) {
    for j in 0..OUTPUTS {
        to[j] = sums[j] as f32 * (token * outputs[j]);
    }
}

/// 1.5 * 2^23. Added to a small number, it rounds that to an integer, which is then in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;

/// Inputs of a product in 16 bits; reused from one product to the next.
#[derive(Debug, Default)]
pub(super) struct QuantizedInput {
    /// `[m][ceil(k / 2)]` pairs of inputs, the even one in the low half.
    pairs: Vec<i32>,
    /// One scale a token.
    scales: Vec<f32>,
    stride: usize,
}

impl QuantizedInput {
    /// Replaces the contents by `x`, row-major `[m, k]`, in so many `bits`.
    #[inline(always)]
    pub(super) fn quantize(&mut self, x: &[f32], k: usize, bits: InputBits) {
        self.stride = k.div_ceil(2);
        self.scales.clear();
        self.pairs.resize(x.len() / k * self.stride, 0);
        for (row, to) in x.chunks_exact(k).zip(self.pairs.chunks_exact_mut(self.stride)) {
            let (inverse, scale) = bits.inverse_and_scale(row);
            let whole = |x: f32| (x * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
            let (pairs, odd) = row.as_chunks::<2>();
            for (to, [even, odd]) in to.iter_mut().zip(pairs) {
                *to = (whole(*even) & 0xffff | whole(*odd) << 16) as i32;
            }
            if let ([last], Some(to)) = (odd, to.last_mut()) {
                *to = (whole(*last) & 0xffff) as i32;
            }
            self.scales.push(scale);
        }
    }
}

/// Returns the most rows of a tile, where an instruction set has `mr` for products of floats. In a browser it is six: a
/// question's few tokens are in few tiles, which read the weights less often; many tokens take [`RowTiles`].
pub(super) const fn most_rows(mr: usize) -> usize {
    if cfg!(target_arch = "wasm32") { 6 } else { mr }
}

/// Computes the products of `rows` tokens from `first` on with a panel, `[rows][OUTPUTS]`, into `sums`.
#[inline(always)]
pub(super) fn product<const MR: usize>(
    input: &QuantizedInput,
    first: usize,
    rows: usize,
    (panel, scales): (&[Block], &[f32; OUTPUTS]),
    sums: &mut [[f32; OUTPUTS]; MAX_MR],
) {
    match rows {
        1 => tile::<1>(input, first, panel, scales, sums),
        2 if most_rows(MR) >= 2 => tile::<2>(input, first, panel, scales, sums),
        3 if most_rows(MR) >= 3 => tile::<3>(input, first, panel, scales, sums),
        4 if most_rows(MR) >= 4 => tile::<4>(input, first, panel, scales, sums),
        5 if most_rows(MR) >= 5 => tile::<5>(input, first, panel, scales, sums),
        6 if most_rows(MR) >= 6 => tile::<6>(input, first, panel, scales, sums),
        7 if most_rows(MR) >= 7 => tile::<7>(input, first, panel, scales, sums),
        _ => debug_assert_eq!(rows, 0, "blocks are at most that many rows"),
    }
}

#[inline(always)]
fn tile<const ROWS: usize>(
    input: &QuantizedInput,
    first: usize,
    panel: &[Block],
    scales: &[f32; OUTPUTS],
    sums: &mut [[f32; OUTPUTS]; MAX_MR],
) {
    let stride = panel.len();
    let rows: [&[i32]; ROWS] = std::array::from_fn(|i| &input.pairs[(first + i) * stride..][..stride]);
    let mut acc = [lanes::ZERO; ROWS];
    // By index, of slices of one length: their bounds are checked once, before the loop.
    #[allow(clippy::needless_range_loop, reason = "see above")]
    for k in 0..panel.len() {
        let weights = lanes::widen(panel[k]);
        for i in 0..ROWS {
            lanes::add_products(&mut acc[i], weights, rows[i][k]);
        }
    }
    for i in 0..ROWS {
        dequantize(lanes::sums(acc[i]), input.scales[first + i], scales, &mut sums[i]);
    }
}

/// Selects whether encoders that are loaded from now on compute 8-bit products by the product with a sum of relaxed
/// SIMD; `None`: where the engine compiles it to `sdot`. Returns whether they do, `false` in a module
/// without relaxed SIMD. The integer sums are equal either way. Without it, scores that put passages in order are
/// still computed by relaxed SIMD's product of bytes.
#[cfg(target_arch = "wasm32")]
pub fn relaxed_products(wanted: Option<bool>) -> bool {
    #[cfg(feature = "relaxed-simd")]
    return quads::select(wanted);
    #[cfg(not(feature = "relaxed-simd"))]
    {
        let _ = wanted;
        false
    }
}

/// The products on WebAssembly's vectors, which LLVM does not find by itself.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lanes {
    use std::arch::wasm32::*;

    pub(super) const ZERO: [v128; 2] = [i32x4(0, 0, 0, 0); 2];

    pub(super) fn block(b: [i8; 16]) -> v128 {
        let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15] = b;
        i8x16(b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15)
    }

    #[cfg(feature = "relaxed-simd")]
    pub(super) fn bytes(block: v128) -> [i8; 16] {
        let mut bytes = [0; 16];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(sums([block, block])) {
            *to = word.to_le_bytes().map(|byte| byte as i8);
        }
        bytes
    }

    #[inline(always)]
    pub(super) fn widen(block: v128) -> [v128; 2] {
        [i16x8_extend_low_i8x16(block), i16x8_extend_high_i8x16(block)]
    }

    #[inline(always)]
    pub(super) fn add_products(acc: &mut [v128; 2], weights: [v128; 2], pair: i32) {
        let pair = i32x4_splat(pair);
        acc[0] = i32x4_add(acc[0], i32x4_dot_i16x8(weights[0], pair));
        acc[1] = i32x4_add(acc[1], i32x4_dot_i16x8(weights[1], pair));
    }

    #[inline(always)]
    pub(super) fn sums([low, high]: [v128; 2]) -> [i32; 8] {
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
}

/// The same in plain arrays.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod lanes {
    use super::OUTPUTS;

    pub(super) const ZERO: [i32; OUTPUTS] = [0; OUTPUTS];

    pub(super) fn block(bytes: [i8; 2 * OUTPUTS]) -> [i8; 2 * OUTPUTS] {
        bytes
    }

    #[inline(always)]
    pub(super) fn widen(block: [i8; 2 * OUTPUTS]) -> [i16; 2 * OUTPUTS] {
        block.map(i16::from)
    }

    #[inline(always)]
    pub(super) fn add_products(acc: &mut [i32; OUTPUTS], weights: [i16; 2 * OUTPUTS], pair: i32) {
        let (even, odd) = (i32::from(pair as i16), pair >> 16);
        for j in 0..OUTPUTS {
            acc[j] += i32::from(weights[2 * j]) * even + i32::from(weights[2 * j + 1]) * odd;
        }
    }

    #[inline(always)]
    pub(super) fn sums(acc: [i32; OUTPUTS]) -> [i32; OUTPUTS] {
        acc
    }
}

/// What the tests of the kernels share.
#[cfg(test)]
mod testing {
    use super::*;

    /// What a kernel gives its products to: a tile's first row, its panel, and `[rows][OUTPUTS]`.
    type Put<'a> = &'a mut dyn FnMut(usize, usize, &mut [[f32; OUTPUTS]]);

    /// Returns the products that a kernel gives, `[panels][m][OUTPUTS]`; NaN where it gave none.
    pub(super) fn gathered(m: usize, n: usize, multiply: impl FnOnce(Put<'_>)) -> Vec<f32> {
        let mut products = vec![f32::NAN; m * n.next_multiple_of(OUTPUTS)];
        multiply(&mut |first, panel, tile| {
            for (row, outputs) in (first..).zip(tile) {
                products[(panel * m + row) * OUTPUTS..][..OUTPUTS].copy_from_slice(outputs);
            }
        });
        products
    }

    /// Returns the products of `x`, `[m, k]`, in so many bits, row by row by the kernel of pairs.
    pub(super) fn of_pairs(panels: &QuantizedPanels, x: &[f32], bits: InputBits) -> Vec<f32> {
        let mut input = QuantizedInput::default();
        input.quantize(x, panels.k(), bits);
        let m = x.len() / panels.k();
        gathered(m, panels.n(), |put| {
            let mut sums = [[0f32; OUTPUTS]; MAX_MR];
            for (index, panel) in panels.iter().enumerate() {
                for row in 0..m {
                    product::<1>(&input, row, 1, panel, &mut sums);
                    put(row, index, &mut sums[..1]);
                }
            }
        })
    }

    /// Asserts that products of `[m, k, n]` are the same numbers, or both NaN.
    pub(super) fn assert_same(got: &[f32], expected: &[f32], [m, k, n]: [usize; 3]) {
        assert_eq!(got.len(), expected.len());
        for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
            let (row, output) = (at / OUTPUTS % m, at / (OUTPUTS * m) * OUTPUTS + at % OUTPUTS);
            assert!(
                got == expected || got.is_nan() && expected.is_nan(),
                "{m} rows, {k} inputs, {n} outputs: row {row}, output {output} is {got}, not {expected}"
            );
        }
    }
}
