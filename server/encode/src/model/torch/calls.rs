//! Results of the calls in a pickle of weights. Nothing is called: the allowed names are known here by what they
//! return.

use super::globals::Global;
use super::storage::Storage;
use super::tensor::{MOST_AXES, Tensor};
use super::value::{Id, Value};

/// The result of a call.
pub(super) enum Made<'p> {
    New(Value<'p>),
    /// One of its arguments.
    Same(Id),
}

/// Returns the storage of a persistent id, `("storage", class, key, location, numbers)`; the older format has a view,
/// which is None, behind it.
pub(super) fn storage<'p>(values: &[Value<'p>], id: Id) -> Result<Value<'p>, &'static str> {
    let wrong = Err("a reference is not that of a storage");
    let Value::Tuple(parts) = &values[id] else { return wrong };
    let parts: Vec<_> = parts.iter().map(|part| &values[*part]).collect();
    let (key, dtype, count) = match parts.as_slice() {
        [
            Value::Text("storage"),
            Value::Global(Global::Storage(dtype)),
            Value::Text(key),
            Value::Text(_),
            count,
        ]
        | [
            Value::Text("storage"),
            Value::Global(Global::Storage(dtype)),
            Value::Text(key),
            Value::Text(_),
            count,
            Value::None,
        ] => (key, dtype, count),
        _ => return wrong,
    };
    match size(count) {
        Some(count) => Ok(Value::Storage(Storage { key, dtype: *dtype, count })),
        None => Err("the length of a storage is not a size"),
    }
}

/// Returns what `function(*arguments)` returns.
pub(super) fn reduce<'p>(
    values: &[Value<'p>],
    function: Id,
    arguments: Id,
) -> Result<Made<'p>, &'static str> {
    let (Value::Global(function), Value::Tuple(arguments)) = (&values[function], &values[arguments]) else {
        return Err("it calls what is not a function");
    };
    match (function, arguments.as_slice()) {
        (Global::OrderedDict, []) => Ok(Made::New(Value::Dict(Vec::new()))),
        (Global::Size, [shape]) => match &values[*shape] {
            Value::Tuple(_) | Value::List(_) => Ok(Made::Same(*shape)),
            _ => Err("a shape is not a tuple"),
        },
        (Global::RebuildTensor, [storage, offset, shape, strides, ..]) => {
            let wrong = Err("a tensor is not made of a storage, a place, a shape and strides");
            let Value::Storage(storage) = values[*storage] else { return wrong };
            let parts = (size(&values[*offset]), sizes(values, *shape), sizes(values, *strides));
            let (Some(offset), Some(shape), Some(strides)) = parts else { return wrong };
            match shape.len() == strides.len() {
                true => Ok(Made::New(Value::Tensor(Box::new(Tensor { storage, offset, shape, strides })))),
                false => wrong,
            }
        }
        (Global::RebuildParameter, [data, ..]) if matches!(values[*data], Value::Tensor(_)) => {
            Ok(Made::Same(*data))
        }
        _ => Err("it calls something with arguments that torch.save does not write"),
    }
}

fn size(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(size) => u64::try_from(*size).ok(),
        _ => None,
    }
}

fn sizes(values: &[Value<'_>], id: Id) -> Option<Vec<u64>> {
    let Value::Tuple(items) = &values[id] else { return None };
    if items.len() > MOST_AXES {
        return None;
    }
    items.iter().map(|item| size(&values[*item])).collect()
}
