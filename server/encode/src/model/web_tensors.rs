//! Tensors in the number formats that a browser downloads, and the tensors that two files share.

use std::borrow::Cow;
use std::collections::HashMap;

use dpr_core::weights::{
    FourBits, GROUP, SCALE_SUFFIX, STEPS_SUFFIX, canonical, quantize_groups, quantize_rows,
};
use half::f16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::calibration::Calibration;
use super::{ModelError, WebFormat};

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

    /// Returns the tensor in half precision; in single precision where half would make a number infinite.
    fn f16(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        if !fits_f16(values) {
            return Self::f32(name, shape, values);
        }
        let bytes = values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        Self { name, dtype: Dtype::F16, shape, bytes }
    }

    /// Returns the matrix in 8 bits and its row scales, `[rows]`.
    fn q8(name: String, shape: Vec<usize>, values: &[f32]) -> [Self; 2] {
        let (quantized, scales) = quantize_rows(values, shape[1]);
        let scales = Self::f32(format!("{name}{SCALE_SUFFIX}"), vec![shape[0]], &scales);
        [Self::i8(name, shape, &quantized), scales]
    }

    /// Returns the codes of the matrix in 4 bits, its steps `[rows, groups]` and its row scales `[rows]`, rounded for
    /// the inputs of a layer that is calibrated. A matrix whose rows are not whole groups is in 8 bits.
    fn q4(name: String, shape: Vec<usize>, values: &[f32], calibration: Option<&Calibration>) -> Vec<Self> {
        let calibrated = calibration.and_then(|calibration| calibration.rounded(&name, values));
        let quantized = calibrated.or_else(|| quantize_groups(values, shape[1]));
        let Some(quantized) = quantized else { return Self::q8(name, shape, values).into() };
        let steps = vec![shape[0], shape[1] / GROUP];
        let steps = Self::i8(format!("{name}{STEPS_SUFFIX}"), steps, &quantized.steps);
        let scales = Self::f32(format!("{name}{SCALE_SUFFIX}"), vec![shape[0]], &quantized.scales);
        let shape = vec![shape[0], shape[1] / 2];
        vec![Self { name, dtype: Dtype::U8, shape, bytes: quantized.codes }, steps, scales]
    }

    fn i8(name: String, shape: Vec<usize>, values: &[i8]) -> Self {
        let bytes = values.iter().map(|v| v.to_le_bytes()[0]).collect();
        Self { name, dtype: Dtype::I8, shape, bytes }
    }
}

/// One file's tensors in each number format.
pub(super) struct Formats<'a> {
    /// The Hessians of layers in 4 bits, where they are calibrated.
    calibration: Option<&'a Calibration>,
    /// In single precision, as far as tensors were added so.
    pub(super) f32: Vec<Tensor>,
    /// In each of the formats that were asked for.
    pub(super) small: Vec<(WebFormat, Vec<Tensor>)>,
}

impl<'a> Formats<'a> {
    /// Returns no tensors yet, in these formats, with layers in 4 bits rounded by the calibration.
    pub(super) fn new(formats: &[WebFormat], calibration: Option<&'a Calibration>) -> Self {
        let chosen = WebFormat::ALL.into_iter().filter(|format| formats.contains(format));
        Self { calibration, f32: Vec::new(), small: chosen.map(|format| (format, Vec::new())).collect() }
    }

    /// Returns whether the matrix `name` is calibrated.
    pub(super) fn calibrates(&self, name: &str) -> bool {
        self.calibration.is_some_and(|calibration| calibration.has(name))
    }

    /// Returns the tensors of each format by its name, where there are any.
    pub(super) fn by_name(self) -> impl Iterator<Item = (&'static str, Vec<Tensor>)> {
        let small = self.small.into_iter().map(|(format, tensors)| (format.name(), tensors));
        small.chain([("f32", self.f32)]).filter(|(_, tensors)| !tensors.is_empty())
    }

    /// Adds a tensor in single precision.
    pub(super) fn push_f32(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        self.f32.push(Tensor::f32(name, shape, values));
    }

    /// Adds a tensor in each of the small formats.
    pub(super) fn push_small(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        // Biases and LayerNorms are a hundredth of the size and most of the precision.
        if shape.len() < 2 {
            self.push_precise(name, shape, values);
            return;
        }
        for (format, tensors) in &mut self.small {
            let (name, shape) = (name.clone(), shape.clone());
            match format.of_matrix(&name) {
                WebFormat::F16 => tensors.push(Tensor::f16(name, shape, values)),
                WebFormat::Q8 => tensors.extend(Tensor::q8(name, shape, values)),
                WebFormat::Q4 => tensors.extend(Tensor::q4(name, shape, values, self.calibration)),
            }
        }
    }

    /// Adds a tensor of a model of pairs in single precision and in each of the small formats. The last layers of heads
    /// stay in single precision.
    pub(super) fn push_of_pair(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        self.push_f32(name.clone(), shape.clone(), values);
        let is_small = matches!(Part::of(&name), Part::Positions | Part::Small);
        if shape.first().is_some_and(|rows| *rows <= FEW_ROWS) && !is_small {
            self.push_precise(name, shape, values);
        } else {
            self.push_small(name, shape, values);
        }
    }

