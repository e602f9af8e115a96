//! What training needs besides matrix products, each as one pass over memory: forwards and backwards.

use super::isa::{Isa, Task};
use super::math::{gelu, gelu_derivative, row_sum, softmax_numerators};
use super::vector::Simd;

/// The exact GELU.
struct Gelu<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
}

impl Task for Gelu<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        for (output, input) in self.output.iter_mut().zip(self.input) {
            *output = gelu::<S>(*input);
        }
    }
}

/// `input` through the exact GELU.
pub(crate) fn gelu_forward(input: &[f32]) -> Vec<f32> {
    let mut output = vec![0f32; input.len()];
    Isa::detect().run(Gelu { input, output: &mut output });
    output
}

struct GeluBackward<'a> {
    input: &'a [f32],
    gradient: &'a mut [f32],
}

impl Task for GeluBackward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        for (gradient, input) in self.gradient.iter_mut().zip(self.input) {
            *gradient *= gelu_derivative::<S>(*input);
        }
    }
}

/// Multiplies `gradient` by the derivative of the GELU at `input`.
pub(crate) fn gelu_backward(input: &[f32], gradient: &mut [f32]) {
    Isa::detect().run(GeluBackward { input, gradient });
}

/// Softmax of each row.
struct Softmax<'a> {
    rows: &'a mut [f32],
    width: usize,
}

impl Task for Softmax<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        for row in self.rows.chunks_exact_mut(self.width) {
            let factor = softmax_numerators::<S>(row);
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }
}

/// Replaces each row of `width` scores by its softmax.
pub(crate) fn softmax(rows: &mut [f32], width: usize) {
    Isa::detect().run(Softmax { rows, width: width.max(1) });
}

struct SoftmaxBackward<'a> {
    probabilities: &'a [f32],
    gradient: &'a mut [f32],
    width: usize,
}

impl Task for SoftmaxBackward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        let rows = self.gradient.chunks_exact_mut(self.width);
        for (gradient, probabilities) in rows.zip(self.probabilities.chunks_exact(self.width)) {
            let mean = row_sum(gradient, probabilities, |gradient, share| gradient * share);
            for (gradient, share) in gradient.iter_mut().zip(probabilities) {
                *gradient = (*gradient - mean) * share;
            }
        }
    }
}

/// From the gradient of the probabilities to that of the scores, in place.
pub(crate) fn softmax_backward(probabilities: &[f32], gradient: &mut [f32], width: usize) {
    Isa::detect().run(SoftmaxBackward { probabilities, gradient, width: width.max(1) });
}

struct Norm<'a> {
    rows: &'a mut [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    eps: f32,
}

impl Task for Norm<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        for row in self.rows.chunks_exact_mut(self.weight.len()) {
            super::math::layer_norm::<S>(row, self.weight, self.bias, self.eps);
        }
    }
}

/// LayerNorm of each row, in place.
pub(crate) fn norm(rows: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    Isa::detect().run(Norm { rows, weight, bias, eps });
}

struct NormBackward<'a> {
    input: &'a [f32],
    weight: &'a [f32],
    gradient: &'a mut [f32],
    weight_gradient: &'a mut [f32],
    bias_gradient: &'a mut [f32],
    eps: f32,
}

impl Task for NormBackward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        let width = self.weight.len();
        let scale = 1.0 / width as f32;
        let mut normal = vec![0f32; width];
        for (row, gradient) in self.input.chunks_exact(width).zip(self.gradient.chunks_exact_mut(width)) {
            let mean = row_sum(row, row, |x, _| x) * scale;
            let variance = row_sum(row, row, |x, _| (x - mean) * (x - mean)) * scale;
            let inverse = 1.0 / (variance + self.eps).sqrt();
            for (normal, x) in normal.iter_mut().zip(row) {
                *normal = (x - mean) * inverse;
            }
            let sums = self.weight_gradient.iter_mut().zip(self.bias_gradient.iter_mut());
            for (((weight, bias), gradient), normal) in sums.zip(gradient.iter()).zip(&normal) {
                *weight += gradient * normal;
                *bias += gradient;
            }
            for (gradient, weight) in gradient.iter_mut().zip(self.weight) {
                *gradient *= weight;
            }
            let plain = row_sum(gradient, &normal, |gradient, _| gradient) * scale;
            let along = row_sum(gradient, &normal, |gradient, normal| gradient * normal) * scale;
            for (gradient, normal) in gradient.iter_mut().zip(&normal) {
                *gradient = (*gradient - plain - normal * along) * inverse;
            }
        }
    }
}

