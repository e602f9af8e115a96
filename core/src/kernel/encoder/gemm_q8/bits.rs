//! Bits of the inputs of 8-bit products.

use super::super::super::math::max_abs;

/// Largest magnitude of a signed 14-bit input, which two 7-bit digits hold.
pub(super) const MOST_OF_14_BITS: usize = (1 << 13) - 1;

/// Largest magnitude of an input in 7 bits. It could be 63; with 47, sums of four products fit in 16 bits for all but
/// few weights.
pub(super) const MOST_OF_7_BITS: usize = 47;

/// Inputs of a token that keep 14 bits where the others have 7.
pub(super) const OUTLIERS: usize = 2;

/// The whole numbers that inputs are rounded to, of one scale a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum InputBits {
    /// 16 bits.
    #[cfg_attr(not(target_arch = "wasm32"), default)]
    Sixteen,
    /// 14 bits.
    #[cfg_attr(target_arch = "wasm32", default)]
    Fourteen,
    /// 7 bits, and 14 for the [`OUTLIERS`] inputs of a token that are largest and would make the steps of the others
    /// coarse (encoders have channels with outliers: Dettmers et al. 2022, LLM.int8(), section 3).
    Seven,
}

impl InputBits {
    /// Most bits that a target has for inputs. In browser modules these are 14, so that sums are equal with and
    /// without relaxed SIMD.
    pub(in super::super) const MOST: Self =
        if cfg!(target_arch = "wasm32") { Self::Fourteen } else { Self::Sixteen };

    /// Bits for scores that only put passages in order.
    pub(in super::super) const RANKING: Self =
        if cfg!(target_arch = "wasm32") { Self::Seven } else { Self::MOST };

    /// Returns the inverse scale, which makes whole numbers of the inputs of a token, and the scale. Sums of weights
    /// of 8 bits times such inputs fit in 32 bits. Where an input is not finite, the inverse is 0 and the scale is not
    /// finite either, so that products of the token are NaN.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    pub(super) fn inverse_and_scale(self, row: &[f32]) -> (f32, f32) {
        let limit = match self {
            Self::Sixteen => i16::MAX as usize,
            Self::Fourteen => MOST_OF_14_BITS,
            Self::Seven => return seven(row),
        };
        of(max_abs(row), input_limit(row.len(), limit))
    }
}

/// Returns the inverse scale and the scale by which the magnitude `max` becomes `limit`.
fn of(max: f32, limit: f32) -> (f32, f32) {
    (if max > 0.0 { limit / max } else { 0.0 }, max / limit)
}

#[inline(always)]
fn seven(row: &[f32]) -> (f32, f32) {
    let largest = largest(row);
    let (first, third) = (largest[0], largest[OUTLIERS]);
    let most_of_14 = MOST_OF_14_BITS as f32;
    let limit = limit_beside(OUTLIERS * MOST_OF_14_BITS, row.len(), MOST_OF_7_BITS);
    if !first.is_finite() {
        return (0.0, f32::NAN);
    }
    // Divided first: the product of a large input could be infinite.
    if first > third * (most_of_14 / limit) { of(first, most_of_14) } else { of(third, limit) }
}

/// Returns the largest magnitudes of a row, the largest first, 0 where there are fewer. NaN are above all others.
#[inline(always)]
fn largest(row: &[f32]) -> [f32; OUTLIERS + 1] {
    let mut lanes = [lanes::ZERO; OUTLIERS + 1];
    let (chunks, rest) = row.as_chunks();
    let mut last = [0f32; lanes::LANES];
    last[..rest.len()].copy_from_slice(rest);
    for chunk in chunks.iter().chain([&last]) {
        let mut values = lanes::magnitudes(chunk);
        for largest in &mut lanes {
            (*largest, values) = lanes::sorted(*largest, values);
        }
    }
    let mut largest = [0u32; OUTLIERS + 1];
    for mut value in lanes.into_iter().flat_map(lanes::array) {
        for largest in &mut largest {
            (*largest, value) = if value > *largest { (value, *largest) } else { (*largest, value) };
        }
    }
    largest.map(f32::from_bits)
}

/// Returns the largest input up to `most` that cannot overflow a sum over `k` inputs, with weights down to -128.
fn input_limit(k: usize, most: usize) -> f32 {
    limit_beside(0, k, most)
}

