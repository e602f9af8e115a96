//! Manifest of the browser's copies of the question encoder, `web/web.json`.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::ModelManifest;
use dpr_core::model::{FileEntry, sha256_hex};
use serde::{Deserialize, Serialize};

use super::ModelError;
use dpr_files::relative;

/// Folder of the browser's copies in a model directory.
pub const WEB_DIR: &str = "web";
/// The manifest's file name in it.
pub const WEB_MANIFEST: &str = "web.json";

/// What `dpr export-web` wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebManifest {
    /// Version of this format.
    pub format_version: u32,
    /// Fingerprint of the model the weights were exported from.
    pub fingerprint: String,
    /// The weights by number format (`f32`, `f16`, `q8`), by path relative to the model directory.
    pub weights: BTreeMap<String, WebFile>,
}

/// One file of weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebFile {
    /// Path relative to the model directory.
    pub path: String,
    /// Its size and checksum.
    #[serde(flatten)]
    pub entry: FileEntry,
}

pub(super) fn read(model: &Path, manifest: &ModelManifest) -> Result<Option<WebManifest>, ModelError> {
    let path = model.join(WEB_DIR).join(WEB_MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    let web: WebManifest = serde_json::from_slice(&fs_err::read(&path)?)
        .map_err(|e| ModelError::Manifest { path: path.clone(), reason: e.to_string() })?;
    if web.fingerprint != manifest.fingerprint {
        return Err(ModelError::StaleExport(path));
    }
    for file in web.weights.values() {
        if !relative::is_plain(&file.path) {
            let reason = format!("it lists the file {:?}, which is not in the model's directory", file.path);
            return Err(ModelError::Manifest { path, reason });
        }
        let path = model.join(&file.path);
        let (size, expected) = (relative::size(&path)?, file.entry.bytes);
        if size != expected {
            let (got, expected) = (size.to_string(), expected.to_string());
            return Err(ModelError::Damaged { path, what: "size", got, expected });
        }
        let (got, expected) = (sha256_hex(&fs_err::read(&path)?), file.entry.sha256.clone());
        if got != expected {
            return Err(ModelError::Damaged { path, what: "sha256", got, expected });
        }
    }
    Ok(Some(web))
}
