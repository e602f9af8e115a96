//! Products of weights in 8 bits and inputs in 7, by the product of bytes of relaxed SIMD
//! (`i16x8.relaxed_dot_i8x16_i7x16_s`, which is `vpmaddubsw` on x86-64): for engines that do not compile the product
//! with its sum to `sdot` (see [`super::quads`]).
//!
//! An input `x`, from -47 to 47, is stored as `x + 48`, so that the specification leaves engines no choice, and a sum
//! is `sum(w (x + 48)) - 48 sum(w)`. The outliers of a token, which have more bits, are stored as 0 and added apart.
//! All sums equal those of [`super::product`], bit for bit.

use super::bits::{MOST_OF_7_BITS, OUTLIERS};
use super::{Block, InputBits, OUTPUTS, ROUND, dequantize, lanes as pairs};

/// Tokens of a tile.
const ROWS: usize = 8;

/// Inputs of a step.
const STEP: usize = 8;

/// Offset that makes inputs unsigned.
const OFFSET: i32 = 48;

/// Largest sum of the magnitudes of four weights whose products with any inputs add up in 16 bits.
const MOST_OF_FOUR: u32 = i16::MAX as u32 / (OFFSET as u32 + MOST_OF_7_BITS as u32);

/// The weights of half the outputs of a panel for a step, `[2][4][4]`: a half of the inputs, an output, an input.
type Step = [Block; 2];

/// A matrix `[n, k]` (outputs by inputs) in panels of [`OUTPUTS`] outputs.
#[derive(Debug)]
pub(in super::super) struct BytePanels {
    /// `[panels][2][ceil(k / STEP)]`: a half of the outputs; zero beyond `n` and `k`.
    steps: Vec<Step>,
    panels: Vec<Panel>,
    k: usize,
}

/// What a panel has beside the weights of its steps.
#[derive(Debug)]
struct Panel {
    /// `-48 sum(w)` of each output, which cancels the offset of the inputs; zero beyond `n`.
    corrections: [i32; OUTPUTS],
    /// Scales of the outputs, zero beyond `n`.
    scales: [f32; OUTPUTS],
    /// `true` if four products accumulate in 16 bits before they are widened to 32; `false` if only two do, because the
    /// weights are too large for four.
    adds_fours: bool,
}

/// Inputs of a product in 7 bits; reused from one product to the next.
#[derive(Debug, Default)]
pub(in super::super) struct ByteInput {
    /// `[ceil(m / ROWS)][ceil(k / STEP)][2][ROWS]`: a half of the inputs, a token. A number holds four inputs, the
    /// first in its lowest byte.
    quads: Vec<[[i32; ROWS]; 2]>,
    tokens: Vec<Token>,
}

/// What a token has beside its inputs of 7 bits.
#[derive(Debug, Default)]
struct Token {
    scale: f32,
    outliers: Outliers,
}

/// The inputs of a token that have more bits than 7; where there are fewer, the input 0 with the number 0.
#[derive(Clone, Copy, Debug, Default)]
struct Outliers {
    inputs: [usize; OUTLIERS],
    /// The numbers, the first in the low half.
    numbers: i32,
}

impl BytePanels {
    /// Packs a matrix `[n, k]` from its parts, as [`super::QuantizedPanels::new`] does.
    pub(in super::super) fn new(parts: &[(&[i8], &[f32], f32)], k: usize) -> Self {
        let (rows, scales) = super::rows_and_scales(parts, k);
        let stride = k.div_ceil(STEP);
        let mut steps = vec![[pairs::block([0; 16]); 2]; scales.len() * 2 * stride];
        let mut panels = Vec::with_capacity(scales.len());
        for ((rows, scales), steps) in
            rows.chunks(OUTPUTS).zip(scales).zip(steps.chunks_exact_mut(2 * stride))
        {
            let mut corrections = [0i32; OUTPUTS];
            let mut most = 0;
            for (half, rows) in rows.chunks(OUTPUTS / 2).enumerate() {
                for (at, to) in steps[half * stride..][..stride].iter_mut().enumerate() {
                    let mut bytes = [[0i8; 16]; 2];
                    for (output, row) in rows.iter().enumerate() {
                        let mut fours = [0; 2];
                        for (i, weight) in row[at * STEP..].iter().take(STEP).enumerate() {
                            bytes[i / 4][4 * output + i % 4] = *weight;
                            fours[i / 2 % 2] += u32::from(weight.unsigned_abs());
                            let correction = &mut corrections[half * 4 + output];
                            *correction = correction.wrapping_sub(OFFSET * i32::from(*weight));
                        }
                        most = most.max(fours[0]).max(fours[1]);
                    }
                    *to = bytes.map(pairs::block);
                }
            }
            panels.push(Panel { corrections, scales, adds_fours: most <= MOST_OF_FOUR });
        }
        Self { steps, panels, k }
    }

