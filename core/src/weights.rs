//! Weights of an encoder: safetensors bytes (one file or shards) under Hugging Face names, reduced to one set of
//! canonical names and handed out tensor by tensor with their shapes checked.
//!
//! Canonical names are those of a bare `BertModel`, `MPNetModel` and so on (`embeddings.word_embeddings.weight`,
//! `encoder.layer.0.…`) plus `encode_proj.{weight,bias}`. The prefixes of the `facebook/dpr-*` checkpoints and of
//! common wrappers are stripped; the heads of pre-training and other tensors that no vector depends on are ignored.
//!
//! A matrix may be stored in 8 bits: an `I8` tensor `NAME` of shape `[rows, columns]` with an `F32` tensor
//! `NAME.scale` of shape `[rows]`; row `r` then stands for `values[r] * scale[r]`. In 4 bits it is a `U8` tensor `NAME`
//! of shape `[rows, columns / 2]` with two codes a byte, the first in the low half, an `I8` tensor `NAME.steps` of shape
//! `[rows, columns / 32]`, and `NAME.scale` as before; code `c`, from 0 to 15, then stands for
//! `(c - 8) * step * scale[r]`, where the product of the first two is a number in 8 bits.

mod arriving;
#[cfg(not(target_family = "wasm"))]
mod compensated;
mod error;
mod four_bits;
#[cfg(not(target_family = "wasm"))]
mod random;

use std::collections::BTreeMap;

use half::{bf16, f16};
use safetensors::tensor::Dtype;

pub use arriving::ArrivingTensors;
#[cfg(not(target_family = "wasm"))]
pub use compensated::{HessianFactor, quantize_groups_for};
pub use error::WeightsError;
pub use four_bits::{FourBits, GROUP, STEPS_SUFFIX, fits_groups, quantize_groups};
#[cfg(not(target_family = "wasm"))]
pub use random::random_weights;

/// Suffix of the tensor that holds an 8-bit or a 4-bit matrix's row scales.
pub const SCALE_SUFFIX: &str = ".scale";

const PREFIXES: [&str; 14] = [
    "span_predictor.encoder.bert_model.",
    "span_predictor.",
    "question_encoder.bert_model.",
    "ctx_encoder.bert_model.",
    "question_encoder.",
    "ctx_encoder.",
    "bert_model.",
    "bert.",
    "mpnet.",
    "distilbert.",
    "roberta.",
    "electra.",
    "nomic_bert.",
    "model.",
];

/// Beginnings of the names of tensors that a checkpoint may hold and that do not change the states of the tokens.
const IGNORED: [&str; 14] = [
    // The numbers 0, 1, 2, …, which older transformers wrote out.
    "embeddings.position_ids",
    // The heads of pre-training: masked words and next sentence, and ELECTRA's replaced words.
    "cls.predictions.",
    "cls.seq_relationship.",
    "lm_head.",
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    "discriminator_predictions.",
    "generator_predictions.",
    "generator_lm_head.",
    "head.dense.",
    "head.norm.",
    "decoder.weight",
    "decoder.bias",
];

/// Beginning of the names of tensors that may be left: the layer over [CLS] that classifiers read, and models whose
/// pooling is [`Pooling::Pooler`](crate::Pooling::Pooler).
const SPARE: &str = "pooler.";

/// Unused tensors that an error names.
const NAMED: usize = 4;

/// A tensor's name in the files, its shape and its numbers, row-major.
pub type StoredTensor = (String, Vec<usize>, Vec<f32>);

/// A matrix as stored: `[rows, columns]`, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Matrix {
    /// Plain numbers.
    F32(Vec<f32>),
    /// Eight bits a number and one scale a row.
    Q8 {
        /// `[rows, columns]`.
        values: Vec<i8>,
        /// `[rows]`; never negative.
        scales: Vec<f32>,
    },
}

