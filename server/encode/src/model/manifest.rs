//! Reading of `model.json`, and the check of the files that it names.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::ModelKind;
use dpr_core::model::{FileEntry, sha256_hex};
use serde::Deserialize as _;
use serde_json::Value;

use super::{MANIFEST, ModelError};
use dpr_files::relative;

/// Returns the contents of the manifest of the model directory at `path`.
///
/// # Errors
/// [`ModelError`] when there is none, or it is not JSON.
pub(super) fn read(path: &Path) -> Result<Value, ModelError> {
    let manifest = path.join(MANIFEST);
    if !manifest.exists() {
        return Err(ModelError::NotAModel(path.into()));
    }
    serde_json::from_slice(&fs_err::read(&manifest)?).map_err(|e| damaged(path, e.to_string()))
}

/// Returns what a manifest's directory holds; `None` for encoders.
///
/// # Errors
/// [`ModelError`] for a kind that this version does not know.
pub(super) fn kind(path: &Path, manifest: &Value) -> Result<Option<ModelKind>, ModelError> {
    let kind = &manifest["kind"];
    Option::deserialize(kind)
        .map_err(|_| damaged(path, format!("its kind is {kind}, which this version does not know")))
}

/// Refuses a manifest of a newer format than `supported`.
///
/// # Errors
/// [`ModelError::Newer`].
pub(super) fn check_format(path: &Path, manifest: &Value, supported: u32) -> Result<(), ModelError> {
    let got = manifest["format_version"].as_u64().unwrap_or(0) as u32;
    match got > supported {
        true => Err(ModelError::Newer { path: path.join(MANIFEST), got, supported }),
        false => Ok(()),
    }
}

/// Returns the error of a manifest that is damaged.
pub(super) fn damaged(path: &Path, reason: String) -> ModelError {
    ModelError::Manifest { path: path.join(MANIFEST), reason }
}

/// Checks the size and the SHA-256 of every file that a manifest names.
///
/// # Errors
/// [`ModelError`] names the file that is missing, damaged or outside of the directory.
pub(super) fn check_files(path: &Path, files: &BTreeMap<String, FileEntry>) -> Result<(), ModelError> {
    for (name, entry) in files {
        if !relative::is_plain(name) {
            return Err(damaged(path, format!("it lists the file {name:?}, which is not in its directory")));
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
    Ok(())
}
