//! Casts between the number format of a layer's matrices and f32, that of the states between the layers.

use burn::nn::Linear;
use burn::tensor::{DType, Device, FloatDType, Tensor};

/// Returns `input` in the number format that the layer's product takes it in: that of the weight, but f32 for a weight
/// in bf16 on Burn's CPU backend.
pub(super) fn as_taken_by<const D: usize>(layer: &Linear, input: Tensor<D>) -> Tensor<D> {
    let weight = layer.weight.val();
    match weight.dtype() {
        DType::F16 => input.cast(FloatDType::F16),
        DType::BF16 if is_gpu(&weight.device()) => input.cast(FloatDType::BF16),
        _ => input,
    }
}

/// Returns whether the device is another than Burn's CPU backend.
pub(super) fn is_gpu(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    return *device != Device::flex();
    #[cfg(not(feature = "flex"))]
    {
        let _ = device;
        true
    }
}

/// Returns `input` in f32.
pub(super) fn as_f32<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    match input.dtype() {
        DType::F32 => input,
        _ => input.cast(FloatDType::F32),
    }
}
