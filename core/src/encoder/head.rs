//! Head of an encoder on Burn: the steps between pooling and the vector.

use burn::tensor::{Tensor, activation};

use super::Encoder;
use super::cast::is_gpu;
use super::layer_ops as ops;
use crate::config::EncoderConfig;
use crate::head::{Activation, HeadStep};

impl Encoder {
    /// Returns the first dense layer's outputs of every token, `[batch, tokens, outputs]`, of the last hidden state:
    /// the scores of a reader in training.
    pub fn token_scores(&self, hidden: Tensor<3>) -> Tensor<3> {
        match self.dense.first() {
            Some(dense) => dense.forward(hidden),
            None => hidden,
        }
    }

    /// Returns the vectors `[batch, dim]` of pooled states `[batch, hidden]`.
    pub(super) fn head(&self, pooled: Tensor<2>, config: &EncoderConfig) -> Tensor<2> {
        let mut now = match &self.pooler {
            Some(pooler) => ops::dense(pooler, pooled).tanh(),
            None => pooled,
        };
        let mut dense = self.dense.iter();
        for step in &config.head {
            now = match (step, dense.as_slice()) {
                (HeadStep::Normalize, _) => ops::unit_length(now),
                (HeadStep::Dense(layer), [linear, ..]) => {
                    dense.next();
                    activate(layer.activation, ops::dense(linear, now))
                }
                // The loader made a layer for each.
                (HeadStep::Dense(_), []) => now,
            };
        }
        if let Some(kept) = config.truncate {
            let [batch, width] = now.dims();
            now = now.slice([0..batch, 0..kept.min(width)]);
        }
        if let Some(projection) = &self.projection {
            now = ops::dense(projection, now);
        }
        if config.normalize { ops::unit_length(now) } else { now }
    }
}

fn activate(activation: Activation, input: Tensor<2>) -> Tensor<2> {
    match activation {
        Activation::Identity => input,
        Activation::Tanh => input.tanh(),
        // On a GPU the gradient of Burn's `activation::gelu` is that of the approximation by tanh; `ops::gelu` has the
        // exact one.
        Activation::Gelu if is_gpu(&input.device()) => {
            let dims = input.dims();
            ops::gelu(input.unsqueeze::<3>()).reshape(dims)
        }
        Activation::Gelu => activation::gelu(input),
        Activation::Relu => activation::relu(input),
        Activation::Sigmoid => activation::sigmoid(input),
    }
}

#[cfg(all(test, feature = "autodiff", feature = "flex", feature = "wgpu"))]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceChoice};

    #[test]
    fn the_gradient_of_a_gelu_is_the_exact_one_on_every_device() {
        // The gradient of the approximation by tanh differs by 3e-4 at each point.
        let points: [(f32, f32); 4] =
            [(-3.0, -0.011_945_647), (-1.0, -0.083_315_47), (1.0, 1.083_315_5), (2.5, 1.037_611_1)];
        for choice in [DeviceChoice::Flex, DeviceChoice::Wgpu] {
            let device = match Device::open(choice) {
                Ok(Device::Burn { device, .. }) => device.autodiff(),
                Ok(Device::Kernel) => panic!("{choice} is a device of Burn's"),
                Err(error) if std::env::var_os("CI").is_none() => {
                    eprintln!("skipped: {error}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let input = Tensor::<2>::from_data([points.map(|(x, _)| x)], &device).require_grad();
            let mut gradients = activate(Activation::Gelu, input.clone()).sum().backward();
            let found = input.grad_remove(&mut gradients).unwrap().into_data().try_into_vec::<f32>().unwrap();
            for (got, (x, expected)) in found.into_iter().zip(points) {
                assert!((got - expected).abs() < 1e-4, "{choice}, {x}: {got}, not {expected}");
            }
        }
    }
}
