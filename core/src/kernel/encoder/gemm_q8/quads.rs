//! Eight-bit products by relaxed SIMD: four inputs at a time, by the instruction that multiplies bytes by numbers of 7
//! bits and adds to 32-bit sums (`i32x4.relaxed_dot_i8x16_i7x16_add_s`). It is `sdot` on ARM with the dot-product
//! extension. On x86-64 with AVX-VNNI it is `vpdpbusd`, but two of these a product take more time than the kernel of
//! pairs: 1.3 times for a question of 16 tokens and 1.7 times for a passage of 160, in Chromium on an AMD EPYC.
//!
//! An input is a signed 14-bit integer `x`, stored as two base-128 digits: `x + 2^13 = 128 high + low`, both from 0 to
//! 127. For such operands the specification leaves engines no choice. With weights `w`, a sum is
//! `128 sum(w high) + sum(w low) - 2^13 sum(w)`. Intermediate sums may wrap around, the result fits in 32 bits and
//! equals that of [`super::product`], bit for bit.

#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
use std::sync::atomic::{AtomicU8, Ordering};

use super::super::super::gemm::blocks_of;
use super::{Block, InputBits, OUTPUTS, ROUND};

/// Most tokens of a tile. Tiles have an even number, so that there are few kernels.
const ROWS: usize = 6;

/// Offset that makes inputs unsigned.
const OFFSET: i32 = 1 << 13;

/// Mask of an unsigned input, 14 bits.
const BITS: i32 = (1 << 14) - 1;

/// The weights of [`OUTPUTS`] outputs for four inputs: `[OUTPUTS][4]`.
type Quads = [Block; 2];

/// A matrix `[n, k]` (outputs by inputs) in panels of [`OUTPUTS`] outputs, each with its inputs in fours.
#[derive(Debug)]
pub(in super::super) struct QuadPanels {
    /// `[panels][ceil(k / 4)]`, zero beyond `n` and `k`.
    quads: Vec<Quads>,
    /// `-2^13 sum(w)` of each output, which cancels the offset of the inputs; zero beyond `n`.
    corrections: Vec<[i32; OUTPUTS]>,
    /// Scales of the outputs, zero beyond `n`.
    scales: Vec<[f32; OUTPUTS]>,
    n: usize,
    k: usize,
}

/// Quantized inputs of a product, as base-128 digits; reused from one product to the next.
#[derive(Debug, Default)]
pub(in super::super) struct QuadInput {
    /// The [`tiles`], each `[2][ceil(k / 4)][tokens]`: the high digits, then the low ones; any beyond `m`. A number
    /// holds the digits of four inputs, the first in its lowest byte.
    quads: Vec<i32>,
    /// One scale a token.
    scales: Vec<f32>,
}

impl QuadPanels {
    /// Packs a matrix `[n, k]` from its parts, as [`super::QuantizedPanels::new`] does.
    pub(in super::super) fn new(parts: &[(&[i8], &[f32], f32)], k: usize) -> Self {
        let (rows, scales) = super::rows_and_scales(parts, k);
        let mut corrections = vec![[0i32; OUTPUTS]; scales.len()];
        for (to, row) in corrections.as_flattened_mut().iter_mut().zip(&rows) {
            *to = row.iter().fold(0, |sum: i32, weight| sum.wrapping_sub(OFFSET * i32::from(*weight)));
        }
        let mut quads = Vec::with_capacity(scales.len() * k.div_ceil(4));
        for rows in rows.chunks(OUTPUTS) {
            for first in (0..k).step_by(4) {
                let mut bytes = [[0i8; 16]; 2];
                for (to, row) in bytes.as_flattened_mut().as_chunks_mut::<4>().0.iter_mut().zip(rows) {
                    for (to, weight) in to.iter_mut().zip(&row[first..]) {
                        *to = *weight;
                    }
                }
                quads.push(bytes.map(super::lanes::block));
            }
        }
        Self { quads, corrections, scales, n: rows.len(), k }
    }

    /// Returns the number of outputs of the matrix.
    pub(in super::super) fn n(&self) -> usize {
        self.n
    }

    /// Returns the number of inputs of the matrix.
    pub(in super::super) fn k(&self) -> usize {
        self.k
    }

