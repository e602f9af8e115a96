//! Errors of files of `torch.save`.

/// The longest part of a name out of a file that an error repeats, in characters.
const SHOWN: usize = 80;

/// The reason why a file of `torch.save` cannot be read. Names out of the file are quoted and cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TorchError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file does not begin as `torch.save` begins one.
    #[error("it is not a file of torch.save ({0}): fetch it again")]
    NotTorch(&'static str),
    /// The archive is cut short or contradicts itself.
    #[error("the zip archive is damaged: {reason}{}: fetch it again", of(.entry.as_deref()))]
    Archive {
        /// The entry, where it is about one.
        entry: Option<String>,
        /// The fault that was found.
        reason: &'static str,
    },
    /// A program, not weights.
    #[error(
        "it is a TorchScript archive, which is a program; what is read are weights: save the model with save_pretrained(…)"
    )]
    TorchScript,
    /// The pickle names something that is not among what weights consist of.
    #[error(
        "it names {name:?}, which is not a part of weights; no code in a file is ever run, and a whole pickled module is code: save the state_dict of the model alone, or model.save_pretrained(…), and be wary of the file's source"
    )]
    Refused {
        /// Module and name, as `posix.system`.
        name: String,
    },
    /// An instruction that `torch.save` does not write for weights.
    #[error(
        "the pickle has the instruction {code:#04x}{name} at byte {at}, which torch.save does not write for weights: the file is damaged, or is not weights"
    )]
    Instruction {
        /// The instruction.
        code: u8,
        /// Its name in brackets, for those that call something.
        name: &'static str,
        /// Its place in the pickle.
        at: usize,
    },
    /// The pickle is cut short or makes no sense.
    #[error("the pickle is damaged at byte {at}: {reason}: fetch the file again")]
    Pickle {
        /// Place of the instruction in the pickle.
        at: usize,
        /// The fault that was found.
        reason: &'static str,
    },
    /// More of something than weights have.
    #[error(
        "the file has more than {limit} {what}, which weights do not need: the file is damaged, or made to do harm"
    )]
    Limit {
        /// Name of what exceeds the limit, in the plural.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The file is a pickle of something else than tensors by name.
    #[error(
        "it does not hold tensors by name ({0}): save the state_dict of the model alone, or model.save_pretrained(…)"
    )]
    NotTensors(String),
    /// A tensor does not lie in its storage, or is too large.
    #[error("tensor {name:?}: {reason}")]
    Tensor {
        /// Its name in the file.
        name: String,
        /// The fault that was found.
        reason: String,
    },
    /// A storage is missing or has another size than the pickle says.
    #[error("the storage {key:?} {reason}: fetch the file again")]
    Storage {
        /// Its key.
        key: String,
        /// The fault that was found.
        reason: &'static str,
    },
    /// The numbers are stored with the other byte order.
    #[error("its numbers are big-endian: load and save the model on a little-endian machine")]
    BigEndian,
    /// The tensors do not fit the others that were read.
    #[error(transparent)]
    Weights(#[from] dpr_core::WeightsError),
}

impl TorchError {
    pub(super) fn archive(reason: &'static str) -> Self {
        Self::Archive { entry: None, reason }
    }

    pub(super) fn entry(entry: &str, reason: &'static str) -> Self {
        Self::Archive { entry: Some(shown(entry)), reason }
    }

    pub(super) fn storage(key: &str, reason: &'static str) -> Self {
        Self::Storage { key: shown(key), reason }
    }

    pub(super) fn tensor(name: &str, reason: impl Into<String>) -> Self {
        Self::Tensor { name: shown(name), reason: reason.into() }
    }
}

/// Returns a name out of a file, cut to what an error repeats.
pub(super) fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn of(entry: Option<&str>) -> String {
    entry.map_or_else(String::new, |entry| format!(" (entry {entry:?})"))
}
