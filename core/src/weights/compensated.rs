//! Rounding to 4 bits in which the weights that are rounded later make up for the errors of those before them.
//!
//! A row `w` that is rounded to `q` changes the outputs of its layer by `(w - q) · x`, for inputs `x` of second moments
//! `H = E[x xᵀ]` by `(w - q)ᵀ H (w - q)` on average. Weights are rounded one after another, each to the code that is
//! nearest to the weight plus what the errors so far ask of it, as in GPTQ (Frantar et al. 2023, arXiv 2210.17323). With
//! `H = L Lᵀ` that is Babai's nearest plane, and needs no inverse (Chen et al. 2025, arXiv 2507.18553).

use super::four_bits::{FourBits, GROUP, best_step, code, fits_groups, pack, row_scale};

/// What errors of a layer's weights do to its outputs together, for the inputs that it has.
#[derive(Clone, Debug, PartialEq)]
pub struct InputMetric {
    /// `[inputs]`: the inputs in the order in which their weights are rounded.
    order: Vec<usize>,
    /// `[inputs]`: the second moment of each input.
    squares: Vec<f32>,
    /// For each place in the order, the shares that it takes of the errors of the weights before it: 0, 1, 2 … numbers.
    shares: Vec<f32>,
}

impl InputMetric {
    /// Returns the metric of inputs with second moments `squares`, `[inputs]`, whose weights are rounded in `order`.
    /// `factor(row, column)`, for `column <= row < inputs`, is the lower Cholesky factor of the inputs' second moments,
    /// `[inputs, inputs]`, with rows and columns in the reverse of `order`.
    ///
    /// Returns `None` where `order` does not name every input once, or numbers are not finite or a diagonal is not
    /// positive.
    pub fn new(order: Vec<usize>, squares: Vec<f32>, factor: impl Fn(usize, usize) -> f64) -> Option<Self> {
        let inputs = squares.len();
        let mut named = vec![false; inputs];
        for input in &order {
            let seen = named.get_mut(*input).filter(|seen| !**seen)?;
            *seen = true;
        }
        let mut shares = Vec::with_capacity(inputs * inputs.saturating_sub(1) / 2);
        for place in 0..inputs {
            let column = inputs - 1 - place;
            let diagonal = factor(column, column);
            if diagonal <= 0.0 {
                return None;
            }
            shares.extend((0..place).map(|before| (factor(inputs - 1 - before, column) / diagonal) as f32));
        }
        let is_whole =
            order.len() == inputs && shares.iter().chain(&squares).all(|number| number.is_finite());
        is_whole.then_some(Self { order, squares, shares })
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.order.len()
    }
}

/// Returns a 4-bit copy of a matrix `[rows, inputs]`, as [`quantize_groups`](super::quantize_groups) does, with the least
/// errors of its outputs for these inputs instead of the least errors of its weights.
///
/// Returns `None` where the inputs are not a whole number of groups.
pub fn quantize_groups_for(values: &[f32], inputs: &InputMetric) -> Option<FourBits> {
    let columns = inputs.order.len();
    if !fits_groups(columns) {
        return None;
    }
    let weights = inputs.squares.as_chunks::<GROUP>().0;
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
        let mut shares = inputs.shares.as_slice();
        for (place, input) in inputs.order.iter().enumerate() {
            let (of_place, rest) = shares.split_at(place);
            shares = rest;
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

    #[test]
    fn independent_inputs_of_one_size_give_the_codes_of_plain_rounding() {
        let mut random = SplitMix::keyed(&[4]);
        let values: Vec<f32> = (0..3 * 64).map(|_| random.normal() as f32).collect();
        let order: Vec<usize> = (0..64).rev().collect();
        let unit = |row: usize, column: usize| f64::from(u8::from(row == column));
        let metric = InputMetric::new(order, vec![1.0; 64], unit).unwrap();
        assert_eq!(quantize_groups_for(&values, &metric), quantize_groups(&values, 64));
    }

    #[test]
    fn orders_and_factors_that_do_not_fit_are_refused() {
        let unit = |row: usize, column: usize| f64::from(u8::from(row == column));
        let new = |order: &[usize], diagonal: f64| {
            InputMetric::new(order.to_vec(), vec![1.0; 2], |row, column| unit(row, column) * diagonal)
        };
        assert_eq!(new(&[1, 0], 1.0).map(|metric| metric.inputs()), Some(2));
        for (order, diagonal) in
            [(&[0, 0][..], 1.0), (&[0, 2], 1.0), (&[0], 1.0), (&[0, 1], 0.0), (&[0, 1], f64::NAN)]
        {
            assert_eq!(new(order, diagonal), None, "{order:?} {diagonal}");
        }
        let wide = InputMetric::new((0..40).collect(), vec![1.0; 40], unit).unwrap();
        assert_eq!(quantize_groups_for(&[1.0; 40], &wide), None);
    }
}