    /// Multiplies `input`, `[m, k]`, by the panels. Gives the products of each tile, `[rows][OUTPUTS]`, to `put`, which
    /// is told its first row and its panel.
    #[inline(always)]
    pub(in super::super) fn multiply(
        &self,
        input: &QuadInput,
        mut put: impl FnMut(usize, usize, &mut [[f32; OUTPUTS]]),
    ) {
        let stride = self.k.div_ceil(4);
        let panels = self.quads.chunks_exact(stride).zip(&self.corrections).zip(&self.scales);
        for (index, ((quads, corrections), scales)) in panels.enumerate() {
            for (first, rows) in tiles(input.scales.len()) {
                let tile = &input.quads[2 * stride * first..][..2 * stride * rows];
                let mut sums = [[0i32; OUTPUTS]; ROWS];
                match rows {
                    2 => sum::<2>(quads, tile, corrections, &mut sums),
                    4 => sum::<4>(quads, tile, corrections, &mut sums),
                    6 => sum::<6>(quads, tile, corrections, &mut sums),
                    _ => debug_assert_eq!(rows, 0, "tiles are of so many tokens"),
                }
                let mut products = [[0f32; OUTPUTS]; ROWS];
                let tokens = input.scales[first..].iter().take(rows);
                let count = tokens.len();
                for ((token, sums), to) in tokens.zip(sums).zip(&mut products) {
                    super::dequantize(sums, *token, scales, to);
                }
                put(first, index, &mut products[..count]);
            }
        }
    }
}

impl QuadInput {
    /// Replaces the contents by `x`, row-major `[m, k]`, in so many `bits`, 14 or fewer.
    #[inline(always)]
    pub(in super::super) fn quantize(&mut self, x: &[f32], k: usize, bits: InputBits) {
        let stride = k.div_ceil(4);
        self.scales.clear();
        self.quads.clear();
        let m = x.len() / k;
        self.quads.resize(m.next_multiple_of(2) * stride * 2, 0);
        for (first, rows) in tiles(m) {
            let tile = &mut self.quads[2 * stride * first..][..2 * stride * rows];
            let (high, low) = tile.split_at_mut(stride * rows);
            for (i, row) in x[first * k..].chunks_exact(k).take(rows).enumerate() {
                let (inverse, scale) = bits.inverse_and_scale(row);
                self.scales.push(scale);
                let to = high[i..].iter_mut().step_by(rows).zip(low[i..].iter_mut().step_by(rows));
                let (sixteens, rest) = row.as_chunks::<16>();
                let mut last = [0f32; 16];
                last[..rest.len()].copy_from_slice(rest);
                let digits = sixteens.iter().chain([&last]).flat_map(|x| {
                    let (high, low) = lanes::digits(x, inverse);
                    high.into_iter().zip(low)
                });
                for ((high, low), digits) in to.zip(digits) {
                    (*high, *low) = digits;
                }
            }
        }
    }
}

/// Splits `m` tokens into tiles of two, four or six, as even as can be: the first token and the number of each. The
/// last may have one token too many.
fn tiles(m: usize) -> impl Iterator<Item = (usize, usize)> {
    blocks_of(m.div_ceil(2), ROWS / 2).map(|(first, rows)| (2 * first, 2 * rows))
}

/// Computes the integer sums of a tile, before dequantization.
#[inline(always)]
fn sum<const TOKENS: usize>(
    weights: &[Quads],
    tile: &[i32],
    corrections: &[i32; OUTPUTS],
    to: &mut [[i32; OUTPUTS]; ROWS],
) {
    let (high, low) = tile.as_chunks::<TOKENS>().0.split_at(weights.len());
    let mut sums = [super::lanes::ZERO; TOKENS];
    add(&mut sums, weights, high);
    for sums in &mut sums {
        *sums = lanes::shift(*sums, corrections);
    }
    add(&mut sums, weights, low);
    for (to, sums) in to.iter_mut().zip(sums) {
        *to = super::lanes::sums(sums);
    }
}

/// Adds the products of the weights and one digit of the inputs.
#[inline(always)]
fn add<const TOKENS: usize>(sums: &mut [lanes::Sums; TOKENS], weights: &[Quads], inputs: &[[i32; TOKENS]]) {
    for (weights, inputs) in weights.iter().zip(inputs) {
        for i in 0..TOKENS {
            lanes::add_products(&mut sums[i], *weights, inputs[i]);
        }
    }
}

/// Selection by [`select`]: [`NEVER`], [`ALWAYS`], or 0 for what suits the engine.
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
static SELECTION: AtomicU8 = AtomicU8::new(0);
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
const NEVER: u8 = 1;
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
const ALWAYS: u8 = 2;

/// Does what [`super::relaxed_products`] does.
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
pub(super) fn select(wanted: Option<bool>) -> bool {
    SELECTION.store(wanted.map_or(0, |wanted| if wanted { ALWAYS } else { NEVER }), Ordering::Relaxed);
    is_selected()
}

