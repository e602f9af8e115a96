//! Safetensors files of named lists of numbers, kept to the bit.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// Writes tensors `(name, shape, values)`.
pub(super) fn write(path: &Path, tensors: &[(String, Vec<usize>, Vec<f32>)]) -> io::Result<()> {
    let bytes: Vec<Vec<u8>> =
        tensors.iter().map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| {
            Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(io::Error::other)?;
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    fs_err::write(path, safetensors::serialize(views, Some(metadata)).map_err(io::Error::other)?)
}

/// Reads the tensors that [`write`] wrote; the error says what is wrong with the bytes.
pub(super) fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Vec<f32>>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    file.iter()
        .map(|(name, view)| match view.dtype() {
            Dtype::F32 => {
                let values = view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                Ok((name.to_owned(), values))
            }
            other => Err(format!("tensor {name:?} is {other:?}, not F32")),
        })
        .collect()
}
