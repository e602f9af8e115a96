//! The format that `torch.save` wrote before PyTorch 1.6, and writes still where it is asked to: five pickles (a magic
//! number, the version, facts of the machine, the object, the keys of its storages), then for each key the storage's
//! length as an i64 and its numbers.

use std::collections::HashMap;
use std::io::{Read, Seek};

use super::error::TorchError;
use super::pickle::{self, MOST_BYTES};
use super::source::{Source, number};
use super::storage::Storage;
use super::value::{Pickled, Value};

const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
const VERSION: i128 = 1001;

/// Returns the pickles at the beginning of the file, and what else was read with them.
pub(super) fn head<R: Read + Seek>(source: &mut Source<R>) -> Result<Vec<u8>, TorchError> {
    let bytes = source.len().min(MOST_BYTES);
    source.read(0, bytes)?.ok_or(TorchError::NotTorch("it is cut short"))
}

/// Returns the object, and where the numbers of its storages begin, by key.
pub(super) fn open<'p, R: Read + Seek>(
    head: &'p [u8],
    source: &mut Source<R>,
) -> Result<(Pickled<'p>, HashMap<&'p str, u64>), TorchError> {
    let magic = pickle::load(head, 0)?;
    if !matches!(magic.root(), Value::Int(MAGIC)) {
        return Err(TorchError::NotTorch("it is a pickle of something else"));
    }
    let version = pickle::load(head, magic.end)?;
    if !matches!(version.root(), Value::Int(VERSION)) {
        return Err(TorchError::NotTorch("its version is not 1001"));
    }
    let machine = pickle::load(head, version.end)?;
    match machine.get("little_endian") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Err(TorchError::BigEndian),
        _ => return Err(TorchError::NotTorch("its byte order is missing")),
    }
    let object = pickle::load(head, machine.end)?;
    let keys = pickle::load(head, object.end)?;
    let places = places(&object, &keys, source)?;
    Ok((object, places))
}

/// Follows the storages through the file to its end.
fn places<'p, R: Read + Seek>(
    object: &Pickled<'p>,
    keys: &Pickled<'p>,
    source: &mut Source<R>,
) -> Result<HashMap<&'p str, u64>, TorchError> {
    let storages: HashMap<&str, Storage<'p>> = object
        .values
        .iter()
        .filter_map(
            |value| if let Value::Storage(storage) = value { Some((storage.key, *storage)) } else { None },
        )
        .collect();
    let Value::List(list) = keys.root() else {
        return Err(TorchError::NotTorch("its storages have no list"));
    };
    let mut at = keys.end as u64;
    let mut places = HashMap::new();
    for key in list {
        let Value::Text(key) = keys.values[*key] else {
            return Err(TorchError::NotTorch("the key of a storage is not a string"));
        };
        let wrong = |reason| TorchError::storage(key, reason);
        let storage = storages.get(key).ok_or_else(|| wrong("is not part of the object"))?;
        let length = source.read(at, 8)?.ok_or_else(|| wrong("lies past the end of the file"))?;
        if number::<8>(&length, 0) != Some(storage.count) {
            return Err(wrong("has another length than the object says"));
        }
        let start = at + 8;
        let end = storage.bytes().and_then(|bytes| start.checked_add(bytes));
        at = end.filter(|end| *end <= source.len()).ok_or_else(|| wrong("lies past the end of the file"))?;
        if places.insert(key, start).is_some() {
            return Err(wrong("is there twice"));
        }
    }
    match at == source.len() {
        true => Ok(places),
        false => Err(TorchError::NotTorch("bytes follow its last storage")),
    }
}
