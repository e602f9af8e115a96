//! Inputs of a layer in narrow numbers.

use super::super::super::dot::to_bf16;
use super::super::super::math::{LANES, reduce};
use super::super::super::vector::Simd;
use super::GROUP;
#[cfg(target_arch = "x86_64")]
use super::tiles::TileInput;

/// Inputs of a product in narrow numbers; reused from one product to the next.
#[derive(Debug, Default)]
pub(in super::super) struct NarrowInput {
    /// In bf16, `[m][ceil(k / 2)]`.
    pub(super) words: Vec<u32>,
    /// In 8 bits, the codes of each four inputs, `[m][ceil(k / 4)]`. Codes beyond `k` have no meaning: their weights
    /// are 0.
    pub(super) codes: Vec<[u8; 4]>,
    /// In 8 bits, the scale and the offset of each group of inputs, `[m, groups]`.
    pub(super) scales: Vec<[f32; 2]>,
    #[cfg(target_arch = "x86_64")]
    pub(super) tiles: TileInput,
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
    pub(super) fn fill_int8<S: Simd>(&mut self, x: &[f32], k: usize) {
        let stride = k.div_ceil(4);
        self.codes.resize(x.len() / k * stride, [0; 4]);
        self.scales.clear();
        for (row, to) in x.chunks_exact(k).zip(self.codes.chunks_exact_mut(stride)) {
            for (group, codes) in row.chunks(GROUP).zip(to.as_flattened_mut().chunks_mut(GROUP)) {
                let codes_of = Codes::of::<S>(group);
                codes_of.write(group, codes);
                self.scales.push(codes_of.scale_and_offset());
            }
        }
    }
}

/// The codes of a group of inputs: their distance from the least, in so many parts of the distance to the greatest.
pub(super) struct Codes {
    least: f32,
    most: f32,
    inverse: f32,
}

impl Codes {
    /// Returns the codes of `group`.
    #[inline(always)]
    pub(super) fn of<S: Simd>(group: &[f32]) -> Self {
        let (least, most) = bounds::<S>(group);
        let inverse = if most > least { 255.0 / (most - least) } else { 0.0 };
        Self { least, most, inverse }
    }

    /// Sets `codes` to those of numbers of the group.
    #[inline(always)]
    pub(super) fn write(&self, numbers: &[f32], codes: &mut [u8]) {
        // Added and taken off again, it rounds to a whole number in the low mantissa bits.
        const ROUND: f32 = 12_582_912.0;
        for (code, x) in codes.iter_mut().zip(numbers) {
            *code = ((x - self.least) * self.inverse + ROUND).to_bits() as u8;
        }
    }

    /// Returns the scale and the offset of the codes.
    #[inline(always)]
    pub(super) fn scale_and_offset(&self) -> [f32; 2] {
        [(self.most - self.least) / 255.0, self.least]
    }
}

/// Returns the least and the greatest number of a row, both NaN if one is not finite.
#[inline(always)]
fn bounds<S: Simd>(row: &[f32]) -> (f32, f32) {
    let first = row.first().copied().unwrap_or_default();
    let [mut low, mut high] = [S::splat(first); 2];
    // `x * 0.0` is 0 but for what is not finite.
    let mut other = S::splat(0.0);
    for v in 0..row.len() / S::LANES {
        let x = S::load(row, v);
        (low, high, other) = (S::min(low, x), S::max(high, x), S::mul_add(x, S::splat(0.0), other));
    }
    let least_of = |a, b| if b < a { b } else { a };
    let most_of = |a, b| if b > a { b } else { a };
    let mut least = reduce_vector::<S>(low, first, least_of);
    let mut most = reduce_vector::<S>(high, first, most_of);
    let mut nothing = reduce_vector::<S>(other, 0.0, |a, b| a + b);
    for x in &row[row.len() / S::LANES * S::LANES..] {
        (least, most, nothing) = (least_of(least, *x), most_of(most, *x), nothing + x * 0.0);
    }
    (least + nothing, most + nothing)
}

/// Returns the reduction of a vector's lanes by `join`. `neutral`, which changes no result, fills the lanes up to
/// [`LANES`].
#[inline(always)]
fn reduce_vector<S: Simd>(vector: S::V, neutral: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [neutral; LANES];
    S::store(vector, &mut lanes, 0);
    reduce(lanes, join)
}
