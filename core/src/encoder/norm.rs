//! LayerNorm (Ba et al. 2016).

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::layer_ops as ops;

/// Scales each state to mean 0 and variance 1, then by a weight and a bias.
#[derive(Module, Debug)]
pub struct Norm {
    /// `[hidden]`.
    pub weight: Param<Tensor<1>>,
    /// `[hidden]`; ModernBERT has none.
    pub bias: Option<Param<Tensor<1>>>,
    /// Added to the variance.
    pub epsilon: f64,
}

impl Norm {
    /// Returns the states `[batch, tokens, hidden]`, normalised.
    pub fn forward(&self, input: Tensor<3>) -> Tensor<3> {
        ops::norm(input, self.weight.val(), self.bias.as_ref().map(Param::val), self.epsilon)
    }

    /// Returns the sum of two states `[batch, tokens, hidden]`, normalised.
    pub fn of_sum(&self, input: Tensor<3>, residual: Tensor<3>) -> Tensor<3> {
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        ops::norm_of_sum(input, residual, weight, bias, self.epsilon)
    }
}
