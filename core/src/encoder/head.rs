//! Head of an encoder on Burn: the steps between pooling and the vector.

use burn::tensor::{Tensor, activation};

use super::Encoder;
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
        Activation::Gelu => activation::gelu(input),
        Activation::Relu => activation::relu(input),
        Activation::Sigmoid => activation::sigmoid(input),
    }
}
