//! Model directories: opening and checking them, and loading their encoders.

use std::path::{Path, PathBuf};

use dpr_core::device::Device;
use dpr_core::model::{MODEL_FORMAT, sha256_hex};
use dpr_core::{DeviceChoice, EncoderBytes, ModelManifest, Side, TextEncoder};

use super::{MANIFEST, ModelError, PASSAGE_DIR, QUESTION_DIR, WebManifest, web};
use dpr_files::relative;

/// A model directory whose files are those that its manifest names.
#[derive(Debug)]
pub struct ModelDir {
    path: PathBuf,
    manifest: ModelManifest,
}

impl ModelDir {
    /// Opens the directory and checks every file's size and sha256.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let manifest_path = path.join(MANIFEST);
        if !manifest_path.exists() {
            return Err(ModelError::NotAModel(path.into()));
        }
        let text = fs_err::read(&manifest_path)?;
        let bad = |reason: String| ModelError::Manifest { path: manifest_path.clone(), reason };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        let got = value.get("format_version").and_then(serde_json::Value::as_u64).unwrap_or(0) as u32;
        if got > MODEL_FORMAT {
            return Err(ModelError::Newer { path: manifest_path, got, supported: MODEL_FORMAT });
        }
        let manifest: ModelManifest = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
        if manifest.fingerprint != manifest.compute_fingerprint() {
            return Err(bad("its fingerprint is not that of its contents".into()));
        }
        for (name, entry) in &manifest.files {
            if !relative::is_plain(name) {
                return Err(bad(format!("it lists the file {name:?}, which is not in its directory")));
            }
            let file = path.join(name);
            let damaged = |what, got: String, expected: String| ModelError::Damaged {
                path: file.clone(),
                what,
                got,
                expected,
            };
            let size = relative::size(&file)?;
            if size != entry.bytes {
                return Err(damaged("size", size.to_string(), entry.bytes.to_string()));
            }
            let sha256 = sha256_hex(&fs_err::read(&file)?);
            if sha256 != entry.sha256 {
                return Err(damaged("sha256", sha256, entry.sha256.clone()));
            }
        }
        Ok(Self { path: path.into(), manifest })
    }

    /// Returns the manifest, `model.json`.
    pub fn manifest(&self) -> &ModelManifest {
        &self.manifest
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
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
        web::read(&self.path, &self.manifest)
    }

    fn encoder(
        &self,
        dir: &str,
        side: Side,
        max_tokens: usize,
        choice: DeviceChoice,
    ) -> Result<TextEncoder, ModelError> {
        let dir = self.path.join(dir);
        let device = Device::open(choice)?;
        let config = fs_err::read(dir.join("config.json"))?;
        let tokenizer = fs_err::read(dir.join("tokenizer.json"))?;
        let weights = fs_err::read(dir.join("model.safetensors"))?;
        let files = EncoderBytes {
            config: &config,
            tokenizer: &tokenizer,
            weights: &[("model.safetensors", weights.as_slice())],
        };
        let encoder = TextEncoder::load(&files, Some(max_tokens), &device);
        Ok(encoder.map_err(ModelError::in_dir(&dir))?.on_side(side))
    }
}
