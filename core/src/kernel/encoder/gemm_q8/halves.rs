//! The 8-bit kernel of relaxed SIMD, which multiplies four inputs at a time.
//!
//! An input of 14 bits without a sign is `128 * high + low`, both from 0 to 127: what `i32x4.relaxed_dot_i8x16_i7x16_add_s`
//! takes as its second operand. For these numbers engines must agree, whichever instructions they make of it, as none of
//! its sums of two products can leave 16 bits. So these sums are those of [`super::pairs`] everywhere.
//!
//! The outputs of a panel are in two blocks, each `[4 outputs][4 inputs]`. A token has the words of its high halves
//! first, then those of its low halves; a word holds four inputs, the first in the lowest bits.

use super::{Block, OFFSET, OUTPUTS, Products, block, code};

/// The kernel of this module.
pub(super) struct Halves;

impl Products for Halves {
    #[inline(always)]
    fn length(k: usize) -> usize {
        2 * k.div_ceil(4)
    }

    #[inline(always)]
    fn rows(_: usize) -> usize {
        6
    }

    fn pack(rows: &[&[i8]], k: usize, blocks: &mut Vec<Block>, offsets: &mut [i32; OUTPUTS]) {
        for four in 0..k.div_ceil(4) {
            for part in 0..2 {
                let mut bytes = [0i8; 16];
                for (to, row) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(rows.iter().skip(4 * part)) {
                    to.iter_mut().zip(&row[4 * four..]).for_each(|(to, weight)| *to = *weight);
                }
                blocks.push(block(bytes));
            }
        }
        for (offset, row) in offsets.iter_mut().zip(rows) {
            // As the sums it wraps around; the difference is within 32 bits.
            *offset = row.iter().map(|weight| i32::from(*weight)).sum::<i32>().wrapping_mul(OFFSET);
        }
    }

    #[inline(always)]
    fn fill(row: &[f32], inverse: f32, to: &mut [i32]) {
        let (high, low) = to.split_at_mut(to.len() / 2);
        let word = |codes: [u32; 4]| {
            // Four codes of 14 bits: the upper and the lower seven of each, side by side.
            let join = |shift: u32| {
                let [a, b, c, d] = codes.map(|code| code >> shift & 0x7f);
                (a | b << 8 | c << 16 | d << 24) as i32
            };
            [join(7), join(0)]
        };
        let (fours, rest) = row.as_chunks::<4>();
        for ((high, low), four) in high.iter_mut().zip(low.iter_mut()).zip(fours) {
            [*high, *low] = word(four.map(|x| code(x, inverse)));
        }
        if let ([_, ..], Some(high), Some(low)) = (rest, high.last_mut(), low.last_mut()) {
            // What is beyond the last input has weights of 0.
            let mut four = [0f32; 4];
            four.iter_mut().zip(rest).for_each(|(to, x)| *to = *x);
            [*high, *low] = word(four.map(|x| code(x, inverse)));
        }
    }

    #[inline(always)]
    fn sums<const ROWS: usize>(
        rows: [&[i32]; ROWS],
        panel: &[Block],
        offsets: &[i32; OUTPUTS],
    ) -> [[i32; OUTPUTS]; ROWS] {
        let panel = panel.as_chunks::<2>().0;
        let [high, low]: [[&[i32]; ROWS]; 2] =
            [0, 1].map(|half| rows.map(|row| &row[half * panel.len()..][..panel.len()]));
        let mut acc = [lanes::ZERO; ROWS];
        add::<ROWS>(&mut acc, panel, high);
        for acc in &mut acc {
            *acc = lanes::shift_and_subtract(*acc, offsets);
        }
        add::<ROWS>(&mut acc, panel, low);
        acc.map(lanes::sums)
    }
}

