//! The reasons why weights cannot be used.

/// The reason why weights cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The bytes are not whole safetensors: cut short, or damaged.
    #[error("{file} is not a whole safetensors file ({reason}; it has {bytes} bytes): fetch it again")]
    Format {
        /// Name of the file or shard.
        file: String,
        /// Its length.
        bytes: usize,
        /// The parser's message.
        reason: String,
    },
    /// A tensor that the config calls for is absent.
    #[error(
        "tensor {name:?} is missing, expected with shape {expected:?}: do config.json and the weights belong together?"
    )]
    Missing {
        /// Canonical name.
        name: String,
        /// Its shape by the config.
        expected: Vec<usize>,
    },
    /// A tensor has another shape than the config calls for.
    #[error(
        "tensor {name:?} has shape {got:?}, expected {expected:?}: do config.json and the weights belong together?"
    )]
    Shape {
        /// Canonical name.
        name: String,
        /// Its shape by the config.
        expected: Vec<usize>,
        /// Its shape in the file.
        got: Vec<usize>,
    },
    /// A tensor's number type is not one of F32, F16, BF16, I8 with scales, or U8 with scales and steps.
    #[error(
        "tensor {name:?} is stored as {dtype}, supported are F32, F16, BF16, I8 with \"{name}.scale\", and U8 with that and \"{name}.steps\": convert it"
    )]
    Dtype {
        /// Canonical name.
        name: String,
        /// The type in the file.
        dtype: String,
    },
    /// A matrix in 4 bits is not what the format allows.
    #[error(
        "tensor {name:?} is stored in 4 bits, and {reason}: the file is damaged, export or fetch it again"
    )]
    FourBits {
        /// Canonical name.
        name: String,
        /// The fault that was found.
        reason: String,
    },
    /// A tensor holds a NaN or an infinity.
    #[error(
        "tensor {name:?} holds a number that is not finite, at {position}: the file is damaged or its training diverged"
    )]
    NotFinite {
        /// Canonical name.
        name: String,
        /// Flat position of the first such number.
        position: usize,
    },
    /// Tensors are there that the config's encoder has no place for.
    #[error(
        "the weights hold tensors that the encoder of config.json has no place for: {count}, first {names:?}; without them the vectors might not be the model's: take the config.json that belongs to the weights, or, where they are a head that vectors do not need, save the encoder alone (AutoModel.from_pretrained(…).save_pretrained(…))"
    )]
    Unused {
        /// Their number.
        count: usize,
        /// Canonical names of the first few.
        names: Vec<String>,
    },
    /// Two shards, or one file under two names, hold the same tensor.
    #[error("tensor {name:?} is there twice, in two shards or under two names: keep one")]
    Duplicate {
        /// Canonical name.
        name: String,
    },
}

impl WeightsError {
    /// Returns the same error with the tensor under the name that `rename` gives.
    pub(crate) fn renamed(mut self, rename: impl Fn(&str) -> String) -> Self {
        match &mut self {
            Self::Missing { name, .. }
            | Self::Shape { name, .. }
            | Self::Dtype { name, .. }
            | Self::FourBits { name, .. }
            | Self::NotFinite { name, .. }
            | Self::Duplicate { name } => *name = rename(name),
            Self::Format { .. } | Self::Unused { .. } => {}
        }
        self
    }
}
