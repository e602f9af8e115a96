//! Elementwise functions in forms that vectorise: no branches, no tables, no library calls. The coefficients
//! are our own minimax fits.
#![allow(clippy::approx_constant, reason = "a fitted coefficient may come near a constant that it is not")]

use super::vector::Simd;

/// Lanes of the explicit partial sums; a multiple of every instruction set's vector width.
pub(super) const LANES: usize = 16;

/// Returns `a * b + c`, fused where that is one instruction.
#[inline(always)]
fn mul_add<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Returns the polynomial of the coefficients, lowest power first, at `x` (Horner's scheme).
///
/// The loop counts by itself: an iterator is unrolled only after the loops around it were looked at, which then stay
/// scalar where a crate is compiled as one unit.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut power = N - 1;
    while power > 0 {
        power -= 1;
        sum = mul_add::<S>(sum, x, coefficients[power]);
    }
    sum
}

/// Returns `x` kept within `low` and `high`. NaN is ignored, unlike in `f32::min`, so that each bound is a single
/// instruction.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// Returns the error function, within 5e-7: an odd rational function of degree 11/10 on `[-4, 4]`, exactly ±1 beyond.
#[inline(always)]
pub(super) fn erf<S: Simd>(x: f32) -> f32 {
    let x = clamp(x, -4.0, 4.0);
    let square = x * x;
    let above = polynomial::<S, 6>(
        square,
        [1.128379, 0.196_249_65, 0.053_467_55, 0.004_003_669, 0.000_288_041_1, 1.974_815_2e-6],
    );
    let below = polynomial::<S, 6>(
        square,
        [1.0, 0.507_252_9, 0.116_476_685, 0.015_444_471, 0.001_216_363_9, 3.748_068_8e-5],
    );
    clamp(x * above / below, -1.0, 1.0)
}

/// Returns the GELU in its exact form, `x/2 (1 + erf(x/√2))` (Hendrycks & Gimpel 2016).
#[inline(always)]
pub(super) fn gelu<S: Simd>(x: f32) -> f32 {
    let half = 0.5 * x;
    mul_add::<S>(half, erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2), half)
}

/// Returns `e^x` for `x <= 0`, within 2e-7 relative; from -87 down it is 0, so that a masked score has no weight. With a
/// weight of 1e-38 the gradients of padding were subnormal numbers, with which a processor computes far slower.
#[inline(always)]
pub(super) fn exp_negative<S: Simd>(x: f32) -> f32 {
    // Added and taken off again, it rounds to a whole number, which then lies in the low mantissa bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first short enough that its products with whole numbers are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let is_kept = x > -87.0;
    let x = if is_kept { x } else { -87.0 };
    let shifted = mul_add::<S>(x, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = mul_add::<S>(whole, -LN_2_LOW, mul_add::<S>(whole, -LN_2_HIGH, x));
    let fraction = polynomial::<S, 7>(
        rest * std::f32::consts::LOG2_E,
        [1.0, 0.693_147_2, 0.240_226_48, 0.055_503_324, 0.009_618_437, 0.001_339_887_4, 0.000_153_533_62],
    );
    // The whole part goes straight into the exponent; at least -126, so the result stays a normal number.
    let power = f32::from_bits(fraction.to_bits().wrapping_add(shifted.to_bits() << 23));
    if is_kept { power } else { 0.0 }
}

/// Returns the SiLU, `x / (1 + e^-x)` (Hendrycks & Gimpel 2016).
#[inline(always)]
pub(super) fn silu<S: Simd>(x: f32) -> f32 {
    let small = exp_negative::<S>(-x.abs());
    let numerator = if x >= 0.0 { 1.0 } else { small };
    x * numerator / (1.0 + small)
}

/// Returns the reduction of the lanes by `join`: pairwise, in a tree of four levels, or from the first lane to the last
/// in a browser module, where that is less code.
#[inline(always)]
pub(super) fn reduce(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    if cfg!(target_arch = "wasm32") {
        return lanes[1..].iter().fold(lanes[0], |a, b| join(a, *b));
    }
    // A loop for each level: one around them is not unrolled, and its lanes go through memory one by one.
    for lane in 0..8 {
        lanes[lane] = join(lanes[lane], lanes[lane + 8]);
    }
    for lane in 0..4 {
        lanes[lane] = join(lanes[lane], lanes[lane + 4]);
    }
    for lane in 0..2 {
        lanes[lane] = join(lanes[lane], lanes[lane + 2]);
    }
    lanes[0] = join(lanes[0], lanes[1]);
    lanes[0]
}

/// Returns the sum of `term` over `values`, in `LANES` partial sums that are then added in a fixed order, so the
/// result depends on the values alone.
#[inline(always)]
fn sum_by(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0f32; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += term(*value);
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += term(*value);
    }
    reduce(sums, |a, b| a + b)
}