    /// Multiplies `input`, `[m, k]`, by the panels. Gives the products of each tile, `[rows][OUTPUTS]`, to `put`, which
    /// is told its first row and its panel.
    #[inline(always)]
    pub(in super::super) fn multiply(
        &self,
        input: &ByteInput,
        mut put: impl FnMut(usize, usize, &mut [[f32; OUTPUTS]]),
    ) {
        let stride = self.k.div_ceil(STEP);
        for (index, (weights, panel)) in self.steps.chunks_exact(2 * stride).zip(&self.panels).enumerate() {
            let (low, high) = weights.split_at(stride);
            let tiles = input.quads.chunks_exact(stride).zip(input.tokens.chunks(ROWS));
            for (tile, (quads, tokens)) in tiles.enumerate() {
                let [low_sums, high_sums] = [low, high].map(|weights| match panel.adds_fours {
                    true => sums(weights, quads, lanes::add_fours),
                    false => sums(weights, quads, lanes::add_twos),
                });
                let mut products = [[0f32; OUTPUTS]; ROWS];
                for (i, token) in tokens.iter().enumerate() {
                    let sums = [(low_sums[i], low), (high_sums[i], high)]
                        .map(|(sums, weights)| lanes::with_outliers(sums, weights, &token.outliers));
                    let sums = lanes::corrected(sums, &panel.corrections);
                    dequantize(sums, token.scale, &panel.scales, &mut products[i]);
                }
                put(tile * ROWS, index, &mut products[..tokens.len()]);
            }
        }
    }
}

/// Returns the sums of a tile for half the outputs, over inputs that have the offset, without outliers.
///
/// Never inlined: the two calls, one for each half, share one copy of the loop, so that the module is smaller.
#[inline(never)]
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "relaxed-simd"))]
fn sums(
    weights: &[Step],
    quads: &[[[i32; ROWS]; 2]],
    add: impl Fn(lanes::Sums, Step, [i32; 2]) -> lanes::Sums,
) -> [lanes::Sums; ROWS] {
    let mut sums = [lanes::ZERO; ROWS];
    for (weights, quads) in weights.iter().zip(quads) {
        for i in 0..ROWS {
            sums[i] = add(sums[i], *weights, [quads[0][i], quads[1][i]]);
        }
    }
    sums
}

impl ByteInput {
    /// Replaces the contents by `x`, row-major `[m, k]`.
    #[inline(always)]
    pub(in super::super) fn quantize(&mut self, x: &[f32], k: usize) {
        let stride = k.div_ceil(STEP);
        self.tokens.clear();
        self.quads.clear();
        self.quads.resize((x.len() / k).div_ceil(ROWS) * stride, [[0; ROWS]; 2]);
        for (rows, quads) in x.chunks(ROWS * k).zip(self.quads.chunks_exact_mut(stride)) {
            for (i, row) in rows.chunks_exact(k).enumerate() {
                let (inverse, scale) = InputBits::Seven.inverse_and_scale(row);
                let (mut found, mut outliers) = (0, Outliers::default());
                let (eights, rest) = row.as_chunks::<STEP>();
                let mut last = [0f32; STEP];
                last[..rest.len()].copy_from_slice(rest);
                for (step, (to, x)) in quads.iter_mut().zip(eights.iter().chain([&last])).enumerate() {
                    let mut numbers = lanes::numbers(x, inverse);
                    let mut are_outliers = lanes::zero_outliers(&mut numbers);
                    while are_outliers != 0 {
                        let at = are_outliers.trailing_zeros() as usize;
                        are_outliers &= are_outliers - 1;
                        if let Some(input) = outliers.inputs.get_mut(found) {
                            *input = step * STEP + at;
                            outliers.numbers |=
                                ((x[at] * inverse + ROUND).to_bits() as i32 & 0xffff) << (16 * found);
                            found += 1;
                        }
                    }
                    [to[0][i], to[1][i]] = lanes::quads(numbers);
                }
                self.tokens.push(Token { scale, outliers });
            }
        }
    }
}

