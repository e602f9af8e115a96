//! The 8-bit kernel that multiplies two 16-bit inputs at a time.
//!
//! A block of weights is `[outputs][2]`, for two inputs; a word holds two inputs, the even one in the low half.

use super::{Block, OFFSET, OUTPUTS, Products, block, code};

/// The kernel of this module.
pub(super) struct Pairs;

impl Products for Pairs {
    #[inline(always)]
    fn length(k: usize) -> usize {
        k.div_ceil(2)
    }

    // Engines of browsers have fifteen vector registers on x86-64, and a product that is not added by the same instruction
    // takes one beside the sums, the weights and the input.
    #[inline(always)]
    fn rows(mr: usize) -> usize {
        if cfg!(target_arch = "wasm32") { 5 } else { mr }
    }

    fn pack(rows: &[&[i8]], k: usize, blocks: &mut Vec<Block>, _: &mut [i32; OUTPUTS]) {
        for pair in 0..k.div_ceil(2) {
            let mut bytes = [0i8; 2 * OUTPUTS];
            for (to, row) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(rows) {
                *to = [row[2 * pair], row.get(2 * pair + 1).copied().unwrap_or(0)];
            }
            blocks.push(block(bytes));
        }
    }

    #[inline(always)]
    fn fill(row: &[f32], inverse: f32, to: &mut [i32]) {
        let whole = |x: f32| code(x, inverse).wrapping_sub(OFFSET as u32);
        let (pairs, odd) = row.as_chunks::<2>();
        for (to, [even, odd]) in to.iter_mut().zip(pairs) {
            *to = (whole(*even) & 0xffff | whole(*odd) << 16) as i32;
        }
        if let ([last], Some(to)) = (odd, to.last_mut()) {
            *to = (whole(*last) & 0xffff) as i32;
        }
    }

    #[inline(always)]
    fn sums<const ROWS: usize>(
        rows: [&[i32]; ROWS],
        panel: &[Block],
        _: &[i32; OUTPUTS],
    ) -> [[i32; OUTPUTS]; ROWS] {
        let rows: [&[i32]; ROWS] = std::array::from_fn(|i| &rows[i][..panel.len()]);
        let mut acc = [lanes::ZERO; ROWS];
        for k in 0..panel.len() {
            let weights = lanes::widen(panel[k]);
            for i in 0..ROWS {
                lanes::add_products(&mut acc[i], weights, rows[i][k]);
            }
        }
        acc.map(lanes::sums)
    }
}

/// The products on WebAssembly's vectors, which LLVM does not find by itself.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lanes {
    use std::arch::wasm32::*;

    pub(super) use super::super::whole as sums;

    pub(super) const ZERO: [v128; 2] = [i32x4(0, 0, 0, 0); 2];

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
}

/// The same in plain arrays.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod lanes {
    use super::OUTPUTS;

    pub(super) const ZERO: [i32; OUTPUTS] = [0; OUTPUTS];

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
