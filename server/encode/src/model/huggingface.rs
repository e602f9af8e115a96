//! Hugging Face directories: config.json, tokenizer.json, the weights, and what sentence-transformers adds to them.

use std::path::{Path, PathBuf};

use dpr_core::{Similarity, TensorMap};
use serde_json::Value;

use super::sentence::SentenceModules;
use super::{ModelError, weights};

/// The files of one encoder as published.
pub struct HuggingFaceDir {
    /// The directory that holds them.
    pub path: PathBuf,
    /// config.json.
    pub config: Value,
    /// tokenizer.json, as it is.
    pub tokenizer: Vec<u8>,
    /// The weights under canonical names.
    pub tensors: TensorMap,
    /// The settings of sentence-transformers for pooling, length and limit.
    pub modules: SentenceModules,
}

impl HuggingFaceDir {
    /// Reads the directory; `similarity` is what the user says of it.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged.
    pub fn read(root: &Path, similarity: Option<Similarity>) -> Result<Self, ModelError> {
        let modules = SentenceModules::read(root, similarity)?;
        // Not joined where nothing is to be joined: that would end in a slash.
        let inner = match modules.transformer.as_os_str().is_empty() {
            true => root.to_owned(),
            false => root.join(&modules.transformer),
        };
        let path = inner.as_path();
        let config = require(path, "config.json", "give the directory that holds the model's files")?;
        let config: Value = serde_json::from_slice(&config).map_err(|e| {
            ModelError::in_dir::<dpr_core::ConfigError>(path)(dpr_core::ConfigError::Json(e.to_string()))
        })?;
        let tokenizer = require(
            path,
            "tokenizer.json",
            "save the fast tokenizer into it (AutoTokenizer.from_pretrained(…).save_pretrained(…))",
        )?;
        let mut tensors = weights::read(path)?;
        for (index, dense) in modules.dense.iter().enumerate() {
            dense.load(index, &mut tensors)?;
        }
        Ok(Self { path: path.to_owned(), config, tokenizer, tensors, modules })
    }
}

/// Returns the JSON of a file that must be there; `fix` says what to do where it is not.
pub(super) fn require_json(dir: &Path, file: &'static str, fix: &'static str) -> Result<Value, ModelError> {
    let bytes = require(dir, file, fix)?;
    serde_json::from_slice(&bytes)
        .map_err(|e| ModelError::Json { path: dir.join(file), reason: e.to_string() })
}

fn require(dir: &Path, file: &'static str, fix: &'static str) -> Result<Vec<u8>, ModelError> {
    match fs_err::read(dir.join(file)) {
        Ok(bytes) => Ok(bytes),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && dir.is_dir() => {
            Err(ModelError::MissingFile { dir: dir.into(), file, fix })
        }
        Err(e) => Err(e.into()),
    }
}