/// From the gradient of a LayerNorm's output to that of its input, in place; returns those of weight and bias.
pub(crate) fn norm_backward(
    input: &[f32],
    weight: &[f32],
    gradient: &mut [f32],
    eps: f32,
) -> (Vec<f32>, Vec<f32>) {
    let (mut weight_gradient, mut bias_gradient) = (vec![0f32; weight.len()], vec![0f32; weight.len()]);
    let (of_weight, of_bias) = (&mut weight_gradient, &mut bias_gradient);
    let task =
        NormBackward { input, weight, gradient, weight_gradient: of_weight, bias_gradient: of_bias, eps };
    Isa::detect().run(task);
    (weight_gradient, bias_gradient)
}

struct AddRow<'a> {
    rows: &'a mut [f32],
    row: &'a [f32],
}

impl Task for AddRow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        for row in self.rows.chunks_exact_mut(self.row.len()) {
            row.iter_mut().zip(self.row).for_each(|(value, add)| *value += add);
        }
    }
}

/// Adds `row` to each row, in place.
pub(crate) fn add_row(rows: &mut [f32], row: &[f32]) {
    Isa::detect().run(AddRow { rows, row });
}

struct SumRows<'a> {
    rows: &'a [f32],
    sum: &'a mut [f32],
}

impl Task for SumRows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        for row in self.rows.chunks_exact(self.sum.len()) {
            self.sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// The sum of all rows of `width`.
pub(crate) fn sum_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0f32; width];
    Isa::detect().run(SumRows { rows, sum: &mut sum });
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize, step: f32) -> Vec<f32> {
        (0..length).map(|i| (i as f32 * step).sin() * 2.0).collect()
    }

    /// The gradient of `loss`, the sum of outputs times `weights`, by central differences in f64-sized steps.
    fn numeric(input: &[f32], loss: impl Fn(&[f32]) -> f64) -> Vec<f64> {
        let step = 1e-2;
        let at = |place: usize, by: f32| {
            let mut moved = input.to_vec();
            moved[place] += by;
            loss(&moved)
        };
        (0..input.len()).map(|i| (at(i, step) - at(i, -step)) / f64::from(2.0 * step)).collect()
    }

    fn weighted(values: &[f32], weights: &[f32]) -> f64 {
        values.iter().zip(weights).map(|(v, w)| f64::from(*v) * f64::from(*w)).sum()
    }

    fn near(got: &[f32], expected: &[f64]) {
        let largest = expected.iter().fold(0f64, |max, v| max.max(v.abs()));
        for (got, expected) in got.iter().zip(expected) {
            assert!((f64::from(*got) - expected).abs() < 2e-3 * largest.max(1.0), "{got} is not {expected}");
        }
    }

    #[test]
    fn gradients_are_those_of_the_functions() {
        let (input, gradient) = (wave(40, 0.7), wave(40, 0.3));
        let mut got = gradient.clone();
        gelu_backward(&input, &mut got);
        near(&got, &numeric(&input, |x| weighted(&gelu_forward(x), &gradient)));

        let probabilities = |x: &[f32]| {
            let mut rows = x.to_vec();
            softmax(&mut rows, 8);
            rows
        };
        let mut got = gradient.clone();
        softmax_backward(&probabilities(&input), &mut got, 8);
        near(&got, &numeric(&input, |x| weighted(&probabilities(x), &gradient)));

        let (weight, bias) = (wave(20, 0.9), wave(20, 1.1));
        let normal = |x: &[f32], weight: &[f32], bias: &[f32]| {
            let mut rows = x.to_vec();
            norm(&mut rows, weight, bias, 1e-5);
            rows
        };
        let mut got = gradient.clone();
        let (of_weight, of_bias) = norm_backward(&input, &weight, &mut got, 1e-5);
        near(&got, &numeric(&input, |x| weighted(&normal(x, &weight, &bias), &gradient)));
        near(&of_weight, &numeric(&weight, |w| weighted(&normal(&input, w, &bias), &gradient)));
        near(&of_bias, &numeric(&bias, |b| weighted(&normal(&input, &weight, b), &gradient)));
        assert_eq!(of_bias, sum_rows(&gradient, 20));
    }

    #[test]
    fn a_row_is_added_to_each() {
        let mut rows = vec![1.0, 2.0, 3.0, 4.0];
        add_row(&mut rows, &[10.0, 20.0]);
        assert_eq!(rows, [11.0, 22.0, 13.0, 24.0]);
    }
}
