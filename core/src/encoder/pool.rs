//! Pooling of the tokens' states into one vector a row.

use burn::tensor::{Device, Tensor, TensorData};

use super::batch::TokenBatch;
use crate::config::Pooling;

/// The number that the padding's states are lowered by before a maximum: far below any state, and finite, since WGSL
/// may assume that there are no infinities.
const LOW: f32 = 1.0e9;

/// Returns `[batch, hidden]` of the states `[batch, tokens, hidden]`; padding does not count.
pub(super) fn pool(hidden: Tensor<3>, batch: &TokenBatch, pooling: Pooling, device: &Device) -> Tensor<2> {
    let [rows, tokens, width] = hidden.dims();
    let by_token = |values: Vec<f32>| {
        Tensor::<2>::from_data(TensorData::new(values, [rows, tokens]), device).reshape([rows, tokens, 1])
    };
    match pooling {
        Pooling::Cls | Pooling::Pooler => hidden.slice([0..rows, 0..1]).reshape([rows, width]),
        Pooling::Mean if !batch.padded => hidden.mean_dim(1).reshape([rows, width]),
        Pooling::Max => {
            let hidden = if batch.padded {
                let mask = by_token(batch.mask.clone());
                hidden * mask.clone() + (mask - 1.0) * LOW
            } else {
                hidden
            };
            hidden.max_dim(1).reshape([rows, width])
        }
        Pooling::Mean | Pooling::LastToken | Pooling::WeightedMean | Pooling::MeanSqrtLen => {
            (hidden * by_token(weights(batch, pooling))).sum_dim(1).reshape([rows, width])
        }
    }
}

/// Returns the weight of each token in a sum that pools, `[rows, tokens]`; 0 for padding.
fn weights(batch: &TokenBatch, pooling: Pooling) -> Vec<f32> {
    let mut weights = batch.mask.clone();
    for row in weights.chunks_exact_mut(batch.tokens.max(1)) {
        let count = row.iter().filter(|mask| **mask > 0.0).count().max(1);
        for (position, weight) in row.iter_mut().enumerate().take(count) {
            *weight = match pooling {
                Pooling::LastToken => f32::from(u8::from(position + 1 == count)),
                Pooling::WeightedMean => (position + 1) as f32 / (count * (count + 1) / 2) as f32,
                Pooling::MeanSqrtLen => 1.0 / (count as f32).sqrt(),
                _ => 1.0 / count as f32,
            };
        }
    }
    weights
}
