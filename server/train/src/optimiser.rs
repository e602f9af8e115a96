//! AdamW (Loshchilov and Hutter 2017) with a linear schedule, where the gradients are: on the host, or on the GPU,
//! which then keeps weights and moments, so that none of them travels in a step.

use std::borrow::Cow;

use burn::tensor::{Device, Tensor, TensorData};
use dpr_core::encoder::ParameterInfo;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::encoders::{TrainDevice, TrainedEncoder, numbers};
use super::error::TrainError;
use super::gradient::Gradient;

/// Numbers that one task updates.
const BLOCK: usize = 1 << 15;

/// Least magnitude of a gradient; less is 0, since its square would be a subnormal number, with which a processor
/// computes ten times slower. Beside Adam's usual epsilon, 1e-8, nothing that small moves a weight.
const LEAST_GRADIENT: f32 = 1e-17;

/// Least magnitudes of the first and the second moment, less is 0: those of a word that is met no more shrink with every
/// step until they are subnormal.
const LEAST_MOMENTS: [f32; 2] = [1e-30, 1e-36];

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

/// The moments of one encoder's parameters: running means of the gradient and of its square, a list a parameter.
#[derive(Clone, Debug)]
pub struct AdamW {
    moments: Moments,
}

#[derive(Clone, Debug)]
enum Moments {
    Host([Vec<Vec<f32>>; 2]),
    Device([Vec<Tensor<1>>; 2]),
}

/// One step: the constants of AdamW's update.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The optimiser's constants.
    pub options: &'a OptimiserOptions,
    /// The learning rate.
    pub rate: f64,
    /// Steps that were taken before.
    pub taken: usize,
    /// The factor by which clipping multiplies the gradient.
    pub scale: f64,
}

impl Update<'_> {
    /// Returns the share of a weight that decay leaves.
    fn kept(&self, parameter: &ParameterInfo) -> f32 {
        let decay = if decays(parameter) { self.options.weight_decay } else { 0.0 };
        (1.0 - self.rate * decay) as f32
    }

    /// Returns the length of the step, and the root of the second moment's correction.
    fn corrected(&self) -> (f32, f32) {
        let count = self.taken as i32 + 1;
        let step = self.rate / (1.0 - self.options.beta1.powi(count));
        (step as f32, (1.0 - self.options.beta2.powi(count)).sqrt() as f32)
    }
}

impl AdamW {
    /// No step taken yet.
    pub fn new(parameters: &[ParameterInfo]) -> Self {
        let zeros = || parameters.iter().map(|parameter| vec![0f32; parameter.length()]).collect();
        Self { moments: Moments::Host([zeros(), zeros()]) }
    }

