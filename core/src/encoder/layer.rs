//! Transformer layer: attention and feed-forward, each with a residual and a LayerNorm.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::silu;

use super::cast::{as_f32, as_taken_by};
use super::dropout::Dropout;
use super::layer_ops as ops;
use super::norm::Norm;
use super::rotary::Positions;
use crate::config::{EncoderConfig, FeedForward};
use crate::row::LastStates;

/// Multi-head self-attention.
#[derive(Module, Debug)]
pub struct Attention {
    /// Query, key and value, `[hidden, hidden]` each, or one layer that holds all three, `[hidden, 3 * hidden]`.
    pub qkv: Vec<Linear>,
    /// `[hidden, hidden]`.
    pub output: Linear,
}

impl Attention {
    /// Returns the attention's output for states `[batch, tokens, hidden]`: of those that are `read`.
    pub(super) fn forward(
        &self,
        input: Tensor<3>,
        positions: &Positions,
        heads: usize,
        read: LastStates,
        dropout: &mut Dropout,
    ) -> Tensor<3> {
        let input = as_taken_by(&self.output, input);
        let [query, key, value] = match self.qkv.as_slice() {
            [query, key, value] => [query, key, value].map(|layer| ops::linear(layer, input.clone())),
            layers => {
                let [batch, tokens, hidden] = input.dims();
                // One layer; that there is one is the loader's business.
                let all = layers.iter().fold(input, |input, layer| ops::linear(layer, input));
                [0, 1, 2]
                    .map(|part| all.clone().slice([0..batch, 0..tokens, part * hidden..(part + 1) * hidden]))
            }
        };
        let [query, key] = match &positions.rotation {
            Some(rotation) => [query, key].map(|states| rotation.apply(states, heads)),
            None => [query, key],
        };
        let (format, bias) = (self.output.weight.val().dtype(), positions.bias.clone());
        let context = ops::attend([query, key, value], format, bias, heads, dropout);
        ops::linear(&self.output, only(read, context))
    }
}

/// One layer, with its LayerNorms after the residuals or, in a family that is
/// [`is_pre_norm`](crate::Family::is_pre_norm), before the attention and the feed-forward.
#[derive(Module, Debug)]
pub struct Layer {
    /// Self-attention.
    pub attention: Attention,
    /// LayerNorm of the attention; ModernBERT's first layer has none.
    pub attention_norm: Option<Norm>,
    /// `[hidden, intermediate]`; the activated and the linear part of a gated one are two layers, or one that holds
    /// both, `[hidden, 2 * intermediate]`.
    pub intermediate: Vec<Linear>,
    /// `[intermediate, hidden]`.
    pub output: Linear,
    /// LayerNorm of the feed-forward.
    pub output_norm: Norm,
}

impl Layer {
    /// Returns the next states for states `[batch, tokens, hidden]`: those that are `read`.
    pub(super) fn forward(
        &self,
        input: Tensor<3>,
        positions: &Positions,
        config: &EncoderConfig,
        read: LastStates,
        dropout: &mut Dropout,
    ) -> Tensor<3> {
        let (before, heads) = (config.family.is_pre_norm(), config.num_attention_heads);
        let norm = |norm: Option<&Norm>, states: Tensor<3>| match norm {
            Some(norm) => norm.forward(states),
            None => states,
        };
        let norm_of_sum = |norm: Option<&Norm>, states: Tensor<3>, residual: Tensor<3>| match norm {
            Some(norm) => norm.of_sum(states, residual),
            None => states + residual,
        };
        let (first, second) = (self.attention_norm.as_ref(), Some(&self.output_norm));
        let ([attention_in, output_in], [attention_out, output_out]) =
            if before { ([first, second], [None; 2]) } else { ([None; 2], [first, second]) };
        let normed = norm(attention_in, input.clone());
        let attended = self.attention.forward(normed, positions, heads, read, dropout);
        let attended = norm_of_sum(attention_out, dropout.apply(as_f32(attended)), only(read, input));
        let widened = self.widen(norm(output_in, attended.clone()), config.family.feed_forward());
        let narrowed = ops::linear(&self.output, as_taken_by(&self.output, widened));
        norm_of_sum(output_out, dropout.apply(as_f32(narrowed)), attended)
    }

    /// Returns the activated inner states, `[batch, tokens, intermediate]`, in f32.
    fn widen(&self, input: Tensor<3>, kind: FeedForward) -> Tensor<3> {
        let input = as_taken_by(&self.output, input);
        let [active, linear] = match self.intermediate.as_slice() {
            [layer] if kind == FeedForward::Gelu => return ops::linear_gelu(layer, input),
            [active, linear] => [active, linear].map(|layer| as_f32(ops::linear(layer, input.clone()))),
            layers => {
                let both = layers.iter().fold(input, |input, layer| ops::linear(layer, input));
                let [batch, tokens, width] = both.dims();
                let half = |part: usize| part * width / 2..(part + 1) * width / 2;
                [0, 1].map(|part| as_f32(both.clone().slice([0..batch, 0..tokens, half(part)])))
            }
        };
        match kind {
            FeedForward::SwiGlu => silu(active) * linear,
            FeedForward::Gelu | FeedForward::GeGlu => ops::gelu(active) * linear,
        }
    }
}

/// Returns the states of `[batch, tokens, hidden]` that are `read`.
fn only(read: LastStates, states: Tensor<3>) -> Tensor<3> {
    let [batch, _, hidden] = states.dims();
    match read {
        LastStates::All => states,
        LastStates::First => states.slice([0..batch, 0..1, 0..hidden]),
    }
}
