//! Values of a pickle of weights. They refer to one another by number, so that a deep or circular pickle costs no
//! stack, and is dropped without one.

use super::error::{TorchError, shown};
use super::globals::Global;
use super::storage::Storage;
use super::tensor::Tensor;

/// The number of a value.
pub(super) type Id = usize;

/// A value of the pickle `'p`.
#[derive(Clone, Debug)]
pub(super) enum Value<'p> {
    None,
    Bool(bool),
    Int(i128),
    Text(&'p str),
    /// A number with a fraction, or bytes: read over, and of no use.
    Other,
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Storage(Storage<'p>),
    Tensor(Box<Tensor<'p>>),
}

impl Value<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "a number",
            Self::Text(_) => "a string",
            Self::Other => "a number or bytes",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dictionary",
            Self::Global(_) => "a class or function",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) => "a tensor",
        }
    }
}

/// A pickle that was read.
pub(super) struct Pickled<'p> {
    pub(super) values: Vec<Value<'p>>,
    pub(super) root: Id,
    /// The offset at which the pickle ends.
    pub(super) end: usize,
}

impl<'p> Pickled<'p> {
    /// Returns the value that was pickled.
    pub(super) fn root(&self) -> &Value<'p> {
        &self.values[self.root]
    }

    /// Returns the tensors of a state_dict by name.
    pub(super) fn tensors(&self) -> Result<Vec<(&'p str, &Tensor<'p>)>, TorchError> {
        let Value::Dict(items) = self.root() else {
            return Err(TorchError::NotTensors(format!("it is {}", self.root().kind())));
        };
        let tensors = items.iter().map(|&(key, value)| match (&self.values[key], &self.values[value]) {
            (Value::Text(name), Value::Tensor(tensor)) => Ok((*name, &**tensor)),
            (Value::Text(name), other) => {
                Err(TorchError::NotTensors(format!("{:?} is {}", shown(name), other.kind())))
            }
            (key, _) => Err(TorchError::NotTensors(format!("a key is {}", key.kind()))),
        });
        tensors.collect()
    }

    /// Returns the value of a dictionary's key.
    pub(super) fn get(&self, name: &str) -> Option<&Value<'p>> {
        let Value::Dict(items) = self.root() else { return None };
        let found =
            items.iter().rev().find(|(key, _)| matches!(self.values[*key], Value::Text(t) if t == name));
        found.map(|&(_, value)| &self.values[value])
    }
}