    /// Returns the moments, the first and the second, a list a parameter.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub(super) fn moments(&self) -> Result<[Cow<'_, [Vec<f32>]>; 2], TrainError> {
        let read = |tensors: &[Tensor<1>]| -> Result<Cow<'_, [Vec<f32>]>, TrainError> {
            Ok(Cow::Owned(tensors.iter().cloned().map(numbers).collect::<Result<_, _>>()?))
        };
        match &self.moments {
            Moments::Host([first, second]) => Ok([Cow::Borrowed(first), Cow::Borrowed(second)]),
            Moments::Device([first, second]) => Ok([read(first)?, read(second)?]),
        }
    }

    /// Puts moments in place of these.
    pub(super) fn set_moments(&mut self, moments: [Vec<Vec<f32>>; 2]) {
        self.moments = Moments::Host(moments);
    }

    /// Takes a step of `encoder`, whose module then has the new weights. A gradient on the GPU leaves them, and the
    /// moments, there.
    ///
    /// # Errors
    /// [`TrainError::Batch`] for a gradient or moments of another encoder, [`TrainError::Device`] when the device fails.
    pub fn step(
        &mut self,
        encoder: &mut TrainedEncoder,
        gradient: Gradient,
        update: &Update<'_>,
        device: &TrainDevice,
    ) -> Result<(), TrainError> {
        self.check(encoder, &gradient)?;
        match gradient {
            Gradient::Host(gradient) => {
                encoder.download()?;
                let mut moments = self.take_to_host()?;
                step_on_host(&mut encoder.weights, &gradient, &mut moments, &encoder.parameters, update);
                self.moments = Moments::Host(moments);
                encoder.upload(device);
            }
            Gradient::Device(gradient) => {
                let [mut first, mut second] = self.take_to_device(&device.plain);
                let weights = encoder.net().parameters().into_iter().zip(gradient).zip(&encoder.parameters);
                let moments = first.iter_mut().zip(&mut second);
                let weights = weights.zip(moments).map(|(((weights, gradient), parameter), moments)| {
                    match gradient {
                        Some(gradient) => step_on_device(weights, gradient, moments, parameter, update),
                        None => weights, // frozen: neither a step nor decay
                    }
                });
                let weights = weights.collect();
                self.moments = Moments::Device([first, second]);
                encoder.replace(weights);
            }
        }
        Ok(())
    }

    /// Refuses a gradient or moments whose lists are not as long as the encoder's parameters. What is not trained has
    /// no gradient.
    fn check(&self, encoder: &TrainedEncoder, gradient: &Gradient) -> Result<(), TrainError> {
        let length = |tensor: &Tensor<1>| tensor.dims()[0];
        let of_gradient: Vec<usize> = match gradient {
            Gradient::Host(lists) => lists.iter().map(Vec::len).collect(),
            Gradient::Device(tensors) => {
                tensors.iter().map(|tensor| tensor.as_ref().map_or(0, length)).collect()
            }
        };
        let of_moments: [Vec<usize>; 2] = match &self.moments {
            Moments::Host(moments) => moments.each_ref().map(|lists| lists.iter().map(Vec::len).collect()),
            Moments::Device(moments) => {
                moments.each_ref().map(|tensors| tensors.iter().map(length).collect())
            }
        };
        let parameters = &encoder.parameters;
        let fits = |lengths: &[usize], optional: bool| {
            lengths.len() == parameters.len()
                && lengths
                    .iter()
                    .zip(parameters)
                    .all(|(length, parameter)| *length == parameter.length() || (optional && *length == 0))
        };
        if fits(&of_gradient, true) && of_moments.iter().all(|lengths| fits(lengths, false)) {
            return Ok(());
        }
        let (lists, moments, count) = (of_gradient.len(), of_moments[0].len(), parameters.len());
        Err(TrainError::Batch {
            what: format!(
                "a gradient of {lists} parameters and moments of {moments} for an encoder of {count}, or of other lengths"
            ),
        })
    }

    /// Takes the moments, to be put back; those on a GPU are read.
    fn take_to_host(&mut self) -> Result<[Vec<Vec<f32>>; 2], TrainError> {
        if let Moments::Host(moments) = &mut self.moments {
            return Ok(std::mem::take(moments));
        }
        Ok(self.moments()?.map(Cow::into_owned))
    }

    /// Takes the moments, to be put back; those on the host are copied to the GPU.
    fn take_to_device(&mut self, device: &Device) -> [Vec<Tensor<1>>; 2] {
        let tensor = |values: Vec<f32>| {
            let length = values.len();
            Tensor::from_data(TensorData::new(values, [length]), device)
        };
        match &mut self.moments {
            Moments::Host(moments) => {
                std::mem::take(moments).map(|lists| lists.into_iter().map(tensor).collect())
            }
            Moments::Device(moments) => std::mem::take(moments),
        }
    }
}

