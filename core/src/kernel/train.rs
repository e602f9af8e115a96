//! Training kernels, forwards and backwards: attention, the matrix products of linear layers in bf16, and GELU, softmax
//! and LayerNorm, each in one pass over its numbers.

#[cfg(feature = "flex")]
pub(crate) mod attention;
#[cfg(feature = "flex")]
pub(crate) mod products;

use super::isa::{best, vectorised};
use super::math::{gelu, gelu_derivative, layer_norm, row_sum, softmax_numerators};

/// Returns the exact GELU of `input`.
pub(crate) fn gelu_forward(input: &[f32]) -> Vec<f32> {
    let mut values = vec![0f32; input.len()];
    let output = values.as_mut_slice();
    vectorised!(best(), |input: &[f32], output: &mut [f32]| {
        for (output, input) in output.iter_mut().zip(input) {
            *output = gelu::<S>(*input);
        }
    });
    values
}

/// Multiplies `gradient` by the derivative of the GELU at `input`.
pub(crate) fn gelu_backward(input: &[f32], gradient: &mut [f32]) {
    vectorised!(best(), |input: &[f32], gradient: &mut [f32]| {
        for (gradient, input) in gradient.iter_mut().zip(input) {
            *gradient *= gelu_derivative::<S>(*input);
        }
    });
}

/// Replaces each row of `width` scores by its softmax.
pub(crate) fn softmax(rows: &mut [f32], width: usize) {
    let width = width.max(1);
    vectorised!(best(), |rows: &mut [f32], width: usize| {
        for row in rows.chunks_exact_mut(width) {
            let factor = softmax_numerators::<S>(row);
            row.iter_mut().for_each(|value| *value *= factor);
        }
    });
}

/// Replaces the gradient of the probabilities by that of the scores, in place.
pub(crate) fn softmax_backward(probabilities: &[f32], gradient: &mut [f32], width: usize) {
    let width = width.max(1);
    vectorised!(best(), |probabilities: &[f32], gradient: &mut [f32], width: usize| {
        let rows = gradient.chunks_exact_mut(width);
        for (gradient, probabilities) in rows.zip(probabilities.chunks_exact(width)) {
            let mean = row_sum(gradient, probabilities, |gradient, share| gradient * share);
            for (gradient, share) in gradient.iter_mut().zip(probabilities) {
                *gradient = (*gradient - mean) * share;
            }
        }
    });
}

/// Replaces each row by its LayerNorm, in place.
pub(crate) fn norm(rows: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    vectorised!(best(), |rows: &mut [f32], weight: &[f32], bias: &[f32], eps: f32| {
        for row in rows.chunks_exact_mut(weight.len()) {
            layer_norm::<S>(row, weight, bias, eps);
        }
    });
}

/// Replaces the gradient of a LayerNorm's output by that of its input, in place, and returns the gradients of weight
/// and bias.
pub(crate) fn norm_backward(
    input: &[f32],
    weight: &[f32],
    gradient: &mut [f32],
    eps: f32,
) -> (Vec<f32>, Vec<f32>) {
    let (mut weight_gradient, mut bias_gradient) = (vec![0f32; weight.len()], vec![0f32; weight.len()]);
    let sums = (weight_gradient.as_mut_slice(), bias_gradient.as_mut_slice());
    vectorised!(best(), |input: &[f32],
                         weight: &[f32],
                         gradient: &mut [f32],
                         sums: (&mut [f32], &mut [f32]),
                         eps: f32| {
        let (weight_gradient, bias_gradient) = sums;
        let width = weight.len();
        let scale = 1.0 / width as f32;
        let mut normal = vec![0f32; width];
        for (row, gradient) in input.chunks_exact(width).zip(gradient.chunks_exact_mut(width)) {
            let mean = row_sum(row, row, |x, _| x) * scale;
            let variance = row_sum(row, row, |x, _| (x - mean) * (x - mean)) * scale;
            let inverse = 1.0 / (variance + eps).sqrt();
            for (normal, x) in normal.iter_mut().zip(row) {
                *normal = (x - mean) * inverse;
            }
            let sums = weight_gradient.iter_mut().zip(bias_gradient.iter_mut());
            for (((weight, bias), gradient), normal) in sums.zip(gradient.iter()).zip(&normal) {
                *weight += gradient * normal;
                *bias += gradient;
            }
            for (gradient, weight) in gradient.iter_mut().zip(weight) {
                *gradient *= weight;
            }
            let plain = row_sum(gradient, &normal, |gradient, _| gradient) * scale;
            let along = row_sum(gradient, &normal, |gradient, normal| gradient * normal) * scale;
            for (gradient, normal) in gradient.iter_mut().zip(&normal) {
                *gradient = (*gradient - plain - normal * along) * inverse;
            }
        }
    });
    (weight_gradient, bias_gradient)
}

/// Adds `row` to each row, in place.
pub(crate) fn add_row(rows: &mut [f32], row: &[f32]) {
    vectorised!(best(), |rows: &mut [f32], row: &[f32]| {
        for values in rows.chunks_exact_mut(row.len()) {
            values.iter_mut().zip(row).for_each(|(value, add)| *value += add);
        }
    });
}

/// Returns the sum of all rows of `width`.
pub(crate) fn sum_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let mut values = vec![0f32; width];
    let sum = values.as_mut_slice();
    vectorised!(best(), |rows: &[f32], sum: &mut [f32]| {
        for row in rows.chunks_exact(sum.len()) {
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize, step: f32) -> Vec<f32> {
        (0..length).map(|i| (i as f32 * step).sin() * 2.0).collect()
    }

    /// Returns the gradient of `loss`, the sum of outputs times `weights`, by central differences in f64-sized steps.
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
