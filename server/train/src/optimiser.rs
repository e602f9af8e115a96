//! AdamW (Loshchilov and Hutter 2017) with a linear schedule, on the host: the moments need no room on a GPU, and a
//! checkpoint holds exactly what was computed.

use dpr_core::encoder::ParameterInfo;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Numbers that one task updates.
const BLOCK: usize = 1 << 15;

/// The optimiser's constants; the defaults are the paper's (§4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimiserOptions {
    /// Learning rate at the end of the warm-up.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Weight decay of all but biases, LayerNorms and MPNet's relative attention bias.
    pub weight_decay: f64,
    /// Steps in which the learning rate rises from 0.
    pub warm_up: usize,
    /// Largest norm of the gradient of all encoders together, to which a longer gradient is clipped; 0 for no limit.
    pub clip: f64,
}

impl Default for OptimiserOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-5,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            warm_up: 1237,
            clip: 2.0,
        }
    }
}

impl OptimiserOptions {
    /// Returns the learning rate of step `step`, counted from 0, of `steps`: linear from 0 up to the end of the
    /// warm-up, then linear down to 0 at the end.
    pub fn rate(&self, step: usize, steps: usize) -> f64 {
        let share = if step < self.warm_up {
            step as f64 / self.warm_up as f64
        } else {
            steps.saturating_sub(step) as f64 / (steps.saturating_sub(self.warm_up)).max(1) as f64
        };
        self.learning_rate * share
    }
}

/// A gradient of one encoder: a list a parameter, empty where nothing is trained.
pub type Gradient = Vec<Vec<f32>>;

/// Returns the norm of a gradient over several encoders.
pub fn norm(gradients: &[Gradient]) -> f64 {
    let squared = |values: &[f32]| values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>();
    let parameters: Vec<&Vec<f32>> = gradients.iter().flatten().collect();
    // Summed in the order of the blocks, whatever thread did which: the same numbers give the same length.
    let sums: Vec<Vec<f64>> =
        parameters.par_iter().map(|values| values.par_chunks(BLOCK).map(squared).collect()).collect();
    sums.iter().flatten().sum::<f64>().sqrt()
}

/// The moments of one encoder's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    /// Running mean of the gradient, a list a parameter.
    pub first: Vec<Vec<f32>>,
    /// Running mean of its square.
    pub second: Vec<Vec<f32>>,
}

impl AdamW {
    /// No step taken yet.
    pub fn new(parameters: &[ParameterInfo]) -> Self {
        let zeros = || parameters.iter().map(|parameter| vec![0f32; parameter.length()]).collect();
        Self { first: zeros(), second: zeros() }
    }

    /// Takes a step. `taken` steps were taken before; `scale` is the factor by which clipping multiplies the
    /// gradient.
    pub fn step(
        &mut self,
        weights: &mut [Vec<f32>],
        gradient: &[Vec<f32>],
        parameters: &[ParameterInfo],
        options: &OptimiserOptions,
        rate: f64,
        taken: usize,
        scale: f64,
    ) {
        let count = taken as i32 + 1;
        let corrected1 = 1.0 - options.beta1.powi(count);
        let corrected2 = (1.0 - options.beta2.powi(count)).sqrt();
        let (beta1, beta2) = (options.beta1 as f32, options.beta2 as f32);
        let (step, epsilon) = ((rate / corrected1) as f32, options.epsilon as f32);
        let (root, scale) = (corrected2 as f32, scale as f32);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for (((weights, gradient), (first, second)), parameter) in
            weights.iter_mut().zip(gradient).zip(moments).zip(parameters)
        {
            if gradient.is_empty() {
                continue; // frozen: neither a step nor decay
            }
            let decay = if decays(parameter) { options.weight_decay } else { 0.0 };
            let keep = (1.0 - rate * decay) as f32;
            let update = |w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]| {
                for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
                    let g = g * scale;
                    *m = beta1 * *m + (1.0 - beta1) * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    *w = *w * keep - step * *m / (v.sqrt() / root + epsilon);
                }
            };
            weights
                .par_chunks_mut(BLOCK)
                .zip(gradient.par_chunks(BLOCK))
                .zip(first.par_chunks_mut(BLOCK))
                .zip(second.par_chunks_mut(BLOCK))
                .for_each(|(((w, g), m), v)| update(w, g, m, v));
        }
    }
}

/// Returns whether weights decay: not those of biases and LayerNorms, nor MPNet's relative attention bias, which is a
/// matrix by its shape and a bias by its use (Hugging Face's Trainer leaves out what is called a bias).
fn decays(parameter: &ParameterInfo) -> bool {
    !parameter.is_vector() && !parameter.name.contains("bias")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls_in_straight_lines() {
        let options = OptimiserOptions { learning_rate: 1.0, warm_up: 4, ..OptimiserOptions::default() };
        let rates: Vec<f64> = (0..=8).map(|step| options.rate(step, 8)).collect();
        assert_eq!(rates, [0.0, 0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0]);
        let none = OptimiserOptions { warm_up: 0, ..options };
        assert_eq!(none.rate(0, 2), 1.0);
    }

    #[test]
    fn mpnet_s_relative_attention_bias_does_not_decay() {
        let info = |name: &str| ParameterInfo { name: name.into(), shape: vec![2, 1], transposed: false };
        let parameters =
            [info("encoder.relative_attention_bias.weight"), info("encoder.layer.0.output.dense.weight")];
        let mut weights = vec![vec![1.0f32, 2.0]; 2];
        let options = OptimiserOptions { weight_decay: 0.5, ..OptimiserOptions::default() };
        let gradient = [vec![0.0; 2], vec![0.0; 2]];
        AdamW::new(&parameters).step(&mut weights, &gradient, &parameters, &options, 0.1, 0, 1.0);
        assert_eq!(weights, [[1.0, 2.0], [0.95, 1.9]]);
    }

    #[test]
    fn what_has_no_gradient_stays_and_vectors_do_not_decay() {
        let info = |name: &str, shape: &[usize]| ParameterInfo {
            name: name.into(),
            shape: shape.to_vec(),
            transposed: false,
        };
        let parameters = [info("frozen.weight", &[1, 2]), info("a.weight", &[1, 2]), info("a.bias", &[2])];
        let mut weights = vec![vec![1.0f32, 2.0]; 3];
        let gradient = [vec![], vec![0.0; 2], vec![0.0; 2]];
        let options = OptimiserOptions { weight_decay: 0.5, ..OptimiserOptions::default() };
        AdamW::new(&parameters).step(&mut weights, &gradient, &parameters, &options, 0.1, 0, 1.0);
        assert_eq!(weights, [[1.0, 2.0], [0.95, 1.9], [1.0, 2.0]]);
    }
}
