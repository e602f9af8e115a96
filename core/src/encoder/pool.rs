//! Pooling of the tokens' states into one vector a row.

use burn::tensor::Tensor;

use crate::config::Pooling;

/// Returns `[batch, hidden]` of the states `[batch, tokens, hidden]`; `mask` `[batch, tokens]` is 1 for real tokens,
/// 0 for padding.
pub(super) fn pool(hidden: Tensor<3>, mask: Option<Tensor<2>>, pooling: Pooling) -> Tensor<2> {
    let [batch, tokens, width] = hidden.dims();
    match (pooling, mask) {
        (Pooling::Cls, _) => hidden.slice([0..batch, 0..1]).reshape([batch, width]),
        (Pooling::Mean, None) => hidden.mean_dim(1).reshape([batch, width]),
        (Pooling::Mean, Some(mask)) => {
            let counts = mask.clone().sum_dim(1);
            let sum = (hidden * mask.reshape([batch, tokens, 1])).sum_dim(1).reshape([batch, width]);
            sum / counts
        }
    }
}

/// Returns rows scaled to length 1, `[batch, dim]`; a row of zeros stays one.
pub(super) fn unit_length(vectors: Tensor<2>) -> Tensor<2> {
    let length = (vectors.clone() * vectors.clone()).sum_dim(1).sqrt().clamp_min(1e-12);
    vectors / length
}
