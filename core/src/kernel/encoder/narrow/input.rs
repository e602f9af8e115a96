//! Inputs of a layer in narrow numbers.

use super::super::super::dot::to_bf16;
use super::GROUP;

/// Inputs of a product in narrow numbers; reused from one product to the next.
#[derive(Debug, Default)]
pub(in super::super) struct NarrowInput {
    /// `[m][ceil(k / numbers in a word)]`.
    pub(super) words: Vec<u32>,
    /// In 8 bits, the scale and the offset of each group of inputs, `[m, groups]`.
    pub(super) scales: Vec<[f32; 2]>,
    /// The codes of one token.
    codes: Vec<u8>,
}

impl NarrowInput {
    /// Replaces the contents by `x`, row-major `[m, k]`, in bf16.
    #[inline(always)]
    pub(super) fn fill_bf16(&mut self, x: &[f32], k: usize) {
        let stride = k.div_ceil(2);
        self.words.resize(x.len() / k * stride, 0);
        for (row, to) in x.chunks_exact(k).zip(self.words.chunks_exact_mut(stride)) {
            let (pairs, odd) = row.as_chunks::<2>();
            for (to, [low, high]) in to.iter_mut().zip(pairs) {
                *to = to_bf16(*low) | to_bf16(*high) << 16;
            }
            if let ([last], Some(to)) = (odd, to.last_mut()) {
                *to = to_bf16(*last);
            }
        }
    }

    /// Replaces the contents by `x`, row-major `[m, k]`, in 8 bits. The scale of a group with a number that is not
    /// finite is NaN, and so are its products.
    #[inline(always)]
    pub(super) fn fill_int8(&mut self, x: &[f32], k: usize) {
        // Added and taken off again, it rounds to a whole number in the low mantissa bits.
        const ROUND: f32 = 12_582_912.0;
        let stride = k.div_ceil(4);
        self.words.resize(x.len() / k * stride, 0);
        self.codes.clear();
        self.codes.resize(4 * stride, 0);
        self.scales.clear();
        for (row, to) in x.chunks_exact(k).zip(self.words.chunks_exact_mut(stride)) {
            for (group, codes) in row.chunks(GROUP).zip(self.codes.chunks_mut(GROUP)) {
                let (least, most) = bounds(group);
                let inverse = if most > least { 255.0 / (most - least) } else { 0.0 };
                for (code, x) in codes.iter_mut().zip(group) {
                    *code = ((x - least) * inverse + ROUND).to_bits() as u8;
                }
                self.scales.push([(most - least) / 255.0, least]);
            }
            for (to, codes) in to.iter_mut().zip(self.codes.as_chunks::<4>().0) {
                *to = u32::from_le_bytes(*codes);
            }
        }
    }
}

/// Returns the least and the greatest number of a row, both NaN if one is not finite.
#[inline(always)]
fn bounds(row: &[f32]) -> (f32, f32) {
    const LANES: usize = 16;
    let first = row.first().copied().unwrap_or_default();
    // `x * 0.0` is 0 but for what is not finite.
    let (mut least, mut most, mut nothing) = ([first; LANES], [first; LANES], [0f32; LANES]);
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut see = |lane: usize, x: f32| {
        least[lane] = if x < least[lane] { x } else { least[lane] };
        most[lane] = if x > most[lane] { x } else { most[lane] };
        nothing[lane] += x * 0.0;
    };
    for chunk in chunks {
        for (lane, x) in chunk.iter().enumerate() {
            see(lane, *x);
        }
    }
    for (lane, x) in rest.iter().enumerate() {
        see(lane, *x);
    }
    let nothing: f32 = nothing.iter().sum();
    let least = least.iter().fold(first, |a, b| if *b < a { *b } else { a });
    let most = most.iter().fold(first, |a, b| if *b > a { *b } else { a });
    (least + nothing, most + nothing)
}