/// Returns whether matrices are packed for this kernel: where the engine compiles the product to `sdot`. Elsewhere the
/// kernel of pairs is faster, or for inputs of 7 bits [`super::bytes`].
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
pub(in super::super) fn is_selected() -> bool {
    match SELECTION.load(Ordering::Relaxed) {
        NEVER => false,
        ALWAYS => true,
        _ => {
            let product = |weight, input| lanes::product(std::hint::black_box(weight), input);
            is_sdot(product(127, -1), product(-128, -128), lanes::truncated(std::hint::black_box(f32::NAN)))
        }
    }
}

/// Returns whether the engine compiles the product to `sdot`, from results for which the specification allows several:
/// two sums of four products each, `near` of the weight 127 and the input -1, `far` of -128 and -128, and NaN truncated
/// to a whole number. `vpdpbusd` reads inputs beyond 7 bits unsigned, `sdot` and `vpdpbssd` signed; sequences of three
/// to five instructions add pairs in 16 bits, which saturate or wrap around. Of NaN, ARM makes 0 and x86-64 `i32::MIN`.
fn is_sdot(near: i32, far: i32, nan: i32) -> bool {
    near == -4 * 127 && far == 4 * 128 * 128 && nan == 0
}

/// The products of relaxed SIMD.
#[cfg(target_arch = "wasm32")]
mod lanes {
    use super::{BITS, OFFSET, OUTPUTS, ROUND};
    use std::arch::wasm32::*;

    pub(super) type Sums = [v128; 2];

    #[inline(always)]
    pub(super) fn add_products(sums: &mut Sums, weights: [v128; 2], quad: i32) {
        let quad = i32x4_splat(quad);
        sums[0] = i32x4_relaxed_dot_i8x16_i7x16_add(weights[0], quad, sums[0]);
        sums[1] = i32x4_relaxed_dot_i8x16_i7x16_add(weights[1], quad, sums[1]);
    }

    /// Returns the sums of the high digits times 128, plus the corrections.
    #[inline(always)]
    pub(super) fn shift([a, b]: Sums, c: &[i32; OUTPUTS]) -> Sums {
        [
            i32x4_add(i32x4_shl(a, 7), i32x4(c[0], c[1], c[2], c[3])),
            i32x4_add(i32x4_shl(b, 7), i32x4(c[4], c[5], c[6], c[7])),
        ]
    }

    /// Quantizes 16 inputs, `x * inverse` rounded, and returns their high and low digits, four in a number.
    #[inline(always)]
    pub(super) fn digits(x: &[f32; 16], inverse: f32) -> ([i32; 4], [i32; 4]) {
        let whole = |at: usize| {
            let x = f32x4(x[at], x[at + 1], x[at + 2], x[at + 3]);
            let rounded = f32x4_add(f32x4_mul(x, f32x4_splat(inverse)), f32x4_splat(ROUND));
            // NaN and infinity become 0, as in the kernel of pairs.
            v128_and(i32x4_sub(rounded, i32x4_splat(ROUND.to_bits() as i32 - OFFSET)), i32x4_splat(BITS))
        };
        let [a, b] = [0, 8].map(|at| i16x8_narrow_i32x4(whole(at), whole(at + 4)));
        let high = u8x16_narrow_i16x8(u16x8_shr(a, 7), u16x8_shr(b, 7));
        let low = u8x16_narrow_i16x8(v128_and(a, i16x8_splat(127)), v128_and(b, i16x8_splat(127)));
        (quads(high), quads(low))
    }

    fn quads(v: v128) -> [i32; 4] {
        [
            i32x4_extract_lane::<0>(v),
            i32x4_extract_lane::<1>(v),
            i32x4_extract_lane::<2>(v),
            i32x4_extract_lane::<3>(v),
        ]
    }

    /// Returns a number truncated to a whole one, as relaxed SIMD does.
    #[cfg(feature = "relaxed-simd")]
    pub(super) fn truncated(x: f32) -> i32 {
        i32x4_extract_lane::<0>(i32x4_relaxed_trunc_f32x4(f32x4_splat(x)))
    }

    /// Returns the sum of four products of a weight and an input.
    #[cfg(feature = "relaxed-simd")]
    pub(super) fn product(weight: i8, input: i8) -> i32 {
        let zero = i32x4_splat(0);
        i32x4_extract_lane::<0>(i32x4_relaxed_dot_i8x16_i7x16_add(
            i8x16_splat(weight),
            i8x16_splat(input),
            zero,
        ))
    }
}

