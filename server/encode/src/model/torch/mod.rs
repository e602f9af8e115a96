//! `pytorch_model.bin`: tensors by name as `torch.save` writes them, in a zip archive or in the older format.
//!
//! Such a file is a pickle, which in Python is a program. Here it is data: a few instructions and a fixed list of names
//! are known, every other is refused by its name, and nothing is run. No size in the file is believed: it is compared
//! with the file's length before anything is allocated, and the tensors together have at most twice the file's bytes.

mod calls;
mod error;
mod globals;
mod legacy;
mod pickle;
mod source;
mod storage;
mod tensor;
mod value;
mod zip;

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use dpr_core::TensorMap;
use dpr_files::plain;

pub use self::error::TorchError;
use self::source::Source;
use self::storage::Storage;
use self::tensor::Tensor;
use self::zip::Archive;

/// The tensors of a file have at most this many times its bytes. Those that share a storage may have more than the
/// file.
const MOST_TIMES: u64 = 2;

/// Adds the tensors of a file to `map`: one storage is in memory beside them.
///
/// # Errors
/// [`TorchError`] says what is wrong with the file, or in it.
pub(super) fn read_into(path: &Path, map: &mut TensorMap) -> Result<(), TorchError> {
    let mut source = Source::new(plain::open(path)?)?;
    let begin = source.read(0, source.len().min(16))?.unwrap_or_default();
    match begin.as_slice() {
        [b'P', b'K', 3, 4, ..] => read_zip(&mut source, map),
        [0x80, ..] => read_legacy(&mut source, map),
        begin if begin.starts_with(b"version https://") => {
            Err(TorchError::NotTorch("it is a pointer of Git LFS, without the file it points to"))
        }
        _ => Err(TorchError::NotTorch("it is neither a zip archive nor a pickle")),
    }
}

fn read_zip<R: Read + Seek>(source: &mut Source<R>, map: &mut TensorMap) -> Result<(), TorchError> {
    let archive = Archive::open(source)?;
    let roots: Vec<&str> = archive
        .names()
        .filter_map(|name| name.strip_suffix("/data.pkl").filter(|root| !root.contains('/')))
        .collect();
    let [root] = roots.as_slice() else {
        return Err(TorchError::archive(if roots.is_empty() {
            "it has no data.pkl"
        } else {
            "it has two data.pkl"
        }));
    };
    let script = [format!("{root}/code/"), format!("{root}/constants.pkl")];
    if archive.names().any(|name| script.iter().any(|script| name.starts_with(script))) {
        return Err(TorchError::TorchScript);
    }
    let name = format!("{root}/data.pkl");
    if archive.size(&name).is_some_and(|bytes| bytes > pickle::MOST_BYTES) {
        return Err(TorchError::Limit { what: "bytes of pickle", limit: pickle::MOST_BYTES });
    }
    let bytes = archive.read(source, &name)?.unwrap_or_default();
    match archive.read(source, &format!("{root}/byteorder"))?.as_deref() {
        None | Some(b"little") => {}
        Some(b"big") => return Err(TorchError::BigEndian),
        Some(_) => return Err(TorchError::entry("byteorder", "it is neither little nor big")),
    }
    let object = pickle::load(&bytes, 0)?;
    if object.end != bytes.len() {
        return Err(TorchError::Pickle { at: object.end, reason: "bytes follow its end" });
    }
    fill(map, object.tensors()?, source.len(), |storage| {
        let name = format!("{root}/data/{}", storage.key);
        if archive.size(&name).is_some_and(|size| Some(size) != storage.bytes()) {
            return Err(TorchError::storage(storage.key, "has another length than the pickle says"));
        }
        let bytes = archive.read(source, &name)?;
        bytes.ok_or_else(|| TorchError::storage(storage.key, "is not in the file"))
    })
}

fn read_legacy<R: Read + Seek>(source: &mut Source<R>, map: &mut TensorMap) -> Result<(), TorchError> {
    let head = legacy::head(source)?;
    let (object, places) = legacy::open(&head, source)?;
    fill(map, object.tensors()?, source.len(), |storage| {
        let missing = || TorchError::storage(storage.key, "is not in the file");
        let (start, bytes) = places.get(storage.key).copied().zip(storage.bytes()).ok_or_else(missing)?;
        source.read(start, bytes)?.ok_or_else(missing)
    })
}

/// Adds tensors to `map`, storage by storage. Storages of tensors that no encoder uses are not read.
fn fill<'p>(
    map: &mut TensorMap,
    tensors: Vec<(&str, &Tensor<'p>)>,
    file: u64,
    mut read: impl FnMut(&Storage<'p>) -> Result<Vec<u8>, TorchError>,
) -> Result<(), TorchError> {
    let mut by_storage: BTreeMap<&str, Vec<(&str, &Tensor<'p>)>> = BTreeMap::new();
    for (name, tensor) in tensors {
        by_storage.entry(tensor.storage.key).or_default().push((name, tensor));
    }
    let mut left = file.saturating_mul(MOST_TIMES);
    for tensors in by_storage.values() {
        let mut storage = None;
        for (position, (name, tensor)) in tensors.iter().enumerate() {
            if tensor.storage != tensors[0].1.storage {
                return Err(TorchError::storage(tensor.storage.key, "is described in two ways"));
            }
            let layout = tensor.layout().map_err(|reason| TorchError::tensor(name, reason))?;
            map.insert(name, layout.dtype(), &layout.shape, || {
                let rest = layout.bytes().and_then(|bytes| left.checked_sub(bytes));
                left = rest.ok_or_else(|| {
                    let reason =
                        format!("shape {:?} is more than a file of {file} bytes holds", layout.shape);
                    TorchError::tensor(name, reason)
                })?;
                let storage = match &mut storage {
                    Some(storage) => storage,
                    None => storage.insert(read(&tensor.storage)?),
                };
                Ok::<_, TorchError>(layout.numbers(storage, position + 1 == tensors.len()))
            })?;
        }
    }
    Ok(())
}
