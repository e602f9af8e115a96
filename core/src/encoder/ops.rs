//! Operations of a layer. In a build that trains they are those of [`super::fused`], else Burn's own.

use burn::nn::Linear;
#[cfg(all(feature = "autodiff", feature = "flex"))]
use burn::tensor::Device;
use burn::tensor::module::embedding;
use burn::tensor::{DType, FloatDType, Int, Tensor};

use super::cast::as_f32;
use super::dropout::Dropout;
#[cfg(feature = "autodiff")]
use super::fused::softmax;
#[cfg(feature = "autodiff")]
pub(super) use super::fused::{gelu, linear, norm};
#[cfg(not(feature = "autodiff"))]
use plain::softmax;
#[cfg(not(feature = "autodiff"))]
pub(super) use plain::{gelu, linear, norm};

#[cfg(not(feature = "autodiff"))]
mod plain {
    use burn::nn::Linear;
    use burn::tensor::module::layer_norm;
    use burn::tensor::{Tensor, activation};

    /// Returns `[batch, tokens, output]` of `[batch, tokens, input]`.
    pub(in super::super) fn linear(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
        layer.forward(input)
    }

    /// LayerNorm over the last dimension.
    pub(in super::super) fn norm(
        input: Tensor<3>,
        weight: Tensor<1>,
        bias: Option<Tensor<1>>,
        eps: f64,
    ) -> Tensor<3> {
        layer_norm(input, weight, bias, eps)
    }

    /// Returns the exact GELU.
    pub(in super::super) fn gelu(input: Tensor<3>) -> Tensor<3> {
        activation::gelu(input)
    }

    pub(super) fn softmax(scores: Tensor<4>) -> Tensor<4> {
        activation::softmax(scores, 3)
    }
}

/// Returns the sum of each token's embeddings, `[batch, tokens, hidden]`: rows of `words` `[vocabulary, hidden]` by
/// `ids` `[batch, tokens]`, of `positions` from row `offset` on, and of `kinds` by `types` `[batch, tokens]`, or the
/// first of them where there are no types.
pub(super) fn embed(
    ids: Tensor<2, Int>,
    types: Option<Tensor<2, Int>>,
    words: Tensor<2>,
    positions: Option<Tensor<2>>,
    kinds: Option<Tensor<2>>,
    offset: usize,
) -> Tensor<3> {
    let [_, tokens] = ids.dims();
    let positions = positions.map(|positions| positions.slice(offset..offset + tokens));
    let words = embedding(words, ids);
    let (kind, words) = match (kinds, types) {
        (Some(kinds), Some(types)) => (None, words + embedding(kinds, types)),
        (kinds, _) => (kinds.map(|kinds| kinds.slice(0..1)), words),
    };
    let rest = match (positions, kind) {
        (Some(positions), Some(kind)) => Some(positions + kind),
        (positions, kind) => positions.or(kind),
    };
    match rest {
        Some(rest) => words + rest.unsqueeze::<3>(),
        None => words,
    }
}

/// Returns `[batch, output]` of `[batch, input]`.
pub(super) fn dense(layer: &Linear, input: Tensor<2>) -> Tensor<2> {
    layer.forward(input)
}

/// Returns rows scaled to length 1, `[batch, dim]`; a row of zeros stays one.
pub(super) fn unit_length(vectors: Tensor<2>) -> Tensor<2> {
    let length = (vectors.clone() * vectors.clone()).sum_dim(1).sqrt().clamp_min(1e-12);
    vectors / length
}

/// Returns the [`norm`] of a sum.
pub(super) fn norm_of_sum(
    input: Tensor<3>,
    residual: Tensor<3>,
    weight: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    norm(input + residual, weight, bias, eps)
}

/// Returns the exact GELU of [`linear`], in f32.
pub(super) fn linear_gelu(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
    gelu(as_f32(linear(layer, input)))
}

/// Returns the scaled dot-product attention of `heads` heads that lie side by side in `[batch, tokens, hidden]`;
/// `bias` is added to the scores `[batch, heads, tokens, tokens]` and may have length 1 in any dimension but the
/// last; `dropout` leaves out a share of the probabilities. On Burn's CPU backend, states in f32 of layers whose
/// `format` is bf16 are multiplied in bf16 where the processor has AMX.
pub(super) fn attend(
    [query, key, value]: [Tensor<3>; 3],
    format: DType,
    bias: Option<Tensor<4>>,
    heads: usize,
    dropout: &mut Dropout,
) -> Tensor<3> {
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    if query.device() == Device::flex() && query.dtype() == DType::F32 {
        let narrow = format == DType::BF16;
        return super::fused::attend([query, key, value], narrow, bias, heads, dropout);
    }
    // Elsewhere the states are in the format of the layers.
    let _ = format;
    let [batch, tokens, hidden] = query.dims();
    let width = hidden / heads;
    let split = |x: Tensor<3>| x.reshape([batch, tokens, heads, width]).swap_dims(1, 2);
    let query = split(query * (1.0 / (width as f32).sqrt()));
    let format = query.dtype();
    let mut scores = as_f32(query.matmul(split(key).swap_dims(2, 3)));
    if let Some(bias) = bias {
        scores = scores + bias;
    }
    let probabilities = dropout.apply(softmax(scores));
    let probabilities = match format {
        DType::F16 => probabilities.cast(FloatDType::F16),
        DType::BF16 => probabilities.cast(FloatDType::BF16),
        _ => probabilities,
    };
    let context = probabilities.matmul(split(value));
    context.swap_dims(1, 2).reshape([batch, tokens, hidden])
}
