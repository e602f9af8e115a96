//! JSON files of a published model.

use std::path::Path;

use dpr_core::EncoderConfig;
use serde_json::{Value, json};

use super::ModelError;
use dpr_files::plain;

/// The most bytes of a JSON file of a published model; the index of the shards of a large one has some megabytes.
pub(super) const MOST: u64 = 64 << 20;

/// Returns the JSON of a file, or `None` where there is no such file.
pub(super) fn optional_json(path: &Path) -> Result<Option<Value>, ModelError> {
    match plain::read(path, MOST) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| ModelError::Json { path: path.into(), reason: e.to_string() }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Returns a config.json with what `dpr` adds to it for this encoder.
pub(super) fn with_section(mut config: Value, encoder: &EncoderConfig) -> Value {
    config["dpr"] = json!(encoder.section());
    config
}

/// Returns the JSON of a file that must be there; `fix` says what to do where it is not.
pub(super) fn require_json(dir: &Path, file: &'static str, fix: &'static str) -> Result<Value, ModelError> {
    optional_json(&dir.join(file))?.ok_or_else(|| ModelError::MissingFile { dir: dir.into(), file, fix })
}
