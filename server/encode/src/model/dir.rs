//! Model directories: opening and checking them, and loading their encoders.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dpr_core::device::Device;
use dpr_core::model::MODEL_FORMAT;
use dpr_core::{
    DeviceChoice, EncoderBytes, EncoderConfig, ModelKind, ModelManifest, Precision, Side, TextEncoder,
};
use serde_json::Value;

use super::{MANIFEST, ModelError, PASSAGE_DIR, QUESTION_DIR, WebManifest, json, manifest, web, weights};

/// A model directory whose files are those that its manifest names.
#[derive(Clone, Debug)]
pub struct ModelDir {
    pub(super) path: PathBuf,
    pub(super) manifest: ModelManifest,
    /// The config.json of each folder where it is not the folder's file; see [`ModelDir::at_dim`].
    pub(super) configs: BTreeMap<&'static str, Vec<u8>>,
    /// The fingerprint of the directory as it is, whatever is taken of its vectors.
    pub(super) written: String,
    /// The precision in which the layers of loaded encoders multiply.
    precision: Precision,
}

impl ModelDir {
    /// Opens the directory and checks every file's size and sha256.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged, or says that it holds a cross-encoder or a reader.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let value = manifest::read(path)?;
        match manifest::kind(path, &value)? {
            None => {}
            Some(ModelKind::CrossEncoder) => return Err(ModelError::IsCrossEncoder(path.into())),
            Some(ModelKind::Reader) => return Err(ModelError::IsReader(path.into())),
        }
        manifest::check_format(path, &value, MODEL_FORMAT)?;
        let manifest: ModelManifest =
            serde_json::from_value(value).map_err(|e| manifest::damaged(path, e.to_string()))?;
        if manifest.fingerprint != manifest.compute_fingerprint() {
            return Err(manifest::damaged(path, "its fingerprint is not that of its contents".into()));
        }
        let folders = [QUESTION_DIR, PASSAGE_DIR];
        let folders = if manifest.shared { &folders[..1] } else { &folders[..] };
        manifest::check_listed(path, &manifest.files, folders)?;
        manifest::check_files(path, &path.join(MANIFEST), &manifest.files)?;
        let written = manifest.fingerprint.clone();
        let (path, configs, precision) = (path.into(), BTreeMap::new(), Precision::F32);
        Ok(Self { path, manifest, configs, written, precision })
    }

    /// Returns this model with encoders whose layers multiply in `precision`, which is [`Precision::F32`] otherwise.
    /// The fingerprint stays: vectors of every precision are compared with each other.
    #[must_use]
    pub fn in_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Returns the manifest, `model.json`.
    pub fn manifest(&self) -> &ModelManifest {
        &self.manifest
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the config.json of an encoder's folder ([`QUESTION_DIR`], [`PASSAGE_DIR`]), which is the one that the
    /// manifest lists: the folder's file, but for a model [with narrower vectors](ModelDir::at_dim).
    ///
    /// # Errors
    /// [`ModelError::Io`] when the file cannot be read.
    pub fn config(&self, folder: &str) -> Result<Cow<'_, [u8]>, ModelError> {
        match self.configs.get(folder) {
            Some(config) => Ok(config.into()),
            None => Ok(fs_err::read(self.path.join(folder).join("config.json"))?.into()),
        }
    }

    /// Loads the question encoder on a device.
    ///
    /// # Errors
    /// [`ModelError`] when a file does not fit the others, or the device is not available.
    pub fn question_encoder(&self, device: DeviceChoice) -> Result<TextEncoder, ModelError> {
        self.encoder(QUESTION_DIR, Side::Question, self.manifest.max_question_tokens, device)
    }

    /// Loads the passage encoder, which is the question encoder when the model shares one.
    ///
    /// # Errors
    /// [`ModelError`] as from [`ModelDir::question_encoder`].
    pub fn passage_encoder(&self, device: DeviceChoice) -> Result<TextEncoder, ModelError> {
        let dir = if self.manifest.shared { QUESTION_DIR } else { PASSAGE_DIR };
        self.encoder(dir, Side::Passage, self.manifest.max_passage_tokens, device)
    }

    /// Returns the manifest that `dpr export-web` wrote; `None` when it has not run.
    ///
    /// # Errors
    /// [`ModelError`] when `web/` is damaged or was exported from other weights.
    pub fn web_exports(&self) -> Result<Option<WebManifest>, ModelError> {
        // Weights are the same however many numbers of a vector are taken.
        web::read(&self.path, &[&self.manifest.fingerprint, &self.written])
    }

    /// Returns the config.json for a page: that of an export with a configuration of its own, for as many numbers as
    /// this model's vectors have.
    ///
    /// # Errors
    /// [`ModelError`] when a file cannot be read.
    pub fn web_config(&self, web: Option<&WebManifest>) -> Result<Cow<'_, [u8]>, ModelError> {
        let own = self.config(QUESTION_DIR)?;
        let Some(encoder) = web.and_then(|web| web.encoder.as_ref()) else { return Ok(own) };
        let path = self.path.join(&encoder.config.path);
        let bytes = fs_err::read(&path)?;
        let read = |bytes: &[u8]| EncoderConfig::from_json(bytes).map_err(ModelError::in_dir(&path));
        let (mut config, truncate) = (read(&bytes)?, read(&own)?.truncate);
        if config.truncate == truncate {
            return Ok(bytes.into());
        }
        config.truncate = truncate;
        Ok(rewritten(&bytes, &config)?.into())
    }

    fn encoder(
        &self,
        folder: &str,
        side: Side,
        max_tokens: usize,
        choice: DeviceChoice,
    ) -> Result<TextEncoder, ModelError> {
        let dir = self.path.join(folder);
        let device = Device::open(choice)?;
        let config = self.config(folder)?;
        let tokenizer = weights::whole(&dir.join("tokenizer.json"))?;
        let weights = weights::whole(&dir.join("model.safetensors"))?;
        let files = EncoderBytes {
            config: &config,
            tokenizer: &tokenizer,
            weights: &[("model.safetensors", weights.as_slice())],
        };
        let encoder = TextEncoder::load_at(&files, Some(max_tokens), &device, self.precision);
        Ok(encoder.map_err(ModelError::in_dir(&dir))?.on_side(side))
    }
}

/// Returns the config.json `bytes` with what `config` says in its section, as an import writes it.
pub(super) fn rewritten(bytes: &[u8], config: &EncoderConfig) -> Result<Vec<u8>, ModelError> {
    let read: Value = serde_json::from_slice(bytes).map_err(std::io::Error::other)?;
    Ok(serde_json::to_vec_pretty(&json::with_section(read, config)).map_err(std::io::Error::other)?)
}
