//! Codes of a layer's inputs in 8 bits.

use super::super::super::vector::Simd;

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
        for (code, x) in codes.iter_mut().zip(numbers) {
            *code = self.code(*x);
        }
    }

    /// Sets `bytes` to the codes of numbers of the group, in 16 bits each, the low byte first.
    #[inline(always)]
    pub(super) fn write_shorts(&self, numbers: &[f32], bytes: &mut [u8]) {
        for (bytes, x) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *bytes = u16::from(self.code(*x)).to_le_bytes();
        }
    }

    #[inline(always)]
    fn code(&self, x: f32) -> u8 {
        // Added and taken off again, it rounds to a whole number in the low mantissa bits.
        const ROUND: f32 = 12_582_912.0;
        ((x - self.least) * self.inverse + ROUND).to_bits() as u8
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
    // NaN is not at least 0.
    let is_finite = S::at_least(other, S::splat(0.0)) == (1 << S::LANES) - 1;
    let mut least = S::least(low);
    let mut most = S::greatest(high);
    let mut nothing = if is_finite { 0.0 } else { f32::NAN };
    for x in &row[row.len() / S::LANES * S::LANES..] {
        (least, most, nothing) = (least.min(*x), most.max(*x), nothing + x * 0.0);
    }
    (least + nothing, most + nothing)
}