/// Returns the largest absolute value of a row, NaN where the row holds one.
#[inline(always)]
pub(super) fn max_abs(values: &[f32]) -> f32 {
    // Four lanes in WebAssembly, whose vectors have 128 bits: more would make the module larger.
    const WIDTH: usize = if cfg!(target_arch = "wasm32") { 4 } else { LANES };
    // The bits of numbers without a sign are in the order of the numbers, and those of NaN are above them.
    let larger = |best: &mut u32, value: &f32| *best = value.abs().to_bits().max(*best);
    let (chunks, rest) = values.as_chunks::<WIDTH>();
    let mut best = [0; WIDTH];
    for chunk in chunks {
        best.iter_mut().zip(chunk).for_each(|(best, value)| larger(best, value));
    }
    best.iter_mut().zip(rest).for_each(|(best, value)| larger(best, value));
    f32::from_bits(best.into_iter().fold(0, u32::max))
}

/// Returns the largest value of a row, or `least`. NaN are passed over.
#[inline(always)]
fn max(values: &[f32], least: f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut best = [least; LANES];
    for chunk in chunks {
        for (best, value) in best.iter_mut().zip(chunk) {
            *best = if *value > *best { *value } else { *best };
        }
    }
    for (best, value) in best.iter_mut().zip(rest) {
        *best = if *value > *best { *value } else { *best };
    }
    reduce(best, |a, b| if b > a { b } else { a })
}

/// Returns the derivative of [`gelu`]: `Φ(x) + x φ(x)`.
#[cfg(feature = "autodiff")]
#[inline(always)]
pub(super) fn gelu_derivative<S: Simd>(x: f32) -> f32 {
    const INVERSE_ROOT_TAU: f32 = 0.398_942_3;
    let below = mul_add::<S>(0.5, erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2), 0.5);
    mul_add::<S>(x * INVERSE_ROOT_TAU, exp_negative::<S>(-0.5 * x * x), below)
}

/// Returns the sum of `term` over two rows, in a fixed order.
#[cfg(feature = "autodiff")]
#[inline(always)]
pub(super) fn row_sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += term(*a, *b);
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum += term(*a, *b);
    }
    reduce(sums, |a, b| a + b)
}

/// Replaces scores by `e^(score - max)` and returns one over their sum: a softmax but for that factor.
#[inline(always)]
pub(super) fn softmax_numerators<S: Simd>(scores: &mut [f32]) -> f32 {
    let max = max(scores, f32::MIN);
    if cfg!(target_arch = "wasm32") {
        // Less code than one loop for both.
        for score in scores.iter_mut() {
            *score = exp_negative::<S>(*score - max);
        }
        return 1.0 / sum_by(scores, |score| score);
    }
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    let mut sums = [0f32; LANES];
    for chunk in chunks {
        for (sum, score) in sums.iter_mut().zip(chunk) {
            *score = exp_negative::<S>(*score - max);
            *sum += *score;
        }
    }
    for (sum, score) in sums.iter_mut().zip(rest) {
        *score = exp_negative::<S>(*score - max);
        *sum += *score;
    }
    1.0 / reduce(sums, |a, b| a + b)
}

