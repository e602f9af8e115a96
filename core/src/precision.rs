//! Precision of an encoder's arithmetic on the CPU kernels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The numbers that the layers of an encoder multiply. Sums, LayerNorm, softmax and embeddings are in single precision
/// throughout. Attention of more than 16 tokens multiplies in bf16 in both narrower precisions where the processor has
/// AMX or AVX-512 BF16; all other attention is in single precision. Layers after the pooling, such as the projection to
/// the vector, are in bf16 in both narrower precisions, and in 8 bits where the model's file is.
///
/// Vectors of different precisions are close enough to be compared with each other: each keeps the model's fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single precision. Weights that are stored in 8 bits are multiplied in 8 bits, by inputs of 16 bits; in browser
    /// modules of 14, and of 7 for scores that put passages in order.
    #[default]
    F32,
    /// bf16 weights and inputs with sums in single precision; cosine with `F32` at least 0.9999 (all-MiniLM-L6-v2).
    Bf16,
    /// Weights in 8 bits with a scale for each 128 of an output, and inputs in 8 bits with a scale and an offset for
    /// each 128 of a token; cosine with `F32` at least 0.998 (all-MiniLM-L6-v2).
    Int8,
}

/// The reason why a precision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// The name is not a known one.
    #[error("unknown precision {0:?}: it is one of f32, bf16, int8")]
    Unknown(String),
    /// The device computes in single precision only.
    #[error(
        "the device {device} computes in f32, not in {precision}: use the device cpu, or the precision f32"
    )]
    Device {
        /// The precision that was asked for.
        precision: Precision,
        /// The device.
        device: String,
    },
}

impl Precision {
    /// Every precision, the most exact first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Int8];

    /// Returns whether this is [`Precision::F32`].
    pub fn is_f32(&self) -> bool {
        *self == Self::F32
    }

    /// Returns the name: `f32`, `bf16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }
}

impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        let known = Self::ALL.into_iter().find(|precision| precision.name() == text);
        known.ok_or_else(|| PrecisionError::Unknown(text.into()))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
