//! The names that a pickle of weights may use. Each stands for a constant here; nothing is looked up and nothing run.

use safetensors::tensor::Dtype;

use super::error::{TorchError, shown};

/// One of the allowed names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`, which a state_dict is.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`, and its predecessor without `_v2`.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`.
    RebuildParameter,
    /// `torch.Size`.
    Size,
    /// `torch.FloatStorage` and the others, by the type of their numbers.
    Storage(Dtype),
}

/// Returns the constant of a name.
pub(super) fn find(module: &str, name: &str) -> Result<Global, TorchError> {
    Ok(match (module, name) {
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => Global::RebuildTensor,
        ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
        ("torch", "Size") => Global::Size,
        ("torch", "DoubleStorage") => Global::Storage(Dtype::F64),
        ("torch", "FloatStorage") => Global::Storage(Dtype::F32),
        ("torch", "HalfStorage") => Global::Storage(Dtype::F16),
        ("torch", "BFloat16Storage") => Global::Storage(Dtype::BF16),
        ("torch", "LongStorage") => Global::Storage(Dtype::I64),
        ("torch", "IntStorage") => Global::Storage(Dtype::I32),
        ("torch", "ShortStorage") => Global::Storage(Dtype::I16),
        ("torch", "CharStorage") => Global::Storage(Dtype::I8),
        ("torch", "ByteStorage") | ("torch" | "torch.storage", "UntypedStorage") => {
            Global::Storage(Dtype::U8)
        }
        ("torch", "BoolStorage") => Global::Storage(Dtype::BOOL),
        _ => return Err(TorchError::Refused { name: shown(&format!("{}.{}", shown(module), shown(name))) }),
    })
}
