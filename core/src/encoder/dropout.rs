//! Dropout (Srivastava et al. 2014), drawn so that the same pass can be run again.

use burn::tensor::{Device, Distribution, Tensor, TensorData};

use crate::kernel::dropout;
use crate::random::SplitMix;

/// Dropout of a forward pass: nothing at inference; while training, each number is left out with a probability, as in
/// Hugging Face's BERT (embeddings, attention probabilities, and the sum that each half of a layer adds).
///
/// Two passes over one batch with dropouts of the same seed leave out the same numbers, which cached
/// representations need: the pass that is differentiated must be the one that gave the vectors.
#[derive(Clone, Debug)]
pub struct Dropout {
    rate: f32,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Drawn here and copied to the device: the same numbers whatever other threads draw.
    Host(SplitMix),
    /// Drawn by the device, which one thread uses.
    Device,
}

impl Dropout {
    /// Leaves out nothing.
    pub fn none() -> Self {
        Self { rate: 0.0, source: Source::Device }
    }

    /// Leaves out the share `rate` of the numbers, from 0 to below 1. On a GPU the device draws them, after
    /// it has been given `seed`: then only one pass at a time may run on it.
    pub fn new(rate: f32, seed: u64, device: &Device, gpu: bool) -> Self {
        let rate = rate.clamp(0.0, 0.999);
        if gpu {
            if rate > 0.0 {
                device.seed(seed);
            }
            return Self { rate, source: Source::Device };
        }
        Self { rate, source: Source::Host(SplitMix::keyed(&[seed])) }
    }

    /// Returns whether anything is left out.
    pub fn is_active(&self) -> bool {
        self.rate > 0.0
    }

    /// Returns `input` with a share of its numbers at 0 and the others scaled so that the expected sum stays.
    pub fn apply<const D: usize>(&mut self, input: Tensor<D>) -> Tensor<D> {
        match self.mask(input.dims(), &input.device()) {
            Some(mask) => input * mask,
            None => input,
        }
    }

    /// Returns factors for numbers of a shape: 0 for a share of them, and for the others what keeps the expected sum.
    pub(super) fn mask<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Option<Tensor<D>> {
        if !self.is_active() {
            return None;
        }
        let keep = 1.0 - self.rate;
        Some(match &mut self.source {
            Source::Host(random) => {
                let mask = dropout::mask(random, shape.iter().product(), self.rate);
                Tensor::from_data(TensorData::new(mask, shape), device)
            }
            Source::Device => {
                Tensor::random(shape, Distribution::Bernoulli(f64::from(keep)), device) * (1.0 / keep)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "flex")]
    #[test]
    fn the_same_seed_leaves_out_the_same_numbers_and_another_one_others() {
        let device = Device::flex();
        let run = |seed| {
            let mut dropout = Dropout::new(0.5, seed, &device, false);
            let ones = || Tensor::<2>::ones([8, 16], &device);
            let both = [dropout.apply(ones()), dropout.apply(ones())];
            both.map(|tensor| tensor.into_data().try_into_vec::<f32>().unwrap())
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
        assert_ne!(run(3)[0], run(3)[1], "each layer draws anew");
        assert!(!Dropout::none().is_active());
    }
}
