//! Reading of `model.json`, and the check of the files that it names.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::ModelKind;
use dpr_core::model::FileEntry;
use serde::Deserialize as _;
use serde_json::Value;

use super::{MANIFEST, ModelError};
use dpr_files::{digest, plain, relative};

/// Returns the contents of the manifest of the model directory at `path`.
///
/// # Errors
/// [`ModelError`] when there is none, or it is not JSON.
pub(super) fn read(path: &Path) -> Result<Value, ModelError> {
    let manifest = path.join(MANIFEST);
    if !manifest.exists() {
        return Err(ModelError::NotAModel(path.into()));
    }
    serde_json::from_slice(&plain::read(&manifest, plain::DESCRIPTION)?)
        .map_err(|e| damaged(path, e.to_string()))
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

/// Refuses a manifest that does not list every file of these folders, each of an encoder: what it does not list would
/// be loaded unchecked.
///
/// # Errors
/// [`ModelError::Manifest`] names the file.
pub(super) fn check_listed(
    path: &Path,
    files: &BTreeMap<String, FileEntry>,
    folders: &[&str],
) -> Result<(), ModelError> {
    for folder in folders {
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            let name = format!("{folder}/{file}");
            if !files.contains_key(&name) {
                return Err(damaged(path, format!("it does not list {name}")));
            }
        }
    }
    Ok(())
}

/// Checks the size and the SHA-256 of every file of the model directory `dir` that the manifest at `manifest` names.
///
/// # Errors
/// [`ModelError`] names the file that is missing, damaged or outside of the directory.
pub(super) fn check_files<'e, N: AsRef<str>>(
    dir: &Path,
    manifest: &Path,
    files: impl IntoIterator<Item = (N, &'e FileEntry)>,
) -> Result<(), ModelError> {
    for (name, entry) in files {
        let name = name.as_ref();
        if !relative::is_plain(name) {
            let reason = format!("it lists the file {name:?}, which is not in the model's directory");
            return Err(ModelError::Manifest { path: manifest.into(), reason });
        }
        let file = dir.join(name);
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
        let sha256 = digest::of_file(&file)?.sha256;
        if sha256 != entry.sha256 {
            return Err(damaged("sha256", sha256, entry.sha256.clone()));
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_or_a_file_of_a_model_that_has_no_end_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MANIFEST);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(MANIFEST) && error.contains("not a plain file"), "{error}");
        fs_err::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(MANIFEST) && error.contains("not a plain file"), "{error}");
        fs_err::remove_file(&path).unwrap();
        fs_err::File::create(&path).unwrap().set_len(1 << 30).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(MANIFEST) && error.contains("16777216 bytes"), "{error}");

        // As long as it is listed, and of holes: it is digested piece by piece.
        let weights = dir.path().join("weights");
        fs_err::File::create(&weights).unwrap().set_len(64 << 20).unwrap();
        let entry = FileEntry { bytes: 64 << 20, sha256: "0".repeat(64) };
        let error = check_files(dir.path(), &path, [("weights", &entry)]).unwrap_err();
        assert!(matches!(error, ModelError::Damaged { what: "sha256", .. }), "{error}");
        let settings = dir.path().join("config.json");
        std::os::unix::fs::symlink("/dev/zero", &settings).unwrap();
        let error = super::super::json::optional_json(&settings).unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("not a plain file"), "{error}");

        // An import reads weights that no manifest lists.
        for name in ["model.safetensors", "pytorch_model.bin"] {
            let path = dir.path().join(name);
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            for is_pipe in [false, true] {
                if is_pipe {
                    fs_err::remove_file(&path).unwrap();
                    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
                }
                let error = super::super::weights::read(dir.path()).map(drop).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains("not a plain file"), "{error}");
            }
            fs_err::remove_file(&path).unwrap();
        }
    }
}
