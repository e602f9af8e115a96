//! Encoders on Burn, which run on wgpu, WebGPU and Burn's CPU backend and are differentiated in training.

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

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The operations of a layer in this build.
#[cfg(not(feature = "page-kernels"))]
use ops as layer_ops;
#[cfg(feature = "page-kernels")]
use page as layer_ops;

pub use dropout::Dropout;
pub use embeddings::Embeddings;
pub use layer::{Attention, Layer};
pub use norm::Norm;
pub use parameters::{ParameterInfo, parameter_list};
pub use relative::RelativeBias;
pub use rotary::Positions;

use crate::config::EncoderConfig;
use crate::engine::Row;

/// The number that is added to a masked score. It is finite, since WGSL may assume that there are no infinities, and
/// small enough for f16.
const MASKED: f32 = -1.0e4;

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

/// A batch of token ids as rows of one length, with a mask of the padding.
#[derive(Clone, Debug)]
pub struct TokenBatch {
    ids: Vec<i32>,
    mask: Vec<f32>,
    /// Token types; `None` where all are 0.
    types: Option<Vec<i32>>,
    rows: usize,
    tokens: usize,
    padded: bool,
}

impl TokenBatch {
    /// Pads `rows` with `pad` at the end, to the longest row's length rounded up to a multiple of
    /// `multiple_of` and at most `limit`.
    pub fn new(rows: &[Vec<u32>], pad: u32, multiple_of: usize, limit: usize) -> Self {
        Self::of_rows(&Row::of_ids(rows), pad, multiple_of, limit)
    }

    /// Pads as [`TokenBatch::new`] does, with the types of the tokens of each row, or none where all are 0.
    pub fn typed(rows: &[(&[u32], &[u8])], pad: u32, multiple_of: usize, limit: usize) -> Self {
        let rows: Vec<_> = rows.iter().map(|(ids, types)| Row { ids, types }).collect();
        Self::of_rows(&rows, pad, multiple_of, limit)
    }

    /// Pads as [`TokenBatch::new`] does, with the token types of the rows; padding is of type 0.
    pub(crate) fn of_rows(rows: &[Row<'_>], pad: u32, multiple_of: usize, limit: usize) -> Self {
        let longest = rows.iter().map(Row::len).max().unwrap_or(0);
        let tokens = longest.next_multiple_of(multiple_of.max(1)).min(limit).max(longest);
        let mut ids = Vec::with_capacity(rows.len() * tokens);
        let mut mask = Vec::with_capacity(rows.len() * tokens);
        for row in rows {
            ids.extend(row.ids.iter().map(|id| *id as i32));
            ids.resize(ids.len() + tokens - row.len(), pad as i32);
            mask.resize(mask.len() + row.len(), 1.0);
            mask.resize(mask.len() + tokens - row.len(), 0.0);
        }
        let padded = rows.iter().any(|row| row.len() < tokens);
        let typed = rows.iter().any(|row| row.types.iter().any(|kind| *kind > 0));
        let types = typed.then(|| {
            let types = |row: &Row<'_>| {
                let types = row.types.iter().map(|kind| i32::from(*kind));
                types.chain(std::iter::repeat(0)).take(tokens).collect::<Vec<_>>()
            };
            rows.iter().flat_map(types).collect()
        });
        Self { ids, mask, types, rows: rows.len(), tokens, padded }
    }

    /// Returns the number of rows and the length they are padded to, `[rows, tokens]`.
    pub fn dims(&self) -> [usize; 2] {
        [self.rows, self.tokens]
    }
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
            hidden = layer.forward(hidden, positions, config, dropout);
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
        let hidden = self.hidden(batch, config, device, dropout);
        self.head(pool::pool(hidden, batch, config.pooling, device), config)
    }
}
