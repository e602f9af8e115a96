//! Encoders on Burn, which run on wgpu, WebGPU and Burn's CPU backend and are differentiated in training.

mod batch;
mod cast;
mod dropout;
mod embeddings;
#[cfg(feature = "autodiff")]
mod fused;
mod head;
mod layer;
mod load;
mod norm;
mod ops;
#[cfg(feature = "page-kernels")]
mod page;
mod parameters;
mod pool;
mod precision;
mod relative;
mod rotary;
#[cfg(any(test, feature = "page-kernels"))]
mod workgroups;

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The operations of a layer in this build.
#[cfg(not(feature = "page-kernels"))]
use ops as layer_ops;
#[cfg(feature = "page-kernels")]
use page as layer_ops;

pub use batch::TokenBatch;
pub use dropout::Dropout;
pub use embeddings::Embeddings;
pub use layer::{Attention, Layer};
pub use norm::Norm;
pub use parameters::{ParameterInfo, parameter_list};
pub use relative::RelativeBias;
pub use rotary::Positions;

use crate::config::EncoderConfig;
use crate::row::LastStates;
use batch::MASKED;

/// An encoder: token ids in, one vector a row out.
#[derive(Module, Debug)]
pub struct Encoder {
    /// Words, positions and token types.
    pub embeddings: Embeddings,
    /// The transformer.
    pub layers: Vec<Layer>,
    /// After the last layer, in ModernBERT.
    pub final_norm: Option<Norm>,
    /// MPNet's bias by relative position, shared by all layers.
    pub relative: Option<RelativeBias>,
    /// BERT's dense layer over the first token, where pooling is by it.
    pub pooler: Option<Linear>,
    /// The dense layers of the head, in order.
    pub dense: Vec<Linear>,
    /// `encode_proj`, `[kept_width, projection_dim]`.
    pub projection: Option<Linear>,
}

impl Encoder {
    /// Returns the last hidden state, `[batch, tokens, hidden]`.
    pub fn hidden(
        &self,
        batch: &TokenBatch,
        config: &EncoderConfig,
        device: &Device,
        dropout: &mut Dropout,
    ) -> Tensor<3> {
        self.last_states(batch, config, device, LastStates::All, dropout)
    }

    /// Returns the last hidden states that are `read`: `[batch, tokens, hidden]`, or `[batch, 1, hidden]`.
    pub(crate) fn last_states(
        &self,
        batch: &TokenBatch,
        config: &EncoderConfig,
        device: &Device,
        read: LastStates,
        dropout: &mut Dropout,
    ) -> Tensor<3> {
        let (rows, tokens) = (batch.rows, batch.tokens);
        let tensor =
            |values: Vec<i32>| Tensor::<2, Int>::from_data(TensorData::new(values, [rows, tokens]), device);
        let (ids, types) = (tensor(batch.ids.clone()), batch.types.clone().map(tensor));
        let mut hidden = dropout.apply(self.embeddings.forward(ids, types, config.position_offset()));
        let mask = batch.padded.then(|| {
            let keep = Tensor::<2>::from_data(TensorData::new(batch.mask.clone(), [rows, tokens]), device);
            ((keep - 1.0) * -MASKED).reshape([rows, 1, 1, tokens])
        });
        let (rotary, width) = (config.rotary.as_ref(), config.head_dim());
        let [global, local] = match rotary {
            Some(rotary) => rotary::positions(rotary, width, tokens, mask, device),
            None => {
                let relative = self.relative.as_ref().map(|relative| relative.forward(tokens, device));
                let bias = match (relative, mask) {
                    (Some(relative), Some(mask)) => Some(relative + mask),
                    (relative, mask) => relative.or(mask),
                };
                let everywhere = Positions { bias, rotation: None };
                [everywhere.clone(), everywhere]
            }
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let is_local = rotary.is_some_and(|rotary| rotary.local_layers[index]);
            let positions = if is_local { &local } else { &global };
            let read = if index + 1 == self.layers.len() { read } else { LastStates::All };
            hidden = layer.forward(hidden, positions, config, read, dropout);
        }
        match &self.final_norm {
            Some(norm) => norm.forward(hidden),
            None => hidden,
        }
    }

    /// Returns the vectors, `[batch, dim]`: pooled, projected and normalised as `config` says.
    pub fn forward(&self, batch: &TokenBatch, config: &EncoderConfig, device: &Device) -> Tensor<2> {
        self.forward_with(batch, config, device, &mut Dropout::none())
    }

    /// Returns the vectors as [`Encoder::forward`] does, with `dropout`: the forward pass of training.
    pub fn forward_with(
        &self,
        batch: &TokenBatch,
        config: &EncoderConfig,
        device: &Device,
        dropout: &mut Dropout,
    ) -> Tensor<2> {
        let hidden = self.last_states(batch, config, device, config.pooling.reads(), dropout);
        self.head(pool::pool(hidden, batch, config.pooling, device), config)
    }
}
