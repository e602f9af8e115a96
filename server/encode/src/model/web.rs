//! Manifest of the browser's copies of the question encoder, `web/web.json`.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::ModelManifest;
use dpr_core::model::{FileEntry, sha256_hex};
use serde::{Deserialize, Serialize};

use super::ModelError;

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
        let path = model.join(&file.path);
        let bytes = fs_err::read(&path)?;
        let sha256 = sha256_hex(&bytes);
        if sha256 != file.entry.sha256 {
            return Err(ModelError::Damaged {
                path,
                what: "sha256",
                got: sha256,
                expected: file.entry.sha256.clone(),
            });
        }
    }
    Ok(Some(web))
}
