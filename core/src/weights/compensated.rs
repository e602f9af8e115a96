//! Rounding to 4 bits in which the weights that are rounded later compensate for the errors of those before them, as in
//! GPTQ (Frantar et al. 2023, arXiv 2210.17323).
//!
//! A row `w` that is rounded to `q` changes the outputs of its layer by `(w - q) · x`: for inputs `x` with second
//! moments `H = E[x xᵀ]`, the Hessian, by a mean square of `(w - q)ᵀ H (w - q)`. With the Cholesky factor `H = L Lᵀ`
//! the weights are rounded from the last to the first, each to the code that is nearest to the minimum for the errors
//! so far: Babai's nearest plane, which gives GPTQ's codes without an inverse (Chen et al. 2025, arXiv 2507.18553).

use super::four_bits::{FourBits, GROUP, best_step, code, fits_groups, pack, row_scale};

/// The Hessian of a linear layer's squared output errors, which is the second moments of its inputs, in factored form.
#[derive(Clone, Debug, PartialEq)]
pub struct HessianFactor {
    /// `[inputs]`: the inputs in the order in which their weights are rounded.
    order: Vec<usize>,
    /// `[inputs]`: the diagonal of the Hessian, by input.
    diagonal: Vec<f32>,
    /// The unit-triangular Cholesky factor, packed: for each place in the order the factors of the errors of the
    /// weights before it, 0, 1, 2 … numbers.
    unit_lower: Vec<f32>,
}

impl HessianFactor {
    /// Returns the factored Hessian of inputs whose weights are rounded in `order`; `diagonal`, `[inputs]`, is its
    /// diagonal by input. `lower(row, column)`, for `column <= row < inputs`, is its lower Cholesky factor with rows
    /// and columns in the reverse of `order`. Either may be scaled by any positive number.
    ///
    /// Returns `None` where `order` does not name every input once, a number is not finite, a number of `diagonal` is
    /// negative or one on the factor's diagonal not positive.
    pub fn new(order: Vec<usize>, diagonal: Vec<f32>, lower: impl Fn(usize, usize) -> f64) -> Option<Self> {
        let inputs = diagonal.len();
        let mut named = vec![false; inputs];
        for input in &order {
            let seen = named.get_mut(*input).filter(|seen| !**seen)?;
            *seen = true;
        }
        let mut unit_lower = Vec::with_capacity(inputs * inputs.saturating_sub(1) / 2);
        for place in 0..inputs {
            let column = inputs - 1 - place;
            let pivot = lower(column, column);
            if !(pivot.is_finite() && pivot > 0.0) {
                return None;
            }
            unit_lower.extend((0..place).map(|before| (lower(inputs - 1 - before, column) / pivot) as f32));
        }
        let is_whole = order.len() == inputs
            && unit_lower.iter().all(|number| number.is_finite())
            && diagonal.iter().all(|number| number.is_finite() && *number >= 0.0);
        is_whole.then_some(Self { order, diagonal, unit_lower })
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.order.len()
    }
}

/// Returns a 4-bit copy of a matrix `[rows, inputs]` as [`quantize_groups`](super::quantize_groups) does, but with
/// small errors of the layer's outputs, for inputs of this Hessian, instead of the least errors of each weight. A
/// group's step has the least squared error weighted by the Hessian's diagonal.
///
/// Returns `None` where the inputs are not a whole number of groups.
pub fn quantize_groups_for(values: &[f32], hessian: &HessianFactor) -> Option<FourBits> {
    let columns = hessian.order.len();
    if !fits_groups(columns) {
        return None;
    }
    let weights = hessian.diagonal.as_chunks::<GROUP>().0;
    let mut quantized =
        FourBits { codes: Vec::with_capacity(values.len() / 2), steps: vec![], scales: vec![] };
    let (mut codes, mut errors) = (vec![0i8; columns], vec![0f32; columns]);
    for row in values.chunks_exact(columns) {
        let scale = row_scale(row);
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let row: Vec<f32> = row.iter().map(|value| value * inverse).collect();
        let first_step = quantized.steps.len();
        let groups = row.as_chunks::<GROUP>().0.iter().zip(weights);
        quantized.steps.extend(groups.map(|(group, weights)| best_step(group, weights)));
        let steps = &quantized.steps[first_step..];
        let mut factors = hessian.unit_lower.as_slice();
        for (place, input) in hessian.order.iter().enumerate() {
            let (of_place, rest) = factors.split_at(place);
            factors = rest;
            let step = steps[input / GROUP];
            let code = code(row[*input] + dot(of_place, &errors[..place]), step);
            codes[*input] = code;
            errors[place] = row[*input] - f32::from(code) * f32::from(step);
        }
        quantized.codes.extend(codes.as_chunks::<GROUP>().0.iter().flat_map(pack));
        quantized.scales.push(scale);
    }
    Some(quantized)
}

/// Returns the sum of the products of two vectors of the same length.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    /// Sums side by side, which the compiler keeps in vectors.
    const LANES: usize = 16;
    let (a, b) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0f32; LANES];
    for (a, b) in a.0.iter().zip(b.0) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    let rest = a.1.iter().zip(b.1).map(|(a, b)| a * b);
    sums.into_iter().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::super::quantize_groups;
    use super::*;
    use crate::random::SplitMix;

    fn unit(row: usize, column: usize) -> f64 {
        f64::from(u8::from(row == column))
    }

    #[test]
    fn independent_inputs_of_one_size_give_the_codes_of_plain_rounding() {
        let mut random = SplitMix::keyed(&[4]);
        let values: Vec<f32> = (0..3 * 64).map(|_| random.normal() as f32).collect();
        let hessian = HessianFactor::new((0..64).rev().collect(), vec![1.0; 64], unit).unwrap();
        assert_eq!(quantize_groups_for(&values, &hessian), quantize_groups(&values, 64));
    }

    #[test]
    fn orders_and_factors_that_do_not_fit_are_refused() {
        let new = |order: &[usize], last: f64| {
            let lower = |row, column| if (row, column) == (1, 1) { last } else { unit(row, column) };
            HessianFactor::new(order.to_vec(), vec![1.0; 2], lower)
        };
        assert_eq!(new(&[1, 0], 1.0).map(|hessian| hessian.inputs()), Some(2));
        for order in [&[0, 0][..], &[0, 2], &[0], &[0, 1, 1]] {
            assert_eq!(new(order, 1.0), None, "{order:?}");
        }
        for pivot in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(new(&[0, 1], pivot), None, "{pivot}");
        }
        for diagonal in [-1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(HessianFactor::new(vec![0], vec![diagonal], unit), None, "{diagonal}");
        }
        let wide = HessianFactor::new((0..40).collect(), vec![1.0; 40], unit).unwrap();
        assert_eq!(quantize_groups_for(&[1.0; 40], &wide), None);
    }
}
