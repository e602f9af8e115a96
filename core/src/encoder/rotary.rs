//! Rotary positions (Su et al. 2021), and the window of local attention.

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};

use super::batch::MASKED;
use super::cast::as_f32;
use crate::config::Rotary;
use crate::rotary::angles;

/// Position terms that a layer's attention adds to its queries and keys: a bias to their scores, and their rotation.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// Added to the scores `[batch, heads, tokens, tokens]`; of length 1 in any dimension but the last.
    pub(super) bias: Option<Tensor<4>>,
    pub(super) rotation: Option<Rotation>,
}

/// The cosines and sines by which queries and keys are turned.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    /// `[1, tokens, 1, width / 2]`.
    cos: Tensor<4>,
    /// The same.
    sin: Tensor<4>,
}

impl Rotation {
    /// Prepares the rotation of `tokens` tokens under heads of `width` numbers.
    pub(super) fn new(theta: f64, width: usize, tokens: usize, device: &Device) -> Self {
        let (cos, sin) = angles(theta, width, tokens);
        let tensor = |values| Tensor::from_data(TensorData::new(values, [1, tokens, 1, width / 2]), device);
        Self { cos: tensor(cos), sin: tensor(sin) }
    }

    /// Returns queries or keys `[batch, tokens, hidden]` turned, of the same shape.
    pub(super) fn apply(&self, states: Tensor<3>, heads: usize) -> Tensor<3> {
        let ([batch, tokens, hidden], format) = (states.dims(), states.dtype());
        let (width, half) = (hidden / heads, hidden / heads / 2);
        let states = as_f32(states).reshape([batch, tokens, heads, width]);
        let first = states.clone().slice([0..batch, 0..tokens, 0..heads, 0..half]);
        let second = states.slice([0..batch, 0..tokens, 0..heads, half..width]);
        let turned = Tensor::cat(
            vec![
                first.clone() * self.cos.clone() - second.clone() * self.sin.clone(),
                second * self.cos.clone() + first * self.sin.clone(),
            ],
            3,
        );
        let turned = turned.reshape([batch, tokens, hidden]);
        match format {
            DType::F16 => turned.cast(FloatDType::F16),
            DType::BF16 => turned.cast(FloatDType::BF16),
            _ => turned,
        }
    }
}

/// Returns the positions of global and of local layers, for a batch whose padding has the bias `mask`.
pub(super) fn positions(
    rotary: &Rotary,
    width: usize,
    tokens: usize,
    mask: Option<Tensor<4>>,
    device: &Device,
) -> [Positions; 2] {
    let rotation = |theta| Some(Rotation::new(theta, width, tokens, device));
    let global = Positions { bias: mask.clone(), rotation: rotation(rotary.theta) };
    if !rotary.local_layers.contains(&true) {
        return [global.clone(), global];
    }
    let bias = match mask {
        mask if tokens <= rotary.window + 1 => mask,
        Some(mask) => Some(mask + outside(rotary.window, tokens, device)),
        None => Some(outside(rotary.window, tokens, device)),
    };
    [global, Positions { bias, rotation: rotation(rotary.local_theta) }]
}

/// Returns the bias `[1, 1, tokens, tokens]` that keeps a token from seeing what is further than `window` away.
fn outside(window: usize, tokens: usize, device: &Device) -> Tensor<4> {
    let bias: Vec<f32> = (0..tokens * tokens)
        .map(|at| if (at / tokens).abs_diff(at % tokens) > window { MASKED } else { 0.0 })
        .collect();
    Tensor::from_data(TensorData::new(bias, [1, 1, tokens, tokens]), device)
}