impl Matrix {
    /// Returns the matrix as plain numbers, `[rows, columns]` row-major.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Self::F32(values) => values,
            Self::Q8 { values, scales } => {
                let columns = values.len() / scales.len().max(1);
                values
                    .chunks_exact(columns.max(1))
                    .zip(&scales)
                    .flat_map(|(row, scale)| row.iter().map(move |v| f32::from(*v) * scale))
                    .collect()
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Stored {
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

/// Every tensor of an encoder by canonical name.
#[derive(Clone, Debug, Default)]
pub struct TensorMap {
    tensors: BTreeMap<String, Stored>,
    /// Tensors that may be left.
    spare: BTreeMap<String, Stored>,
}

impl TensorMap {
    /// Reads one safetensors file, or all shards of one; each is `(file name, bytes)`.
    ///
    /// # Errors
    /// [`WeightsError::Format`] for bytes cut short or damaged, [`WeightsError::Duplicate`] for a tensor
    /// found twice.
    pub fn from_safetensors<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, WeightsError> {
        let mut map = Self::default();
        for (file, bytes) in files {
            let mut arriving = ArrivingTensors::new(file, bytes.len());
            arriving.push(bytes, &mut map)?;
            arriving.finish()?;
        }
        Ok(map)
    }

    /// Adds a tensor of another format under its canonical name. `bytes` returns its numbers, row-major and
    /// little-endian; it is not called for a tensor that no encoder uses, which is left out.
    ///
    /// # Errors
    /// [`WeightsError::Duplicate`] for a tensor that is here already, and what `bytes` fails with.
    pub fn insert<E: From<WeightsError>>(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
        bytes: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let Some(name) = canonical(name) else { return Ok(()) };
        let kind = if name.starts_with(SPARE) { &mut self.spare } else { &mut self.tensors };
        if kind.contains_key(&name) {
            return Err(WeightsError::Duplicate { name }.into());
        }
        kind.insert(name, Stored { shape: shape.to_vec(), dtype, bytes: bytes()? });
        Ok(())
    }

    /// Moves the tensors of `other` here, under the names that `rename` gives. Those of `other` that may be left, of
    /// the layer over `[CLS]` that classifiers read, are dropped, and `rename` is not asked for them.
    ///
    /// # Errors
    /// [`WeightsError::Unused`] for a tensor without a new name, [`WeightsError::Duplicate`] for a name that is taken.
    pub fn adopt(
        &mut self,
        other: Self,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<(), WeightsError> {
        for (name, stored) in other.tensors {
            let Some(name) = rename(&name) else {
                return Err(WeightsError::Unused { count: 1, names: vec![name] });
            };
            if self.tensors.insert(name.clone(), stored).is_some() {
                return Err(WeightsError::Duplicate { name });
            }
        }
        Ok(())
    }

    /// Gives a layer's tensors, `FROM.weight` with its scales and `FROM.bias`, the names of the layer `to`.
    ///
    /// # Errors
    /// [`WeightsError::Duplicate`] for a name that is taken.
    pub(crate) fn rename_layer(&mut self, from: &str, to: &str) -> Result<(), WeightsError> {
        for part in ["weight", "weight.scale", "weight.steps", "bias"] {
            let Some(stored) = self.tensors.remove(&format!("{from}.{part}")) else { continue };
            let name = format!("{to}.{part}");
            if self.tensors.insert(name.clone(), stored).is_some() {
                return Err(WeightsError::Duplicate { name });
            }
        }
        Ok(())
    }

    /// Returns the canonical names and shapes of the tensors that have not been taken yet and must be, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors.iter().map(|(name, stored)| (name.as_str(), stored.shape.as_slice()))
    }

    /// Checks that no tensor is left: a tensor that is left belongs to something that the encoder does not compute.
    ///
    /// # Errors
    /// [`WeightsError::Unused`] says how many are left and names the first.
    pub fn all_taken(&self) -> Result<(), WeightsError> {
        let names: Vec<String> = self.tensors.keys().take(NAMED).cloned().collect();
        match self.tensors.len() {
            0 => Ok(()),
            count => Err(WeightsError::Unused { count, names }),
        }
    }

    /// Returns whether a tensor of this canonical name is (still) here.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name) || self.spare.contains_key(name)
    }

    /// Returns the shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).or_else(|| self.spare.get(name)).map(|stored| stored.shape.as_slice())
    }

    /// Takes a tensor out and returns its plain numbers, in whichever format they are stored. Of a matrix in 8 or 4
    /// bits the scales are checked to be finite, not their products with the codes, which a scale near the largest
    /// `f32` makes infinite.
    ///
    /// # Errors
    /// When it is missing, misshapen, of an unsupported type, or not finite.
    pub fn take_f32(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, WeightsError> {
        Ok(self.take_matrix(name, shape)?.into_f32())
    }

    /// Takes a tensor out and returns it as it is stored: 8-bit with its scales, or plain numbers. A matrix in 4 bits is
    /// returned in 8 bits, which hold its numbers exactly.
    ///
    /// # Errors
    /// As [`TensorMap::take_f32`].
    pub fn take_matrix(&mut self, name: &str, shape: &[usize]) -> Result<Matrix, WeightsError> {
        let stored = self.take_stored(name, shape)?;
        if let (Dtype::U8, [rows, columns]) = (stored.dtype, shape) {
            return self.four_bits(name, &stored, *rows, *columns);
        }
        let values = match with_shape(name, stored, shape)? {
            Stored { dtype: Dtype::F32, bytes, .. } => numbers::<4>(&bytes, f32::from_le_bytes),
            Stored { dtype: Dtype::F16, bytes, .. } => {
                numbers::<2>(&bytes, |b| f16::from_le_bytes(b).to_f32())
            }
            Stored { dtype: Dtype::BF16, bytes, .. } => {
                numbers::<2>(&bytes, |b| bf16::from_le_bytes(b).to_f32())
            }
            Stored { dtype: Dtype::I8, bytes, .. } if shape.len() == 2 => {
                let scales = self.take_f32(&format!("{name}{SCALE_SUFFIX}"), &shape[..1])?;
                return Ok(Matrix::Q8 { values: signed(&bytes), scales });
            }
            Stored { dtype, .. } => {
                return Err(WeightsError::Dtype { name: name.into(), dtype: format!("{dtype:?}") });
            }
        };
        match values.iter().position(|v| !v.is_finite()) {
            Some(position) => Err(WeightsError::NotFinite { name: name.into(), position }),
            None => Ok(Matrix::F32(values)),
        }
    }

    /// Returns a matrix `[rows, columns]` of which the codes are stored in 4 bits.
    fn four_bits(
        &mut self,
        name: &str,
        codes: &Stored,
        rows: usize,
        columns: usize,
    ) -> Result<Matrix, WeightsError> {
        if codes.shape != [rows, columns / 2] || !fits_groups(columns) {
            let reason = format!(
                "its codes have shape {:?}, expected [{rows}, {columns} / 2] and rows of whole groups of {GROUP}",
                codes.shape
            );
            return Err(WeightsError::FourBits { name: name.into(), reason });
        }
        let (steps_name, steps_shape) = (format!("{name}{STEPS_SUFFIX}"), [rows, columns / GROUP]);
        let steps = with_shape(&steps_name, self.take_stored(&steps_name, &steps_shape)?, &steps_shape)?;
        if steps.dtype != Dtype::I8 {
            let reason = format!("its steps are stored as {:?}, expected I8", steps.dtype);
            return Err(WeightsError::FourBits { name: name.into(), reason });
        }
        let scales = self.take_f32(&format!("{name}{SCALE_SUFFIX}"), &[rows])?;
        let values = four_bits::open(name, &codes.bytes, &signed(&steps.bytes), columns)?;
        Ok(Matrix::Q8 { values, scales })
    }

    /// Takes a tensor out, whatever its shape is; `expected` is for the error.
    fn take_stored(&mut self, name: &str, expected: &[usize]) -> Result<Stored, WeightsError> {
        let stored = self.tensors.remove(name).or_else(|| self.spare.remove(name));
        stored.ok_or_else(|| WeightsError::Missing { name: name.into(), expected: expected.to_vec() })
    }
}

/// Returns the tensor if it has the expected shape.
fn with_shape(name: &str, stored: Stored, expected: &[usize]) -> Result<Stored, WeightsError> {
    if stored.shape == expected {
        return Ok(stored);
    }
    Err(WeightsError::Shape { name: name.into(), expected: expected.to_vec(), got: stored.shape })
}

fn signed(bytes: &[u8]) -> Vec<i8> {
    bytes.iter().map(|byte| i8::from_le_bytes([*byte])).collect()
}

fn numbers<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|b| read(*b)).collect()
}