/// The same in plain arrays, for tests.
#[cfg(not(target_arch = "wasm32"))]
mod lanes {
    use super::{BITS, Block, OFFSET, OUTPUTS, ROUND};

    pub(super) type Sums = [i32; OUTPUTS];

    pub(super) fn add_products(sums: &mut Sums, weights: [Block; 2], quad: i32) {
        for (sum, weights) in sums.iter_mut().zip(weights.as_flattened().as_chunks::<4>().0) {
            for (weight, digit) in weights.iter().zip(quad.to_le_bytes()) {
                assert!(digit < 128, "a digit has 7 bits");
                *sum = sum.wrapping_add(i32::from(*weight) * i32::from(digit));
            }
        }
    }

    pub(super) fn shift(sums: Sums, corrections: &[i32; OUTPUTS]) -> Sums {
        std::array::from_fn(|j| (sums[j] << 7).wrapping_add(corrections[j]))
    }

    pub(super) fn digits(x: &[f32; 16], inverse: f32) -> ([i32; 4], [i32; 4]) {
        let whole = x.map(|x| {
            ((x * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32).wrapping_add(OFFSET) & BITS
        });
        let quads = |digit: fn(i32) -> i32| {
            std::array::from_fn(|q| {
                i32::from_le_bytes(std::array::from_fn(|i| digit(whole[4 * q + i]) as u8))
            })
        };
        (quads(|x| x >> 7), quads(|x| x & 127))
    }
}

#[cfg(test)]
mod tests {
    use super::super::QuantizedPanels;
    use super::super::testing::{assert_same, gathered, of_pairs};
    use super::*;

    #[test]
    fn no_tokens_are_no_tiles() {
        let mut input = QuadInput::default();
        input.quantize(&[], 4, InputBits::Fourteen);
        QuadPanels::new(&[(&[1, 2, 3, 4], &[1.0], 1.0)], 4).multiply(&input, |_, _, products| {
            assert!(products.is_empty());
        });
    }

    #[test]
    fn results_beyond_the_specification_tell_whether_the_product_is_sdot() {
        let sums = |product: fn(i32, i32) -> i32| [product(127, -1), product(-128, -128)];
        for ([near, far], nan, expected, engine) in [
            (sums(|w, x| 4 * w * (x & 255)), i32::MIN, false, "vpdpbusd"),
            (sums(|w, x| 4 * w * x), i32::MIN, false, "vpdpbssd"),
            (sums(|w, x| 4 * w * x), 0, true, "sdot"),
            (sums(|w, x| 2 * (2 * w * (x & 255)).clamp(-32768, 32767)), i32::MIN, false, "vpmaddubsw"),
            (sums(|w, x| 2 * i32::from((2 * w * x) as i16)), 0, false, "smull, addp, saddlp"),
        ] {
            assert_eq!(is_sdot(near, far, nan), expected, "{engine}");
        }
    }

    #[test]
    fn digits_give_the_products_of_pairs_to_the_bit() {
        for [m, k, n] in
            [[1, 1, 1], [4, 8, 8], [5, 7, 12], [7, 16, 3], [34, 33, 20], [13, 384, 16], [3, 4096, 9]]
        {
            let weights: Vec<i8> = (0..n * k).map(|at| (at * 37 % 256) as u8 as i8).collect();
            let scales: Vec<f32> = (0..n).map(|at| 0.01 + at as f32 * 0.003).collect();
            let parts = [(weights.as_slice(), scales.as_slice(), 1.5)];
            let (pairs, quads) = (QuantizedPanels::new(&parts, k), QuadPanels::new(&parts, k));
            assert_eq!((quads.n(), quads.k()), (n, k));
            let mut x: Vec<f32> = (0..m * k).map(|at| (at as f32 * 0.7).sin() * 3.0).collect();
            // The extremes of weights and inputs together, and a row of zeros.
            x[..k].fill(if n > 1 { 9.0 } else { -9.0 });
            if m > 2 {
                x[2 * k..3 * k].fill(0.0);
            }
            // A row so small that its inverse scale is infinite, and a row with NaN and infinities.
            if m > 4 {
                x[3 * k..4 * k].fill(1e-38);
                x[4 * k..4 * k + 3].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
            }
            for bits in [InputBits::Fourteen, InputBits::Seven] {
                let mut digits = QuadInput::default();
                // Twice: buffers are reused.
                for _ in 0..2 {
                    digits.quantize(&x, k, bits);
                }
                let got = gathered(m, n, |put| quads.multiply(&digits, put));
                assert_same(&got, &of_pairs(&pairs, &x, bits), [m, k, n]);
            }
        }
    }
}
