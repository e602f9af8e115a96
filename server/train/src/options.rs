//! Settings of a step: the size of the chunks, the threads and the number format.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::TrainError;

/// Options of computing a batch. The result does not depend on them but for rounding and the draws of dropout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepOptions {
    /// Most texts in a chunk.
    pub chunk_rows: usize,
    /// Most tokens in a chunk, padding included; a longer text is a chunk of its own.
    pub chunk_tokens: usize,
    /// Tokens whose tapes are kept from the first pass; those beyond are encoded twice.
    pub tape_tokens: usize,
    /// Threads on the CPU, at most [`MAX_THREADS`](Self::MAX_THREADS); 0 for one a processor.
    pub threads: usize,
    /// Number format of the layers' matrix products.
    pub precision: Precision,
}

impl StepOptions {
    /// Most threads on the CPU.
    pub const MAX_THREADS: usize = 1024;
}

impl Default for StepOptions {
    fn default() -> Self {
        Self { chunk_rows: 64, chunk_tokens: 2048, tape_tokens: 8192, threads: 0, precision: Precision::F32 }
    }
}

/// Number format of the layers' matrix products; weights, moments, sums and the states between the products are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// Half precision, where a GPU has it.
    F16,
    /// bf16 with sums in f32, on the CPU, and where a GPU has it.
    Bf16,
}

impl Precision {
    const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// Returns the name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl FromStr for Precision {
    type Err = TrainError;

    fn from_str(text: &str) -> Result<Self, TrainError> {
        let known = Self::ALL.into_iter().find(|precision| precision.name() == text);
        known.ok_or_else(|| TrainError::Setting {
            setting: "precision",
            got: text.into(),
            expected: "expected f32, f16 or bf16".into(),
        })
    }
}