/// The products of relaxed SIMD.
#[cfg(target_arch = "wasm32")]
mod lanes {
    use super::{MOST_OF_7_BITS, OFFSET, OUTPUTS, Outliers, ROUND, STEP, Step};
    use std::arch::wasm32::*;

    pub(super) type Sums = v128;

    pub(super) const ZERO: v128 = i32x4(0, 0, 0, 0);

    #[inline(always)]
    fn twos(weights: Step, quads: [i32; 2]) -> [v128; 2] {
        [0, 1].map(|at| i16x8_relaxed_dot_i8x16_i7x16(weights[at], i32x4_splat(quads[at])))
    }

    #[inline(always)]
    pub(super) fn add_fours(sums: v128, weights: Step, quads: [i32; 2]) -> v128 {
        let [a, b] = twos(weights, quads);
        i32x4_add(sums, i32x4_dot_i16x8(i16x8_add(a, b), i16x8_splat(1)))
    }

    #[inline(always)]
    pub(super) fn add_twos(sums: v128, weights: Step, quads: [i32; 2]) -> v128 {
        let [a, b] = twos(weights, quads).map(|two| i32x4_dot_i16x8(two, i16x8_splat(1)));
        i32x4_add(i32x4_add(sums, a), b)
    }

    /// Returns the sums with the products of the outliers: the weights of both widened to 16 bits, multiplied as a
    /// pair.
    #[inline(always)]
    pub(super) fn with_outliers(sums: v128, weights: &[Step], outliers: &Outliers) -> v128 {
        let [a, b] = outliers.inputs;
        let block = |input: usize| weights[input / STEP][input / 4 % 2];
        let a = i8x16_swizzle(block(a), v128_or(i32x4_splat((a as i32 % 4) << 8), LOW));
        let b = i8x16_swizzle(block(b), v128_or(i32x4_splat((b as i32 % 4) << 24), HIGH));
        let weights = i16x8_shr(v128_or(a, b), 8);
        i32x4_add(sums, i32x4_dot_i16x8(weights, i32x4_splat(outliers.numbers)))
    }

    /// Indices for `i8x16.swizzle` that move the first weight of each output to the upper byte of the low and of the
    /// high 16 bits of its lane; 0x80 gives 0.
    const LOW: v128 = u32x4(0x8080_0080, 0x8080_0480, 0x8080_0880, 0x8080_0c80);
    const HIGH: v128 = u32x4(0x0080_8080, 0x0480_8080, 0x0880_8080, 0x0c80_8080);

    #[inline(always)]
    pub(super) fn corrected([a, b]: [Sums; 2], c: &[i32; OUTPUTS]) -> [i32; OUTPUTS] {
        super::pairs::sums([
            i32x4_add(a, i32x4(c[0], c[1], c[2], c[3])),
            i32x4_add(b, i32x4(c[4], c[5], c[6], c[7])),
        ])
    }

    /// Returns inputs times the inverse scale, rounded, in 16 bits.
    #[inline(always)]
    pub(super) fn numbers(x: &[f32; STEP], inverse: f32) -> v128 {
        let whole = |at: usize| {
            let x = f32x4(x[at], x[at + 1], x[at + 2], x[at + 3]);
            f32x4_add(f32x4_mul(x, f32x4_splat(inverse)), f32x4_splat(ROUND))
        };
        // The low 16 bits of a rounded number are the integer, because `ROUND` has zeros there. NaN and infinity have
        // zeros there too and become 0, as in the kernel of pairs.
        i16x8_shuffle::<0, 2, 4, 6, 8, 10, 12, 14>(whole(0), whole(4))
    }