/// Scales a row to mean 0 and variance 1, then by `weight` and `bias`, in place (Ba et al. 2016).
#[inline(always)]
pub(super) fn layer_norm<S: Simd>(row: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    let scale = 1.0 / row.len() as f32;
    let mean = sum_by(row, |x| x) * scale;
    let variance = sum_by(row, |x| (x - mean) * (x - mean)) * scale;
    let inverse = 1.0 / (variance + eps).sqrt();
    for ((x, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
        *x = mul_add::<S>((*x - mean) * inverse, *weight, *bias);
    }
}

#[cfg(test)]
mod tests {
    use super::super::vector::Portable;
    use super::*;

    /// Single numbers with a fused multiply-add, which the portable vectors lack.
    struct Fused;

    impl Simd for Fused {
        type V = f32;
        const LANES: usize = 1;
        const FMA: bool = true;
        fn splat(x: f32) -> f32 {
            x
        }
        fn load(from: &[f32], at: usize) -> f32 {
            from[at]
        }
        fn store(v: f32, to: &mut [f32], at: usize) {
            to[at] = v;
        }
        fn mul_add(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }
        fn fused(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }
        fn add(a: f32, b: f32) -> f32 {
            a + b
        }
        fn mul(a: f32, b: f32) -> f32 {
            a * b
        }
        fn min(a: f32, b: f32) -> f32 {
            a.min(b)
        }
        fn max(a: f32, b: f32) -> f32 {
            a.max(b)
        }
        fn least(v: f32) -> f32 {
            v
        }
        fn greatest(v: f32) -> f32 {
            v
        }
        fn at_least(a: f32, b: f32) -> u32 {
            u32::from(a >= b)
        }
    }

    /// Returns erf by its Taylor series and, far out, by its continued fraction; both in f64.
    fn erf_reference(x: f64) -> f64 {
        if x.abs() < 3.0 {
            let (mut term, mut sum) = (x, x);
            for n in 1..120 {
                term *= -x * x / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            return sum * 2.0 / std::f64::consts::PI.sqrt();
        }
        let z = x.abs();
        let tail = (1..=60).rev().fold(z, |below, n| z + f64::from(n) / 2.0 / below);
        (1.0 - (-z * z).exp() / (tail * std::f64::consts::PI.sqrt())).copysign(x)
    }

    #[test]
    fn erf_and_gelu_are_within_a_millionth() {
        assert!((erf_reference(1.0) - 0.842_700_792_949_714_9).abs() < 1e-15);
        for step in -80_000..=80_000 {
            let x = step as f32 * 1e-4;
            let exact = erf_reference(f64::from(x));
            assert!((f64::from(erf::<Portable>(x)) - exact).abs() < 6e-7, "erf({x})");
            assert!((f64::from(erf::<Fused>(x)) - exact).abs() < 6e-7, "fused erf({x})");
            let exact = f64::from(x) / 2.0 * (1.0 + erf_reference(f64::from(x) / 2f64.sqrt()));
            let got = f64::from(gelu::<Fused>(x));
            assert!((got - exact).abs() < 1e-6, "gelu({x}) is {got}, not {exact}");
        }
    }

    #[test]
    fn gelu_has_the_right_tails() {
        for x in [6f32, 40.0, 1e4, 3e38] {
            assert_eq!((gelu::<Fused>(x), gelu::<Portable>(-x)), (x, 0.0));
        }
        assert_eq!(gelu::<Portable>(0.0), 0.0);
    }

    #[test]
    fn exp_is_within_a_few_units_in_the_last_place() {
        for step in 0..870_000 {
            let x = step as f32 * -1e-4;
            let exact = f64::from(x).exp();
            for got in [exp_negative::<Portable>(x), exp_negative::<Fused>(x)] {
                assert!((f64::from(got) / exact - 1.0).abs() < 3e-7, "exp({x}) is {got}, not {exact}");
            }
        }
        assert_eq!([-87.0, -1e4, -1e30].map(exp_negative::<Portable>), [0.0; 3]);
    }

    #[test]
    fn silu_is_within_a_millionth() {
        for step in -60_000..=60_000 {
            let x = step as f32 * 1e-3;
            let exact = f64::from(x) / (1.0 + (-f64::from(x)).exp());
            for got in [silu::<Portable>(x), silu::<Fused>(x)] {
                assert!((f64::from(got) - exact).abs() <= 1e-6 * exact.abs().max(1.0), "silu({x}) is {got}");
            }
        }
        assert_eq!((silu::<Portable>(3e38), silu::<Portable>(0.0)), (3e38, 0.0));
    }

    #[test]
    fn numerators_do_not_depend_on_keys_of_minus_infinity() {
        for keys in [1usize, 7, 15, 16, 17, 31, 32, 33, 160] {
            let mut alone: Vec<f32> = (0..keys).map(|i| (i * 37 % 11) as f32 * 0.7 - 40.0).collect();
            let mut padded = alone.clone();
            padded.resize(keys.next_multiple_of(LANES), f32::NEG_INFINITY);
            let factors = [&mut alone, &mut padded].map(|row| softmax_numerators::<Fused>(row));
            assert_eq!(factors[0], factors[1], "{keys} keys");
            assert_eq!(alone, padded[..keys]);
            assert!(padded[keys..].iter().all(|x| *x == 0.0), "{padded:?}");
        }
    }

    #[test]
    fn softmax_adds_up_to_one_whatever_the_scores() {
        for length in [1usize, 2, 15, 16, 17, 100] {
            let scores: Vec<f32> = (0..length).map(|i| (i as f32 * 7.3).sin() * 50.0 - 1e4).collect();
            let max = scores.iter().fold(f64::MIN, |max, s| max.max(f64::from(*s)));
            let sum: f64 = scores.iter().map(|s| (f64::from(*s) - max).exp()).sum();
            let mut got = scores.clone();
            let factor = softmax_numerators::<Portable>(&mut got);
            for (got, score) in got.iter().zip(&scores) {
                let exact = (f64::from(*score) - max).exp() / sum;
                assert!((f64::from(got * factor) - exact).abs() < 1e-6, "{length} scores");
            }
        }
    }

    #[test]
    fn the_largest_magnitude_is_nan_where_there_is_one() {
        for length in [1usize, 3, 15, 16, 17, 48, 53] {
            let mut row: Vec<f32> = (0..length).map(|i| (i as f32 * 7.3).sin() * 50.0).collect();
            let most = row.iter().fold(0f32, |most, x| most.max(x.abs()));
            assert_eq!(max_abs(&row), most, "{length} numbers");
            for at in 0..length {
                for bad in [f32::NAN, -f32::NAN, f32::NEG_INFINITY] {
                    let before = std::mem::replace(&mut row[at], bad);
                    let (got, expected) = (max_abs(&row), bad.abs());
                    let is_right = got == expected || got.is_nan() && expected.is_nan();
                    assert!(is_right, "{bad} at {at} of {length}: {got}");
                    row[at] = before;
                }
            }
        }
        assert_eq!((max_abs(&[]), max_abs(&[-0.0, 1e-40])), (0.0, 1e-40));
    }

    #[test]
    fn layer_norm_matches_its_definition() {
        let row: Vec<f32> = (0..37).map(|i| (i as f32).sin() * 3.0 + 100.0).collect();
        let (weight, bias) = (vec![2.0; 37], vec![0.5; 37]);
        let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / 37.0;
        let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 37.0;
        let mut got = row.clone();
        layer_norm::<Fused>(&mut got, &weight, &bias, 1e-12);
        for (got, x) in got.iter().zip(&row) {
            let exact = (f64::from(*x) - mean) / variance.sqrt() * 2.0 + 0.5;
            assert!((f64::from(*got) - exact).abs() < 2e-5, "{got} is not {exact}");
        }
        let mut flat = vec![3.0f32; 8];
        layer_norm::<Portable>(&mut flat, &[1.0; 8], &[0.25; 8], 1e-12);
        assert!(flat.iter().all(|x| *x == 0.25), "a flat row becomes the bias");
    }
}