fn step_on_host(
    weights: &mut [Vec<f32>],
    gradient: &[Vec<f32>],
    [first, second]: &mut [Vec<Vec<f32>>; 2],
    parameters: &[ParameterInfo],
    update: &Update<'_>,
) {
    let options = update.options;
    let (beta1, beta2) = (options.beta1 as f32, options.beta2 as f32);
    let ((step, root), epsilon, scale) = (update.corrected(), options.epsilon as f32, update.scale as f32);
    let moments = first.iter_mut().zip(second);
    for (((weights, gradient), (first, second)), parameter) in
        weights.iter_mut().zip(gradient).zip(moments).zip(parameters)
    {
        if gradient.is_empty() {
            continue; // frozen: neither a step nor decay
        }
        let keep = update.kept(parameter);
        let update = |w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]| {
            for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
                let g = or_zero(g * scale, LEAST_GRADIENT);
                *m = or_zero(beta1 * *m + (1.0 - beta1) * g, LEAST_MOMENTS[0]);
                *v = or_zero(beta2 * *v + (1.0 - beta2) * g * g, LEAST_MOMENTS[1]);
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

/// Returns a number, or 0 where its magnitude is less than `least`.
#[inline(always)]
fn or_zero(number: f32, least: f32) -> f32 {
    if number.abs() < least { 0.0 } else { number }
}

/// Returns the weights after the step, as [`step_on_host`] computes them, but with the smallest gradients and moments,
/// which a GPU multiplies as fast as other numbers. All of it is queued: nothing is waited for.
fn step_on_device(
    weights: Tensor<1>,
    gradient: Tensor<1>,
    (first, second): (&mut Tensor<1>, &mut Tensor<1>),
    parameter: &ParameterInfo,
    update: &Update<'_>,
) -> Tensor<1> {
    let options = update.options;
    let (beta1, beta2) = (options.beta1 as f32, options.beta2 as f32);
    let ((step, root), epsilon) = (update.corrected(), options.epsilon as f32);
    let gradient = gradient * (update.scale as f32);
    *first = first.clone() * beta1 + gradient.clone() * (1.0 - beta1);
    *second = second.clone() * beta2 + gradient.clone() * gradient * (1.0 - beta2);
    let change = first.clone() * step / (second.clone().sqrt() / root + epsilon);
    weights * update.kept(parameter) - change
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
    fn moments_of_what_is_met_no_more_end_at_zero() {
        let parameters =
            [ParameterInfo { name: "words.weight".into(), shape: vec![2, 1], transposed: false }];
        let (options, mut weights) = (OptimiserOptions::default(), [vec![1.0f32, 1.0]]);
        let mut moments = [vec![vec![0f32; 2]], vec![vec![0f32; 2]]];
        // The first word is met once and in every step as good as not, the second always.
        for taken in 0..2000 {
            let gradient = [vec![if taken == 0 { 0.5 } else { 1e-20 }, 0.5]];
            let update = Update { options: &options, rate: 1e-5, taken, scale: 1.0 };
            step_on_host(&mut weights, &gradient, &mut moments, &parameters, &update);
        }
        let [first, second] = &moments;
        assert_eq!(first[0][0], 0.0);
        assert!((first[0][1] - 0.5).abs() < 1e-6 && second[0][0].is_normal() && weights[0][1] < 0.99);
        assert_eq!([or_zero(-1e-17, 1e-17), or_zero(-9e-18, 1e-17)], [-1e-17, 0.0]);
        assert!(or_zero(f32::NAN, 1.0).is_nan());
    }

    /// Takes the first step, without a moment before it, of parameters of a name and a shape each.
    fn first_step(parameters: &[(&str, &[usize])], gradient: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let info = |(name, shape): &(&str, &[usize])| ParameterInfo {
            name: (*name).into(),
            shape: shape.to_vec(),
            transposed: false,
        };
        let parameters: Vec<_> = parameters.iter().map(info).collect();
        let mut weights = vec![vec![1.0f32, 2.0]; parameters.len()];
        let options = OptimiserOptions { weight_decay: 0.5, ..OptimiserOptions::default() };
        let update = Update { options: &options, rate: 0.1, taken: 0, scale: 1.0 };
        let mut optimiser = AdamW::new(&parameters);
        let mut moments = optimiser.take_to_host().unwrap();
        step_on_host(&mut weights, gradient, &mut moments, &parameters, &update);
        weights
    }

    #[test]
    fn mpnet_s_relative_attention_bias_does_not_decay() {
        let parameters: [(&str, &[usize]); 2] = [
            ("encoder.relative_attention_bias.weight", &[2, 1]),
            ("encoder.layer.0.output.dense.weight", &[2, 1]),
        ];
        assert_eq!(first_step(&parameters, &[vec![0.0; 2], vec![0.0; 2]]), [[1.0, 2.0], [0.95, 1.9]]);
    }

    #[test]
    fn what_has_no_gradient_stays_and_vectors_do_not_decay() {
        let parameters: [(&str, &[usize]); 3] =
            [("frozen.weight", &[1, 2]), ("a.weight", &[1, 2]), ("a.bias", &[2])];
        let weights = first_step(&parameters, &[vec![], vec![0.0; 2], vec![0.0; 2]]);
        assert_eq!(weights, [[1.0, 2.0], [0.95, 1.9], [1.0, 2.0]]);
    }
}
