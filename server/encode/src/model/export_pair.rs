//! Export of cross-encoders and readers for browsers.

use std::collections::BTreeMap;

use dpr_core::weights::StoredTensor;
use dpr_core::{CrossEncoderConfig, ModelKind, ReaderConfig, TensorMap};

use super::pair::{PairDir, folder};
use super::web::{WebFile, WebPair, WebPairWeights};
use super::web_tensors::{Formats, serialize, take_shared};
use super::{ModelError, WebFormat};

/// Writes a file of this name and content into `web/`.
type Write<'a> = dyn Fn(&str, &[u8]) -> Result<WebFile, ModelError> + 'a;

/// The other inputs of an export, besides the pair's own files.
pub(super) struct OtherFiles<'a> {
    /// The question encoder's weights by their format.
    pub(super) question: &'a BTreeMap<&'static str, Vec<u8>>,
    /// Writes the pair's files.
    pub(super) write: &'a Write<'a>,
    /// The formats of the weights, besides single precision.
    pub(super) formats: &'a [WebFormat],
}

/// Writes a model of pairs in all formats that a page downloads, and returns its entry in the manifest.
///
/// # Errors
/// [`ModelError`] when a file cannot be read or written, or does not fit the others.
pub(super) fn export_pair(pair: &PairDir, files: &OtherFiles<'_>) -> Result<WebPair, ModelError> {
    let dir = pair.path.join(folder(pair.manifest.kind));
    let read = |name: &str| fs_err::read(dir.join(name));
    let (config, tokenizer) = (read("config.json")?, read("tokenizer.json")?);
    let name = match pair.manifest.kind {
        ModelKind::CrossEncoder => "reranker",
        ModelKind::Reader => "reader",
    };
    let tensors = formats(pair, &config, &read("model.safetensors")?, Formats::new(files.formats, None))?;
    let mut weights = BTreeMap::new();
    for (dtype, mut tensors) in tensors.by_name() {
        let question = files.question.get(dtype);
        let shares = question.map(|question| take_shared(&mut tensors, question)).transpose()?;
        let file = (files.write)(&format!("{name}.{dtype}.safetensors"), &serialize(&tensors)?)?;
        weights.insert(dtype.to_owned(), WebPairWeights { file, shares: shares.unwrap_or_default() });
    }
    Ok(WebPair {
        name: pair.manifest.name.clone(),
        fingerprint: pair.manifest.fingerprint.clone(),
        max_tokens: pair.manifest.max_tokens,
        config: (files.write)(&format!("{name}.config.json"), &config)?,
        tokenizer: (files.write)(&format!("{name}.tokenizer.json"), &tokenizer)?,
        weights,
    })
}

/// Returns `formats` with the tensors of a model of pairs.
fn formats<'a>(
    pair: &PairDir,
    config: &[u8],
    weights: &[u8],
    mut formats: Formats<'a>,
) -> Result<Formats<'a>, ModelError> {
    let dir = pair.path.join(folder(pair.manifest.kind));
    let mut map =
        TensorMap::from_safetensors([("model.safetensors", weights)]).map_err(ModelError::in_dir(&dir))?;
    let tensors: Vec<StoredTensor> = match pair.manifest.kind {
        ModelKind::CrossEncoder => {
            let config = CrossEncoderConfig::from_json(config).map_err(ModelError::in_dir(&dir))?;
            config.take_tensors(&mut map).map_err(ModelError::in_dir(&dir))?
        }
        ModelKind::Reader => {
            let config = ReaderConfig::from_json(config).map_err(ModelError::in_dir(&dir))?;
            config.take_tensors(&mut map).map_err(ModelError::in_dir(&dir))?
        }
    };
    for (name, shape, values) in tensors {
        formats.push_of_pair(name, shape, &values);
    }
    Ok(formats)
}
