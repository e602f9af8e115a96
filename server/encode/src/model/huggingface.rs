//! Reads a Hugging Face directory: config.json, tokenizer.json, model.safetensors or its shards, and what
//! sentence-transformers adds about pooling.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dpr_core::{Pooling, TensorMap, WeightsError};
use serde_json::Value;

use super::ModelError;

/// The files of one encoder as published.
pub struct HuggingFaceDir {
    /// Where they lie.
    pub path: PathBuf,
    /// config.json.
    pub config: Value,
    /// tokenizer.json, as it is.
    pub tokenizer: Vec<u8>,
    /// The weights under canonical names.
    pub tensors: TensorMap,
    /// What `1_Pooling/config.json` says, where there is one.
    pub pooling: Option<Pooling>,
    /// Whether `modules.json` ends in a normalisation.
    pub normalize: bool,
    /// `max_seq_length` of `sentence_bert_config.json`.
    pub max_tokens: Option<usize>,
}

impl HuggingFaceDir {
    /// Reads the directory.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
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
        Ok(Self {
            path: path.to_owned(),
            config,
            tokenizer,
            tensors,
            pooling: optional_json(&path.join("1_Pooling/config.json"))?.as_ref().and_then(pooling),
            normalize: optional_json(&path.join("modules.json"))?.as_ref().is_some_and(normalizes),
            max_tokens: optional_json(&path.join("sentence_bert_config.json"))?
                .and_then(|config| config.get("max_seq_length")?.as_u64())
                .map(|limit| limit as usize),
        })
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

fn optional_json(path: &Path) -> Result<Option<Value>, ModelError> {
    match fs_err::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| ModelError::Manifest { path: path.into(), reason: e.to_string() }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn pooling(config: &Value) -> Option<Pooling> {
    let says = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
    if says("pooling_mode_mean_tokens") {
        Some(Pooling::Mean)
    } else if says("pooling_mode_cls_token") {
        Some(Pooling::Cls)
    } else {
        None
    }
}

fn normalizes(modules: &Value) -> bool {
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    modules.iter().any(|module| {
        module.get("type").and_then(Value::as_str).is_some_and(|name| name.ends_with("Normalize"))
    })
}