/// Returns the limit of [`input_limit`] where magnitudes of inputs that add up to `outliers` are in the sum too.
fn limit_beside(outliers: usize, k: usize, most: usize) -> f32 {
    ((i32::MAX as usize / 128 - outliers) / k.max(1)).min(most) as f32
}

/// Magnitudes by fours, as the whole numbers of their bits: these are in the order of the magnitudes, and those of NaN
/// above them.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lanes {
    use std::arch::wasm32::*;

    pub(super) const LANES: usize = 4;
    pub(super) const ZERO: v128 = u32x4(0, 0, 0, 0);

    #[inline(always)]
    pub(super) fn magnitudes(x: &[f32; LANES]) -> v128 {
        f32x4_abs(f32x4(x[0], x[1], x[2], x[3]))
    }

    /// Returns the larger and the smaller ones.
    #[inline(always)]
    pub(super) fn sorted(a: v128, b: v128) -> (v128, v128) {
        (u32x4_max(a, b), u32x4_min(a, b))
    }

    pub(super) fn array(v: v128) -> [u32; LANES] {
        [
            u32x4_extract_lane::<0>(v),
            u32x4_extract_lane::<1>(v),
            u32x4_extract_lane::<2>(v),
            u32x4_extract_lane::<3>(v),
        ]
    }
}

/// The same in plain arrays.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod lanes {
    pub(super) const LANES: usize = 4;
    pub(super) const ZERO: [u32; LANES] = [0; LANES];

    pub(super) fn magnitudes(x: &[f32; LANES]) -> [u32; LANES] {
        x.map(|x| x.abs().to_bits())
    }

    pub(super) fn sorted(a: [u32; LANES], b: [u32; LANES]) -> ([u32; LANES], [u32; LANES]) {
        let (mut larger, mut smaller) = (a, b);
        for (larger, smaller) in larger.iter_mut().zip(&mut smaller) {
            if *larger < *smaller {
                std::mem::swap(larger, smaller);
            }
        }
        (larger, smaller)
    }

    pub(super) fn array(x: [u32; LANES]) -> [u32; LANES] {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outliers_leave_the_others_their_bits() {
        let mut x: Vec<f32> = (0..385).map(|at| if at % 3 == 0 { -1.0 } else { 0.5 }).collect();
        let seven = |x: &[f32]| InputBits::Seven.inverse_and_scale(x);
        assert_eq!(seven(&x), (47.0, 1.0 / 47.0));
        (x[7], x[384]) = (50.0, -90.0);
        assert_eq!(seven(&x), (47.0, 1.0 / 47.0));
        // Beyond 14 bits the steps of the others grow.
        x[7] = 1000.0;
        assert_eq!(seven(&x), (8191.0 / 1000.0, 1000.0 / 8191.0));
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut x = x.clone();
            x[8] = bad;
            assert!(seven(&x).0 == 0.0 && seven(&x).1.is_nan(), "{bad}");
        }
        // Inputs whose products with limits are beyond single precision.
        assert_eq!(seven(&[3e38, 1e36, 1e36]), of(3e38, 8191.0));
        assert_eq!(seven(&[3e38, -3e38, 3e38]), of(3e38, 47.0));
    }

    #[test]
    fn sums_of_many_inputs_and_outliers_fit_in_32_bits() {
        for k in [1, 384, 364_374, 838_512, 1 << 20] {
            let (inverse, _) = seven(&vec![1.0; k]);
            let most = (k as f64 * f64::from(inverse.floor()) + (OUTLIERS * MOST_OF_14_BITS) as f64) * 128.0;
            assert!(most <= f64::from(i32::MAX), "{k} inputs up to {inverse}");
        }
    }

    #[test]
    fn the_largest_are_found_wherever_they_are() {
        for at in 0..9 {
            let mut x = [0.1f32; 11];
            (x[at], x[at + 2]) = (-3.0, 2.0);
            assert_eq!(largest(&x), [3.0, 2.0, 0.1], "from {at} on");
            for nan in [f32::NAN, -f32::NAN] {
                x[at + 1] = nan;
                let [first, second, third] = largest(&x);
                assert!(first.is_nan() && (second, third) == (3.0, 2.0), "from {at} on");
            }
        }
        assert_eq!(largest(&[-4.0]), [4.0, 0.0, 0.0]);
        assert_eq!(largest(&[]), [0.0; 3]);
    }
}
