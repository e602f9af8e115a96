//! Hugging Face directories: config.json, tokenizer.json, model.safetensors or its shards, and what
//! sentence-transformers adds to them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dpr_core::{TensorMap, WeightsError};
use serde_json::Value;

use super::ModelError;
use super::json::optional_json;
use super::sentence::SentenceModules;

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
    /// Reads the directory.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged.
    pub fn read(root: &Path) -> Result<Self, ModelError> {
        let modules = SentenceModules::read(root)?;
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
        let files = weights(path)?;
        let views = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        let tensors = TensorMap::from_safetensors(views).map_err(ModelError::in_dir(path))?;
        Ok(Self { path: path.to_owned(), config, tokenizer, tensors, modules })
    }
}

fn weights(path: &Path) -> Result<Vec<(String, Vec<u8>)>, ModelError> {
    let single = path.join("model.safetensors");
    if single.exists() {
        return Ok(vec![("model.safetensors".into(), fs_err::read(single)?)]);
    }
    let name = "model.safetensors.index.json";
    let Some(index) = optional_json(&path.join(name))? else {
        return Err(ModelError::MissingFile {
            dir: path.into(),
            file: "model.safetensors",
            fix: "convert the weights to safetensors (model.save_pretrained(…) writes them)",
        });
    };
    let damaged = |reason: &str| {
        ModelError::in_dir(path)(WeightsError::Format { file: name.into(), bytes: 0, reason: reason.into() })
    };
    let map = index.get("weight_map").and_then(Value::as_object).ok_or_else(|| damaged("no weight_map"))?;
    let shards: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    shards
        .into_iter()
        .map(|shard| {
            // A shard is a plain name beside the index; anything else could read outside the directory.
            if Path::new(shard).file_name() != Some(shard.as_ref()) {
                return Err(damaged("a shard's name holds a path"));
            }
            Ok((shard.to_owned(), fs_err::read(path.join(shard))?))
        })
        .collect()
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