/// Adds the products of one half of the inputs.
#[inline(always)]
fn add<const ROWS: usize>(acc: &mut [lanes::Sums; ROWS], panel: &[[Block; 2]], rows: [&[i32]; ROWS]) {
    for k in 0..panel.len() {
        let weights = panel[k];
        for i in 0..ROWS {
            lanes::add_products(&mut acc[i], weights, rows[i][k]);
        }
    }
}

/// Returns whether this kernel is quicker than [`super::pairs`] on this engine.
///
/// Engines show by the numbers that they need not agree on which instructions they use. Where x86-64 has the product in
/// one instruction (AVX-VNNI), and on ARM, nothing saturates. Where it has not, engines take `pmaddubsw`, whose sums of
/// two products do, and two or more instructions after it, which is slower than 16-bit products are.
#[cfg(target_arch = "wasm32")]
#[target_feature(enable = "relaxed-simd")]
pub(super) fn is_quicker() -> bool {
    use std::arch::wasm32::{
        i8x16_splat, i32x4_extract_lane, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat,
    };
    // Seen by the engine, not by the compiler, which may not say what the instruction does.
    let (weights, inputs) = std::hint::black_box((i8x16_splat(-128), i8x16_splat(-1)));
    let sums = i32x4_relaxed_dot_i8x16_i7x16_add(weights, inputs, i32x4_splat(0));
    i32x4_extract_lane::<0>(sums) != 2 * i32::from(i16::MIN)
}

/// The products on WebAssembly's vectors.
#[cfg(target_arch = "wasm32")]
mod lanes {
    use std::arch::wasm32::*;

    use super::OUTPUTS;

    pub(super) use super::super::whole as sums;

    pub(super) type Sums = [v128; 2];

    pub(super) const ZERO: Sums = [i32x4(0, 0, 0, 0); 2];

    #[inline(always)]
    pub(super) fn add_products(acc: &mut Sums, weights: [v128; 2], inputs: i32) {
        let inputs = i32x4_splat(inputs);
        acc[0] = i32x4_relaxed_dot_i8x16_i7x16_add(weights[0], inputs, acc[0]);
        acc[1] = i32x4_relaxed_dot_i8x16_i7x16_add(weights[1], inputs, acc[1]);
    }

    #[inline(always)]
    pub(super) fn shift_and_subtract(acc: Sums, offsets: &[i32; OUTPUTS]) -> Sums {
        let [a, b, c, d, e, f, g, h] = *offsets;
        [
            i32x4_sub(i32x4_shl(acc[0], 7), i32x4(a, b, c, d)),
            i32x4_sub(i32x4_shl(acc[1], 7), i32x4(e, f, g, h)),
        ]
    }
}

/// The same in plain arrays, for tests.
#[cfg(not(target_arch = "wasm32"))]
mod lanes {
    use super::OUTPUTS;

    pub(super) type Sums = [i32; OUTPUTS];

    pub(super) const ZERO: Sums = [0; OUTPUTS];

    #[inline(always)]
    pub(super) fn add_products(acc: &mut Sums, weights: [[i8; 16]; 2], inputs: i32) {
        let inputs = inputs.to_le_bytes();
        for (acc, weights) in acc.iter_mut().zip(weights.as_flattened().as_chunks::<4>().0) {
            // The pairs of products saturate, as those of `pmaddubsw` do.
            let product = |i: usize| i32::from(weights[i]) * i32::from(inputs[i]);
            let pair =
                |i: usize| (product(i) + product(i + 1)).clamp(i32::from(i16::MIN), i32::from(i16::MAX));
            *acc = acc.wrapping_add(pair(0) + pair(2));
        }
    }

    #[inline(always)]
    pub(super) fn shift_and_subtract(acc: Sums, offsets: &[i32; OUTPUTS]) -> Sums {
        std::array::from_fn(|j| (acc[j] << 7).wrapping_sub(offsets[j]))
    }

    #[inline(always)]
    pub(super) fn sums(acc: Sums) -> Sums {
        acc
    }
}