    /// Adds a tensor in single precision to the small formats.
    fn push_precise(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        for (_, tensors) in &mut self.small {
            tensors.push(Tensor::f32(name.clone(), shape.clone(), values));
        }
    }
}

impl WebFormat {
    /// Returns the format of a matrix in a file of this one.
    fn of_matrix(self, name: &str) -> Self {
        match (self, Part::of(name)) {
            (Self::F16, _) | (Self::Q8, Part::Positions) | (_, Part::Small) => Self::F16,
            (Self::Q4, Part::Body) => Self::Q4,
            (Self::Q8 | Self::Q4, _) => Self::Q8,
        }
    }

    /// Returns a tensor's numbers as they are after an export of a question encoder in this format. `values` are
    /// those of the tensor `name` of `shape`, a linear layer's `[output, input]`, row-major. Tensors that are not
    /// matrices are not rounded, nor are those with a magnitude that half precision does not hold (65,520 and more)
    /// where the format is half precision.
    pub fn rounded<'v>(self, name: &str, shape: &[usize], values: &'v [f32]) -> Cow<'v, [f32]> {
        let [_, columns] = *shape else { return Cow::Borrowed(values) };
        let in_8_bits = || {
            let (quantized, scales) = quantize_rows(values, columns);
            let rows = quantized.chunks_exact(columns.max(1)).zip(scales);
            rows.flat_map(|(row, scale)| row.iter().map(move |value| f32::from(*value) * scale)).collect()
        };
        Cow::Owned(match self.of_matrix(name) {
            Self::F16 if !fits_f16(values) => return Cow::Borrowed(values),
            Self::F16 => values.iter().map(|value| f16::from_f32(*value).to_f32()).collect(),
            Self::Q8 => in_8_bits(),
            Self::Q4 => quantize_groups(values, columns).map_or_else(in_8_bits, FourBits::into_f32),
        })
    }
}

/// Returns whether half precision holds every one of these numbers as a finite one.
fn fits_f16(values: &[f32]) -> bool {
    values.iter().all(|value| f16::from_f32(*value).is_finite())
}

/// The part of a model that a matrix belongs to.
enum Part {
    /// Words and the layers of the transformer: nearly all of the bytes.
    Body,
    /// Layers behind the transformer, whose errors are those of the vectors.
    Head,
    /// Positions: in f16 beside 8 bits, and in 8 bits beside 4.
    Positions,
    /// Token types and the relative bias, which stay in f16.
    Small,
}

impl Part {
    fn of(name: &str) -> Self {
        let holds = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        if holds(&["position_embeddings"]) {
            Self::Positions
        } else if holds(&["token_type_embeddings", "relative_attention_bias"]) {
            Self::Small
        } else if holds(&["word_embeddings", "tok_embeddings", "layer.", "layers."]) {
            Self::Body
        } else {
            Self::Head
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::TensorMap;
    use dpr_core::random::SplitMix;

    #[test]
    fn a_number_that_half_precision_does_not_hold_is_finite_in_every_format() {
        let (name, values) = ("embeddings.token_type_embeddings.weight", [70_000.0, -1.0, 0.5, 65_000.0]);
        let mut formats = Formats::new(&WebFormat::ALL, None);
        formats.push_small(name.to_owned(), vec![2, 2], &values);
        for (format, stored) in &formats.small {
            let bytes = serialize(stored).unwrap();
            let mut map = TensorMap::from_safetensors([("file", bytes.as_slice())]).unwrap();
            let got = map.take_f32(name, &[2, 2]).unwrap();
            assert_eq!(got, values, "{format}");
            assert_eq!(*format.rounded(name, &[2, 2], &values), got, "{format}");
        }
    }

    #[test]
    fn rounded_numbers_are_those_that_a_page_reads_out_of_the_file() {
        // The last one's rows are not whole groups, so that it is in 8 bits.
        let tensors = [
            ("embeddings.word_embeddings.weight", vec![5, 64]),
            ("embeddings.position_embeddings.weight", vec![4, 64]),
            ("embeddings.token_type_embeddings.weight", vec![2, 64]),
            ("encoder.layer.0.output.dense.weight", vec![7, 96]),
            ("encoder.layer.0.output.dense.bias", vec![7]),
            ("encode_proj.weight", vec![3, 64]),
            ("encoder.layer.1.output.dense.weight", vec![7, 40]),
        ];
        let mut formats = Formats::new(&WebFormat::ALL, None);
        let mut random = SplitMix::keyed(&[1]);
        let values = tensors.clone().map(|(name, shape)| {
            let count = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|_| random.normal() as f32).collect();
            formats.push_small(name.to_owned(), shape, &values);
            values
        });
        for (format, stored) in &formats.small {
            let bytes = serialize(stored).unwrap();
            let mut map = TensorMap::from_safetensors([("file", bytes.as_slice())]).unwrap();
            let mut changed = 0;
            for ((name, shape), values) in tensors.iter().zip(&values) {
                let rounded = format.rounded(name, shape, values);
                assert_eq!(map.take_f32(name, shape).unwrap(), *rounded, "{format}: {name}");
                changed += usize::from(*rounded != *values);
            }
            assert_eq!(changed, tensors.len() - 1, "{format}: all but the bias");
        }
    }
}
