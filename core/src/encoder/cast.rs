//! Casts between the number format of a layer's matrices and f32, that of the states between the layers.

use burn::nn::Linear;
use burn::tensor::{DType, FloatDType, Tensor};

/// Returns `input` in the number format of the layer's weight.
pub(super) fn as_taken_by<const D: usize>(layer: &Linear, input: Tensor<D>) -> Tensor<D> {
    match layer.weight.val().dtype() {
        DType::F16 => input.cast(FloatDType::F16),
        _ => input,
    }
}

/// Returns `input` in f32.
pub(super) fn as_f32<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    match input.dtype() {
        DType::F32 => input,
        _ => input.cast(FloatDType::F32),
    }
}