    /// Sets outliers to 0. Returns a bit for each number: whether it is one.
    #[inline(always)]
    pub(super) fn zero_outliers(numbers: &mut v128) -> u8 {
        let are_outliers = i16x8_gt(i16x8_abs(*numbers), i16x8_splat(MOST_OF_7_BITS as i16));
        *numbers = v128_andnot(*numbers, are_outliers);
        i16x8_bitmask(are_outliers)
    }

    /// Returns numbers with the offset, four bytes in each.
    #[inline(always)]
    pub(super) fn quads(numbers: v128) -> [i32; 2] {
        let numbers = i16x8_add(numbers, i16x8_splat(OFFSET as i16));
        let bytes = u8x16_narrow_i16x8(numbers, numbers);
        [i32x4_extract_lane::<0>(bytes), i32x4_extract_lane::<1>(bytes)]
    }
}

/// The same in plain arrays, for tests.
#[cfg(not(target_arch = "wasm32"))]
mod lanes {
    use super::{MOST_OF_7_BITS, OFFSET, OUTPUTS, Outliers, ROUND, STEP, Step};

    pub(super) type Sums = [i32; OUTPUTS / 2];

    pub(super) const ZERO: Sums = [0; OUTPUTS / 2];

    pub(super) fn add_fours(sums: Sums, weights: Step, quads: [i32; 2]) -> Sums {
        add(sums, weights, quads, 4)
    }

    pub(super) fn add_twos(sums: Sums, weights: Step, quads: [i32; 2]) -> Sums {
        add(sums, weights, quads, 2)
    }

    /// Adds so many products in 16 bits first.
    fn add(mut sums: Sums, weights: Step, quads: [i32; 2], count: usize) -> Sums {
        // The order of the inputs in which every two, and every four, are a number of 16 bits.
        const ORDER: [usize; STEP] = [0, 1, 4, 5, 2, 3, 6, 7];
        let inputs = quads.map(i32::to_le_bytes);
        assert!(inputs.as_flattened().iter().all(|input| *input < 128), "an input has 7 bits");
        for (j, sum) in sums.iter_mut().enumerate() {
            for together in ORDER.chunks(count) {
                let product =
                    |i: &usize| i32::from(weights[i / 4][4 * j + i % 4]) * i32::from(inputs[i / 4][i % 4]);
                let all = together.iter().map(product).sum::<i32>();
                assert!(i16::try_from(all).is_ok(), "{all} is not a number of 16 bits");
                *sum += all;
            }
        }
        sums
    }

