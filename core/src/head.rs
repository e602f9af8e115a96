//! Head of an encoder: everything between the states of the tokens and the vector.
//!
//! The steps are those of sentence-transformers: pooling, then dense layers and scalings to length 1 in any order, then
//! the first `truncate` numbers (Matryoshka, Kusupati et al. 2022), then `encode_proj`, then length 1.

use serde::{Deserialize, Serialize};

use crate::row::LastStates;

/// Pooling of the last hidden state `[batch, tokens, hidden]` into one vector a row, `[batch, hidden]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The first token's state, as in DPR (paper §3.1).
    Cls,
    /// The mean over the tokens that are not padding, as in sentence-transformers.
    Mean,
    /// The largest value of each number over the tokens.
    Max,
    /// The last token's state.
    LastToken,
    /// The mean weighted by position: the first token counts once, the second twice, and so on (Muennighoff 2022).
    WeightedMean,
    /// The sum over the tokens divided by the root of their number.
    MeanSqrtLen,
    /// BERT's pooler: a dense layer and tanh over the first token's state.
    Pooler,
}

impl Pooling {
    /// Returns the tokens whose last states it reads.
    pub(crate) fn reads(self) -> LastStates {
        match self {
            Self::Cls | Self::Pooler => LastStates::First,
            Self::Mean | Self::Max | Self::LastToken | Self::WeightedMean | Self::MeanSqrtLen => {
                LastStates::All
            }
        }
    }

    /// Returns the mode that sentence-transformers calls `name`, in its old or its new form without
    /// `pooling_mode_` and `_tokens`.
    pub fn from_sentence_transformers(name: &str) -> Option<Self> {
        Some(match name {
            "cls" => Self::Cls,
            "mean" => Self::Mean,
            "max" => Self::Max,
            "lasttoken" => Self::LastToken,
            "weightedmean" => Self::WeightedMean,
            "mean_sqrt_len_tokens" => Self::MeanSqrtLen,
            _ => return None,
        })
    }
}

/// Elementwise function after a dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The number itself.
    Identity,
    /// The hyperbolic tangent.
    Tanh,
    /// The GELU in its exact form.
    Gelu,
    /// The number, or 0 for a negative one.
    Relu,
    /// The logistic function.
    Sigmoid,
}

impl Activation {
    /// Returns the activation of a class of PyTorch, as `torch.nn.modules.activation.Tanh`.
    pub fn from_torch(class: &str) -> Option<Self> {
        let name = class.strip_prefix("torch.nn.")?.rsplit('.').next()?;
        Some(match name {
            "Identity" => Self::Identity,
            "Tanh" => Self::Tanh,
            "GELU" => Self::Gelu,
            "ReLU" => Self::Relu,
            "Sigmoid" => Self::Sigmoid,
            _ => return None,
        })
    }
}

/// One dense layer, as the module `Dense` of sentence-transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenseLayer {
    /// Numbers that it makes of the numbers before it.
    pub output: usize,
    /// `true` if a bias is added.
    pub bias: bool,
    /// Function of each output.
    pub activation: Activation,
}

/// One step between pooling and the vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadStep {
    /// A dense layer, whose tensors are `dense.N.weight` `[output, input]` and `dense.N.bias`, `N` counting the dense
    /// layers from 0.
    Dense(DenseLayer),
    /// Scaling to length 1.
    Normalize,
}

/// Returns the dense layers among `steps` with their inputs, `hidden` being what pooling makes.
pub fn dense_layers(steps: &[HeadStep], hidden: usize) -> impl Iterator<Item = (usize, DenseLayer)> {
    let mut input = hidden;
    steps.iter().filter_map(move |step| match step {
        HeadStep::Dense(layer) => Some((std::mem::replace(&mut input, layer.output), *layer)),
        HeadStep::Normalize => None,
    })
}

/// Returns the name of dense layer `index`, without `.weight` and `.bias`.
pub fn dense_name(index: usize) -> String {
    format!("dense.{index}")
}

/// Name of the pooler's layer, without `.weight` and `.bias`.
pub const POOLER: &str = "pooler.dense";
