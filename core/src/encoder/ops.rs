//! What a layer is made of, as Burn's own operations: differentiable, and tuned by Burn on the device.

use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, softmax};

use super::dropout::Dropout;

/// `[batch, tokens, input]` to `[batch, tokens, output]`.
pub(super) fn linear(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
    layer.forward(input)
}

/// [`linear`], then the exact GELU.
pub(super) fn linear_gelu(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
    gelu(linear(layer, input))
}

/// Scaled dot-product attention of `heads` heads that lie side by side in `[batch, tokens, hidden]`; `bias` is
/// added to the scores `[batch, heads, tokens, tokens]` and may have length 1 in any dimension but the last;
/// `dropout` leaves out a share of the probabilities.
pub(super) fn attend(
    query: Tensor<3>,
    key: Tensor<3>,
    value: Tensor<3>,
    bias: Option<Tensor<4>>,
    heads: usize,
    dropout: &mut Dropout,
) -> Tensor<3> {
    let [batch, tokens, hidden] = query.dims();
    let width = hidden / heads;
    let split = |x: Tensor<3>| x.reshape([batch, tokens, heads, width]).swap_dims(1, 2);
    let query = split(query * (1.0 / (width as f32).sqrt()));
    let mut scores = query.matmul(split(key).swap_dims(2, 3));
    if let Some(bias) = bias {
        scores = scores + bias;
    }
    let context = dropout.apply(softmax(scores, 3)).matmul(split(value));
    context.swap_dims(1, 2).reshape([batch, tokens, hidden])
}