    pub(super) fn with_outliers(mut sums: Sums, weights: &[Step], outliers: &Outliers) -> Sums {
        let numbers = [outliers.numbers << 16 >> 16, outliers.numbers >> 16];
        for (input, number) in outliers.inputs.into_iter().zip(numbers) {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += i32::from(weights[input / STEP][input / 4 % 2][4 * j + input % 4]) * number;
            }
        }
        sums
    }

    pub(super) fn corrected([a, b]: [Sums; 2], corrections: &[i32; OUTPUTS]) -> [i32; OUTPUTS] {
        std::array::from_fn(|j| if j < 4 { a[j] } else { b[j - 4] } + corrections[j])
    }

    pub(super) fn numbers(x: &[f32; STEP], inverse: f32) -> [i16; STEP] {
        x.map(|x| (x * inverse + ROUND).to_bits() as i16)
    }

    pub(super) fn zero_outliers(numbers: &mut [i16; STEP]) -> u8 {
        let is_outlier =
            |(_, number): &(usize, &mut i16)| usize::from(number.unsigned_abs()) > MOST_OF_7_BITS;
        let zero = |(at, number): (usize, &mut i16)| {
            *number = 0;
            1 << at
        };
        numbers.iter_mut().enumerate().filter(is_outlier).map(zero).sum()
    }

    pub(super) fn quads(numbers: [i16; STEP]) -> [i32; 2] {
        let bytes = numbers.map(|number| (i32::from(number) + OFFSET) as u8);
        [[bytes[0], bytes[1], bytes[2], bytes[3]], [bytes[4], bytes[5], bytes[6], bytes[7]]]
            .map(i32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::QuantizedPanels;
    use super::super::testing::{assert_same, gathered, of_pairs};
    use super::*;

    /// Returns weights of a matrix `[n, k]` as models have them: most are small.
    fn weights(n: usize, k: usize) -> Vec<i8> {
        let weight = |at: usize| ((at as f32 * 1.3).sin().powi(5) * 127.0) as i8;
        (0..n * k).map(weight).collect()
    }

    #[test]
    fn sums_are_those_of_pairs_to_the_bit() {
        for [m, k, n] in
            [[1, 1, 1], [4, 8, 8], [5, 7, 12], [6, 16, 3], [34, 33, 20], [13, 384, 16], [3, 4096, 9]]
        {
            let mut weights = weights(n, k);
            // Four of the largest, the least one among them.
            for (weight, largest) in weights.iter_mut().zip([127, -128, 127, 127, -128, 127, 127, -128]) {
                *weight = largest;
            }
            let scales: Vec<f32> = (0..n).map(|at| 0.01 + at as f32 * 0.003).collect();
            let parts = [(weights.as_slice(), scales.as_slice(), 1.5)];
            let pairs = QuantizedPanels::new(&parts, k);
            let mut x: Vec<f32> = (0..m * k).map(|at| (at as f32 * 0.7).sin() * 3.0).collect();
            // Outliers, one at the largest weights; then rows of three magnitudes, of zeros, one so small that its
            // inverse scale is infinite, and one of NaN and infinities.
            x[0] = 200.0;
            x[k - 1] = -71.0;
            for (row, values) in x.chunks_exact_mut(k).skip(1).zip([&[5.0, -5.0, 5.0][..], &[0.0], &[1e-38]])
            {
                row.iter_mut().zip(values.iter().cycle()).for_each(|(to, value)| *to = *value);
            }
            if m > 4 && k > 2 {
                x[4 * k..4 * k + 3].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
            }
            let bytes = BytePanels::new(&parts, k);
            let mut inputs = ByteInput::default();
            // Twice: buffers are reused.
            for _ in 0..2 {
                inputs.quantize(&x, k);
            }
            let got = gathered(m, n, |put| bytes.multiply(&inputs, put));
            assert_same(&got, &of_pairs(&pairs, &x, InputBits::Seven), [m, k, n]);
        }
    }

    #[test]
    fn four_products_are_added_in_16_bits_where_they_fit_at_any_input() {
        for (last, adds_fours) in [(90, true), (91, false)] {
            // The largest sum of four that fits, 344, and one more, each of one sign.
            let weights: Vec<i8> = [127, 127, 0, 0, 0, last].into_iter().chain([0; 2]).collect();
            for sign in [1, -1] {
                let weights: Vec<i8> = weights.iter().map(|weight| weight * sign).collect();
                let bytes = BytePanels::new(&[(&weights, &[1.0], 1.0)], STEP);
                assert_eq!(bytes.panels[0].adds_fours, adds_fours);
                let mut input = ByteInput::default();
                input.quantize(&[47.0; STEP], STEP);
                let expected = f32::from(sign) * 47.0 * (254.0 + f32::from(last));
                bytes.multiply(&input, |_, _, products| assert_eq!(products[0][0], expected));
            }
        }
    }

    #[test]
    fn no_tokens_are_no_tiles() {
        let mut input = ByteInput::default();
        input.quantize(&[], 4);
        let panels = BytePanels::new(&[(&[1, 2, 3, 4], &[1.0], 1.0)], 4);
        panels.multiply(&input, |_, _, _| panic!("a tile of no tokens"));
    }
}
