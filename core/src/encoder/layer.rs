//! One transformer layer: attention and feed-forward, each with a residual and a LayerNorm after it.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, softmax};

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
    /// `[batch, tokens, hidden]` to the same; `bias` is added to the scores `[batch, heads, tokens, tokens]`.
    pub fn forward(&self, input: Tensor<3>, bias: Option<Tensor<4>>, heads: usize) -> Tensor<3> {
        let [batch, tokens, hidden] = input.dims();
        let width = hidden / heads;
        let split = |x: Tensor<3>| x.reshape([batch, tokens, heads, width]).swap_dims(1, 2);
        let query = split(self.query.forward(input.clone()) * (1.0 / (width as f32).sqrt()));
        let key = split(self.key.forward(input.clone()));
        let value = split(self.value.forward(input));
        let mut scores = query.matmul(key.swap_dims(2, 3));
        if let Some(bias) = bias {
            scores = scores + bias;
        }
        let context = softmax(scores, 3).matmul(value);
        self.output.forward(context.swap_dims(1, 2).reshape([batch, tokens, hidden]))
    }
}

/// One layer, as BERT and MPNet have it.
#[derive(Module, Debug)]
pub struct Layer {
    /// Self-attention.
    pub attention: Attention,
    /// After the attention's residual.
    pub attention_norm: LayerNorm,
    /// `[hidden, intermediate]`.
    pub intermediate: Linear,
    /// `[intermediate, hidden]`.
    pub output: Linear,
    /// After the feed-forward's residual.
    pub output_norm: LayerNorm,
}

impl Layer {
    /// `[batch, tokens, hidden]` to the same.
    pub fn forward(&self, input: Tensor<3>, bias: Option<Tensor<4>>, heads: usize) -> Tensor<3> {
        let attended = self.attention.forward(input.clone(), bias, heads);
        let attended = self.attention_norm.forward(attended + input);
        let widened = gelu(self.intermediate.forward(attended.clone()));
        self.output_norm.forward(self.output.forward(widened) + attended)
    }
}
