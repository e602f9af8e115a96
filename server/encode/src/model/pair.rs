//! Model directories of what reads pairs, cross-encoders and readers: `model.json` and one folder. The parts that their
//! imports share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dpr_core::device::Device;
use dpr_core::pair::PAIR_FORMAT;
use dpr_core::{DeviceChoice, EncoderBytes, EncoderConfig, LoadError, ModelKind, PairManifest};
use dpr_files::atomic::StagedDir;
use serde_json::{Value, json};

use super::huggingface::HuggingFaceDir;
use super::import::{name_of, write_manifest};
use super::json::optional_json;
use super::{CROSS_ENCODER_DIR, MANIFEST, ModelError, READER_DIR, manifest, weights};

/// The folder of a model directory that holds what is of this kind.
pub(super) fn folder(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::CrossEncoder => CROSS_ENCODER_DIR,
        ModelKind::Reader => READER_DIR,
    }
}

/// A model directory whose files are those that its manifest names.
#[derive(Debug)]
pub(super) struct PairDir {
    pub(super) path: PathBuf,
    pub(super) manifest: PairManifest,
}

impl PairDir {
    /// Opens a directory of this kind and checks every file's size and sha256.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged, or says what the directory holds instead.
    pub(super) fn open(path: &Path, kind: ModelKind) -> Result<Self, ModelError> {
        let value = manifest::read(path).map_err(|error| match error {
            ModelError::NotAModel(path) => {
                other_kind(kind, path, "it is not a model directory: it has no model.json".into())
            }
            error => error,
        })?;
        let found = manifest::kind(path, &value)?;
        if found != Some(kind) {
            let what = match found {
                None => "it holds encoders, which make vectors".into(),
                Some(other) => format!("it holds a {}", other.name()),
            };
            return Err(other_kind(kind, path.into(), what));
        }
        manifest::check_format(path, &value, PAIR_FORMAT)?;
        let manifest: PairManifest =
            serde_json::from_value(value).map_err(|e| manifest::damaged(path, e.to_string()))?;
        if manifest.fingerprint != manifest.compute_fingerprint() {
            return Err(manifest::damaged(path, "its fingerprint is not that of its contents".into()));
        }
        manifest::check_listed(path, &manifest.files, &[folder(kind)])?;
        manifest::check_files(path, &path.join(MANIFEST), &manifest.files)?;
        Ok(Self { path: path.into(), manifest })
    }

    /// Loads the model on a device by way of `load`, which takes its files, its limit of tokens and the device.
    ///
    /// # Errors
    /// [`ModelError`] when a file does not fit the others, or the device is not available.
    pub(super) fn load<T>(
        &self,
        device: DeviceChoice,
        load: impl FnOnce(&EncoderBytes<'_>, Option<usize>, &Device) -> Result<T, LoadError>,
    ) -> Result<T, ModelError> {
        let dir = self.path.join(folder(self.manifest.kind));
        let device = Device::open(device)?;
        let read = |name: &str| weights::whole(&dir.join(name));
        let (config, tokenizer, weights) =
            (read("config.json")?, read("tokenizer.json")?, read("model.safetensors")?);
        let files = EncoderBytes {
            config: &config,
            tokenizer: &tokenizer,
            weights: &[("model.safetensors", weights.as_slice())],
        };
        load(&files, Some(self.manifest.max_tokens), &device).map_err(ModelError::in_dir(&dir))
    }
}

/// Returns the error of something else where a model of `kind` is needed.
fn other_kind(kind: ModelKind, path: PathBuf, what: String) -> ModelError {
    match kind {
        ModelKind::CrossEncoder => ModelError::NotACrossEncoder { path, what },
        ModelKind::Reader => ModelError::NotAReader { path, what },
    }
}

/// Returns the limit of tokens: that of the option, else that of the model, which is the directory's where it was not
/// written here.
///
/// # Errors
/// [`ModelError::Tokens`] for a limit that the model cannot have.
pub(super) fn limit(
    source: &HuggingFaceDir,
    encoder: &EncoderConfig,
    option: Option<usize>,
) -> Result<usize, ModelError> {
    let (ours, most) = (source.is_ours(), encoder.position_limit());
    let limit = match (option, source.modules.max_tokens) {
        (Some(limit), _) => limit,
        (None, Some(limit)) if !ours => limit.min(most),
        _ => encoder.max_tokens,
    };
    match (4..=most).contains(&limit) {
        true => Ok(limit),
        false => {
            let (what, dir) = ("the limit of a pair", source.path.clone());
            Err(ModelError::Tokens { what, got: limit, dir, limit: most })
        }
    }
}

/// Returns whether Python gives this model token types: those that `model_input_names` lists, else those of its
/// tokenizer's class. The class `TokenizersBackend` of transformers 5 gives none by itself.
pub(super) fn takes_types(dir: &Path) -> Result<bool, ModelError> {
    let settings = optional_json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
    Ok(match settings["model_input_names"].as_array() {
        Some(names) => names.contains(&json!("token_type_ids")),
        None => settings["tokenizer_class"] != "TokenizersBackend",
    })
}

/// Loads what is about to be written on the CPU kernels, by way of `load`.
///
/// # Errors
/// [`ModelError::Encoder`] when a file does not fit the others.
pub(super) fn loaded<T>(
    source: &HuggingFaceDir,
    config: &Value,
    weights: &[u8],
    load: impl FnOnce(&EncoderBytes<'_>, Option<usize>, &Device) -> Result<T, LoadError>,
) -> Result<T, ModelError> {
    let config = serde_json::to_vec(config).map_err(std::io::Error::other)?;
    let files = EncoderBytes {
        config: &config,
        tokenizer: &source.tokenizer,
        weights: &[("model.safetensors", weights)],
    };
    load(&files, None, &Device::Kernel).map_err(ModelError::in_dir(&source.path))
}

/// Writes the model directory `out` of one folder and its manifest, which is returned.
pub(super) fn write(
    kind: ModelKind,
    source: &HuggingFaceDir,
    (out, name): (&Path, String),
    encoder: &EncoderConfig,
    (json, weights): (&Value, &[u8]),
) -> Result<PairManifest, ModelError> {
    let staging = StagedDir::beside(out)?;
    let mut files = BTreeMap::new();
    source.write(staging.path(), folder(kind), json, weights, &mut files)?;
    let mut manifest = PairManifest {
        format_version: PAIR_FORMAT,
        kind,
        name,
        fingerprint: String::new(),
        family: encoder.family,
        max_tokens: encoder.max_tokens,
        prompts: encoder.form.prompts.clone(),
        title_join: encoder.form.join.clone(),
        files,
    };
    manifest.fingerprint = manifest.compute_fingerprint();
    write_manifest(staging, &manifest)?;
    Ok(manifest)
}

/// Returns the name of a model: the one asked for, else that of its directory.
pub(super) fn name(given: Option<&String>, from: &Path) -> String {
    given.cloned().unwrap_or_else(|| name_of(from))
}

/// Returns the error of a file of which nothing can be computed.
pub(super) fn unusable(dir: &Path, file: &str, error: &dyn std::error::Error) -> ModelError {
    ModelError::Json { path: dir.join(file), reason: error.to_string() }
}
