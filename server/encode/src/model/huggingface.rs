//! Hugging Face directories: config.json, tokenizer.json, the weights, and what sentence-transformers adds to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dpr_core::model::{FileEntry, sha256_hex};
use dpr_core::{Similarity, TensorMap};
use serde_json::Value;

use super::sentence::{SentenceModules, tokenizer_limit};
use super::{ModelError, weights};
use dpr_files::plain;

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
        Self::with(root, SentenceModules::read(root, similarity)?)
    }

    /// Reads the directory of a cross-encoder.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged.
    pub fn read_cross_encoder(root: &Path) -> Result<Self, ModelError> {
        Self::with(root, SentenceModules::read_cross_encoder(root)?)
    }

    /// Reads the directory of a reader.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged.
    pub fn read_reader(root: &Path) -> Result<Self, ModelError> {
        let max_tokens = Some(tokenizer_limit(root)?);
        Self::with(root, SentenceModules { max_tokens, ..SentenceModules::default() })
    }

    /// Returns whether a model directory of ours holds these files, so that they say all that an import decides.
    pub(super) fn is_ours(&self) -> bool {
        self.config.get("dpr").is_some()
    }

    fn with(root: &Path, modules: SentenceModules) -> Result<Self, ModelError> {
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

    /// Refuses a tokenizer that keeps upper case where sentence-transformers lowercases before it.
    pub(super) fn check_case(&self) -> Result<(), ModelError> {
        if !self.modules.lowercase {
            return Ok(());
        }
        let tokenizer: Value = serde_json::from_slice(&self.tokenizer).unwrap_or_default();
        let normalizer = &tokenizer["normalizer"];
        let parts =
            normalizer["normalizers"].as_array().map_or(std::slice::from_ref(normalizer), Vec::as_slice);
        if parts.iter().any(|part| part["type"] == "Lowercase" || part["lowercase"] == true) {
            return Ok(());
        }
        Err(ModelError::Lowercase(self.path.clone()))
    }

    /// Writes the folder `dir` of a model directory at `root` with this tokenizer, and adds its files to `files`.
    pub(super) fn write(
        &self,
        root: &Path,
        dir: &str,
        config: &Value,
        weights: &[u8],
        files: &mut BTreeMap<String, FileEntry>,
    ) -> Result<(), ModelError> {
        let config = serde_json::to_vec_pretty(config).map_err(std::io::Error::other)?;
        fs_err::create_dir(root.join(dir))?;
        let contents = [
            ("config.json", config.as_slice()),
            ("tokenizer.json", &self.tokenizer),
            ("model.safetensors", weights),
        ];
        for (file, content) in contents {
            let path = format!("{dir}/{file}");
            fs_err::write(root.join(&path), content)?;
            files.insert(path, FileEntry { bytes: content.len() as u64, sha256: sha256_hex(content) });
        }
        Ok(())
    }
}

fn require(dir: &Path, file: &'static str, fix: &'static str) -> Result<Vec<u8>, ModelError> {
    match plain::read(&dir.join(file), super::json::MOST) {
        Ok(bytes) => Ok(bytes),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && dir.is_dir() => {
            Err(ModelError::MissingFile { dir: dir.into(), file, fix })
        }
        Err(e) => Err(e.into()),
    }
}