/// Returns the canonical form of a Hugging Face tensor name; `None` for tensors no encoder uses.
pub fn canonical(name: &str) -> Option<String> {
    let short = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    if IGNORED.iter().any(|start| short.starts_with(start)) {
        return None;
    }
    Some(short.replace(".LayerNorm.gamma", ".LayerNorm.weight").replace(".LayerNorm.beta", ".LayerNorm.bias"))
}

/// Returns an 8-bit copy of a matrix `[rows, columns]`: one scale a row, `max |row| / 127`, values rounded to nearest.
pub fn quantize_rows(values: &[f32], columns: usize) -> (Vec<i8>, Vec<f32>) {
    let mut quantized = Vec::with_capacity(values.len());
    let mut scales = Vec::with_capacity(values.len() / columns.max(1));
    for row in values.chunks_exact(columns.max(1)) {
        let scale = row.iter().fold(0f32, |max, v| max.max(v.abs())) / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        quantized.extend(row.iter().map(|v| (v * inverse).round().clamp(-127.0, 127.0) as i8));
        scales.push(scale);
    }
    (quantized, scales)
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;

    fn file(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
        let views: Vec<_> = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| {
                (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
            })
            .collect();
        safetensors::serialize(views, None).unwrap()
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn dpr_prefixes_are_stripped_and_the_pooler_ignored() {
        let bytes = file(&[
            ("ctx_encoder.bert_model.embeddings.LayerNorm.weight", Dtype::F32, &[2], f32s(&[1.0, 2.0])),
            ("ctx_encoder.bert_model.pooler.dense.bias", Dtype::F32, &[1], f32s(&[1.0])),
            ("ctx_encoder.encode_proj.bias", Dtype::F32, &[1], f32s(&[3.0])),
        ]);
        let mut map = TensorMap::from_safetensors([("model.safetensors", bytes.as_slice())]).unwrap();
        let names: Vec<_> = map.names().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["embeddings.LayerNorm.weight", "encode_proj.bias"]);
        assert_eq!(map.take_f32("embeddings.LayerNorm.weight", &[2]).unwrap(), [1.0, 2.0]);
        map.take_f32("encode_proj.bias", &[1]).unwrap();
        map.all_taken().unwrap();
        assert_eq!(map.take_f32("pooler.dense.bias", &[1]).unwrap(), [1.0], "there for those who read it");
    }

    #[test]
    fn what_no_vector_needs_is_ignored_and_anything_else_is_named() {
        let number = || f32s(&[1.0]);
        let mut tensors: Vec<(&str, Dtype, &[usize], Vec<u8>)> = [
            "bert.embeddings.position_ids",
            "bert.pooler.dense.bias",
            "cls.predictions.bias",
            "cls.seq_relationship.bias",
            "lm_head.bias",
        ]
        .map(|name| (name, Dtype::F32, [1usize].as_slice(), number()))
        .into();
        let read = |tensors: &[(&str, Dtype, &[usize], Vec<u8>)]| {
            TensorMap::from_safetensors([("m", file(tensors).as_slice())]).unwrap().all_taken()
        };
        read(&tensors).unwrap();
        tensors.push(("classifier.bias", Dtype::F32, &[1], number()));
        let error = read(&tensors).unwrap_err().to_string();
        assert!(error.contains("place for: 1, first [\"classifier.bias\"]"), "{error}");
    }

    #[test]
    fn half_precision_and_eight_bits_read_back() {
        let biases: Vec<u8> = [0.5f32, -2.0].iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        let row = [0.1f32, -1.27, 0.0, 0.63];
        let (values, scales) = quantize_rows(&row, 4);
        let bytes = file(&[
            ("a.bias", Dtype::F16, &[2], biases),
            ("w.weight", Dtype::I8, &[1, 4], values.iter().map(|v| *v as u8).collect()),
            ("w.weight.scale", Dtype::F32, &[1], f32s(&scales)),
        ]);
        let mut map = TensorMap::from_safetensors([("m", bytes.as_slice())]).unwrap();
        assert_eq!(map.take_f32("a.bias", &[2]).unwrap(), [0.5, -2.0]);
        let back = map.take_f32("w.weight", &[1, 4]).unwrap();
        assert!(row.iter().zip(back).all(|(a, b)| (a - b).abs() <= 0.005001), "within half a step of 0.01");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let whole = file(&[("w.weight", Dtype::F32, &[2, 2], f32s(&[1.0, f32::NAN, 0.0, 0.0]))]);
        let cut =
            TensorMap::from_safetensors([("model.safetensors", &whole[..whole.len() - 3])]).unwrap_err();
        assert!(cut.to_string().starts_with("model.safetensors is not a whole safetensors file"), "{cut}");
        let read = || TensorMap::from_safetensors([("m", whole.as_slice())]).unwrap();
        let message = |result: Result<Vec<f32>, WeightsError>| result.unwrap_err().to_string();
        let missing = message(read().take_f32("v.weight", &[2, 2]));
        assert!(missing.contains("\"v.weight\" is missing") && missing.contains("[2, 2]"), "{missing}");
        let shape = message(read().take_f32("w.weight", &[4, 2]));
        assert!(shape.contains("[2, 2], expected [4, 2]"), "{shape}");
        let nan = message(read().take_f32("w.weight", &[2, 2]));
        assert!(nan.contains("not finite, at 1"), "{nan}");
        let twice =
            TensorMap::from_safetensors([("a", whole.as_slice()), ("b", whole.as_slice())]).unwrap_err();
        assert!(matches!(twice, WeightsError::Duplicate { .. }));
    }
}
