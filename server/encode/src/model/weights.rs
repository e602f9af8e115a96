//! The weights of a Hugging Face directory: `model.safetensors`, else `pytorch_model.bin`, each whole or in shards; and
//! the file that an import writes.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::Path;

use dpr_core::TensorMap;
use dpr_core::weights::StoredTensor;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

use super::json::optional_json;
use super::{ModelError, torch};
use dpr_files::plain;

const SAFETENSORS: &str = "model.safetensors";
const TORCH: &str = "pytorch_model.bin";

/// Reads the weights of a directory under canonical names.
///
/// # Errors
/// [`ModelError`] names the file that is missing or damaged.
pub(super) fn read(dir: &Path) -> Result<TensorMap, ModelError> {
    if let Some(files) = files(dir, SAFETENSORS)? {
        let files = files
            .into_iter()
            .map(|name| Ok((whole(&dir.join(&name))?, name)))
            .collect::<Result<Vec<_>, ModelError>>()?;
        let views = files.iter().map(|(bytes, name)| (name.as_str(), bytes.as_slice()));
        return TensorMap::from_safetensors(views).map_err(ModelError::in_dir(dir));
    }
    let Some(files) = files(dir, TORCH)? else {
        return Err(ModelError::MissingFile {
            dir: dir.into(),
            file: "model.safetensors and no pytorch_model.bin",
            fix: "fetch the weights into it, or convert them (model.save_pretrained(…) writes safetensors)",
        });
    };
    let mut tensors = TensorMap::default();
    for name in files {
        let path = dir.join(name);
        torch::read_into(&path, &mut tensors).map_err(|source| ModelError::Torch { path, source })?;
    }
    Ok(tensors)
}

/// Returns the bytes of a plain file, however many.
///
/// # Errors
/// An I/O error that names the path.
pub(super) fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = plain::open(path)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(file.metadata()?.len()).unwrap_or(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the names of the file of this name or of its shards; `None` where there is neither.
fn files(dir: &Path, name: &str) -> Result<Option<Vec<String>>, ModelError> {
    if dir.join(name).exists() {
        return Ok(Some(vec![name.to_owned()]));
    }
    let index_name = format!("{name}.index.json");
    let Some(index) = optional_json(&dir.join(&index_name))? else { return Ok(None) };
    let damaged = |reason: &str| ModelError::Json { path: dir.join(&index_name), reason: reason.to_owned() };
    let map = index.get("weight_map").and_then(Value::as_object).ok_or_else(|| damaged("no weight_map"))?;
    let shards: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    // A shard is a plain name beside the index; anything else could read outside the directory.
    match shards.iter().all(|shard| Path::new(shard).file_name() == Some(shard.as_ref())) {
        true => Ok(Some(shards.into_iter().map(str::to_owned).collect())),
        false => Err(damaged("a shard's name holds a path")),
    }
}

/// Returns `(name, shape, numbers)` tensors as the bytes of a safetensors file, under the names that `name` gives.
pub(super) fn safetensors(
    tensors: &[StoredTensor],
    name: &dyn Fn(&str) -> String,
) -> Result<Vec<u8>, ModelError> {
    let bytes: Vec<(String, &[usize], Vec<u8>)> = tensors
        .iter()
        .map(|(tensor, shape, values)| {
            (name(tensor), shape.as_slice(), values.iter().flat_map(|v| v.to_le_bytes()).collect())
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(Dtype::F32, shape.to_vec(), bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(std::io::Error::other)?;
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    Ok(safetensors::serialize(views, Some(metadata)).map_err(std::io::Error::other)?)
}
