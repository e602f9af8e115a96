//! Tensors in the number formats that a browser downloads, and the tensors that two files share.

use std::collections::HashMap;

use dpr_core::weights::{SCALE_SUFFIX, canonical, quantize_rows};
use half::f16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::ModelError;

/// Rows of the largest matrix that stays in single precision: the last layer of a head has a few thousand numbers, and
/// all scores depend on each of them.
const FEW_ROWS: usize = 4;

/// A tensor as it is stored.
pub(super) struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn f32(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        Self { name, dtype: Dtype::F32, shape, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    fn f16(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        Self { name, dtype: Dtype::F16, shape, bytes }
    }

    /// Returns the matrix in 8 bits and its row scales, `[rows]`.
    fn q8(name: String, shape: Vec<usize>, values: &[f32]) -> [Self; 2] {
        let (quantized, scales) = quantize_rows(values, shape[1]);
        let scales = Self::f32(format!("{name}{SCALE_SUFFIX}"), vec![shape[0]], &scales);
        let bytes = quantized.iter().map(|v| v.to_le_bytes()[0]).collect();
        [Self { name, dtype: Dtype::I8, shape, bytes }, scales]
    }
}

/// One file's tensors in each number format.
#[derive(Default)]
pub(super) struct Formats {
    pub(super) f32: Vec<Tensor>,
    pub(super) f16: Vec<Tensor>,
    pub(super) q8: Vec<Tensor>,
}

impl Formats {
    /// Adds a tensor in single precision.
    pub(super) fn push_f32(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        self.f32.push(Tensor::f32(name, shape, values));
    }

    /// Adds a tensor in half precision and in 8 bits.
    pub(super) fn push_small(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        // Biases and LayerNorms are a hundredth of the size and most of the precision.
        if shape.len() < 2 {
            self.push_precise(name, shape, values);
            return;
        }
        self.f16.push(Tensor::f16(name.clone(), shape.clone(), values));
        if is_quantized(&name) {
            self.q8.extend(Tensor::q8(name, shape, values));
        } else {
            self.q8.push(Tensor::f16(name, shape, values));
        }
    }

    /// Adds a tensor of a model of pairs in all three formats. The last layers of heads stay in single precision.
    pub(super) fn push_of_pair(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        self.push_f32(name.clone(), shape.clone(), values);
        if shape.first().is_some_and(|rows| *rows <= FEW_ROWS) && is_quantized(&name) {
            self.push_precise(name, shape, values);
        } else {
            self.push_small(name, shape, values);
        }
    }

    /// Adds a tensor in single precision to the two small formats.
    fn push_precise(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        self.f16.push(Tensor::f32(name.clone(), shape.clone(), values));
        self.q8.push(Tensor::f32(name, shape, values));
    }
}

/// Returns whether a matrix is stored in 8 bits: words and linear layers, which are nearly all of the bytes.
/// Positions, token types and the relative bias stay in f16.
fn is_quantized(name: &str) -> bool {
    let small = ["position_embeddings", "token_type_embeddings", "relative_attention_bias"];
    !small.iter().any(|part| name.contains(part))
}

pub(super) fn serialize(tensors: &[Tensor]) -> Result<Vec<u8>, ModelError> {
    let views = tensors
        .iter()
        .map(|t| Ok((t.name.as_str(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(std::io::Error::other)?;
    Ok(safetensors::serialize(views, None).map_err(std::io::Error::other)?)
}

/// Takes the tensors that `other`, a safetensors file, holds byte for byte out of `tensors`, and returns their names in
/// that file. Names that differ by a prefix of Hugging Face's classes are the same.
///
/// # Errors
/// [`ModelError::Io`] when `other` is not a safetensors file.
pub(super) fn take_shared(tensors: &mut Vec<Tensor>, other: &[u8]) -> Result<Vec<String>, ModelError> {
    let other = SafeTensors::deserialize(other).map_err(std::io::Error::other)?;
    let named = other.iter().filter_map(|(name, view)| Some((canonical(name)?, (name, view))));
    let named: HashMap<String, _> = named.collect();
    let mut shared = Vec::new();
    tensors.retain(|tensor| {
        let same = canonical(&tensor.name).and_then(|name| named.get(&name)).filter(|(_, view)| {
            view.dtype() == tensor.dtype && view.shape() == tensor.shape && view.data() == tensor.bytes
        });
        shared.extend(same.map(|(name, _)| (*name).to_owned()));
        same.is_none()
    });
    shared.sort();
    Ok(shared)
}
