//! Transformer layer: attention and feed-forward, each with a residual and a LayerNorm after it.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;

use super::cast::{as_f32, as_taken_by};
use super::dropout::Dropout;
use super::norm::Norm;
#[cfg(not(feature = "page-kernels"))]
use super::ops;
#[cfg(feature = "page-kernels")]
use super::page as ops;

/// Multi-head self-attention.
#[derive(Module, Debug)]
pub struct Attention {
    /// `[hidden, hidden]`.
    pub query: Linear,
    /// `[hidden, hidden]`.
    pub key: Linear,
    /// `[hidden, hidden]`.
    pub value: Linear,
    /// `[hidden, hidden]`.
    pub output: Linear,
}

impl Attention {
    /// Returns the attention's output for states `[batch, tokens, hidden]`, of the same shape; `bias` is added to the
    /// scores `[batch, heads, tokens, tokens]`.
    pub fn forward(
        &self,
        input: Tensor<3>,
        bias: Option<Tensor<4>>,
        heads: usize,
        dropout: &mut Dropout,
    ) -> Tensor<3> {
        let input = as_taken_by(&self.query, input);
        let query = ops::linear(&self.query, input.clone());
        let key = ops::linear(&self.key, input.clone());
        let value = ops::linear(&self.value, input);
        ops::linear(&self.output, ops::attend(query, key, value, bias, heads, dropout))
    }
}

/// One layer, as BERT and MPNet have it.
#[derive(Module, Debug)]
pub struct Layer {
    /// Self-attention.
    pub attention: Attention,
    /// After the attention's residual.
    pub attention_norm: Norm,
    /// `[hidden, intermediate]`.
    pub intermediate: Linear,
    /// `[intermediate, hidden]`.
    pub output: Linear,
    /// After the feed-forward's residual.
    pub output_norm: Norm,
}

impl Layer {
    /// Returns the next states for states `[batch, tokens, hidden]`, of the same shape.
    pub fn forward(
        &self,
        input: Tensor<3>,
        bias: Option<Tensor<4>>,
        heads: usize,
        dropout: &mut Dropout,
    ) -> Tensor<3> {
        let attended = self.attention.forward(input.clone(), bias, heads, dropout);
        let attended = dropout.apply(as_f32(attended));
        let attended = self.attention_norm.forward(attended + input);
        let widened = ops::linear_gelu(&self.intermediate, as_taken_by(&self.intermediate, attended.clone()));
        let narrowed = ops::linear(&self.output, as_taken_by(&self.output, widened));
        self.output_norm.forward(dropout.apply(as_f32(narrowed)) + attended)
    }
}
