//! `config_sentence_transformers.json`: prompts, similarity and the size of the vectors.

use std::path::Path;

use dpr_core::{Prompts, Similarity};
use serde_json::Value;

use super::ModelError;
use super::json::optional_json;

/// Names of the passages' prompt, in the order in which `encode_document` looks for them.
const PASSAGE_PROMPTS: [&str; 3] = ["document", "passage", "corpus"];

/// The settings of one directory; what the file does not say is `None`.
#[derive(Debug, Default)]
pub struct SentenceSettings {
    /// Prompts of questions and passages, as `encode_query` and `encode_document` choose them.
    pub prompts: Prompts,
    /// The similarity by which vectors are compared.
    pub similarity: Option<Similarity>,
    /// Numbers of a vector that are kept.
    pub truncate: Option<usize>,
}

impl SentenceSettings {
    /// Reads the file at `path`, and refuses the other kinds of models that sentence-transformers saves. `similarity`
    /// is what the user says; the file's need not be supported then.
    ///
    /// # Errors
    /// [`ModelError`] names the file and the setting.
    pub(super) fn read(path: &Path, similarity: Option<Similarity>) -> Result<Self, ModelError> {
        let config = optional_json(path)?.unwrap_or_default();
        check_kind(path, &config)?;
        let similarity = match (similarity, &config["similarity_fn_name"]) {
            (Some(said), _) => Some(said),
            (None, Value::Null) => None,
            (None, name) => Some(named(name).ok_or_else(|| ModelError::SimilarityName {
                path: path.into(),
                name: name.as_str().map_or_else(|| name.to_string(), str::to_owned),
            })?),
        };
        let bad = |reason: String| ModelError::Json { path: path.into(), reason };
        let truncate = match &config["truncate_dim"] {
            Value::Null => None,
            value => match value.as_u64() {
                Some(dim) if dim > 0 => Some(dim as usize),
                _ => return Err(bad(format!("truncate_dim is {value}, expected a number above 0"))),
            },
        };
        let prompts = prompts(&config).map_err(bad)?;
        Ok(Self { prompts, similarity, truncate })
    }

    /// Reads the file of a cross-encoder at `path`. Its default prompt stands before the first text of a pair, as
    /// sentence-transformers puts it.
    ///
    /// # Errors
    /// [`ModelError`] names the file and the setting.
    pub(super) fn read_cross_encoder(path: &Path) -> Result<Self, ModelError> {
        let config = optional_json(path)?.unwrap_or_default();
        match &config["model_type"] {
            Value::Null => {}
            kind if kind == "CrossEncoder" => {}
            kind => {
                let what = format!("the model is of the kind {kind}");
                return Err(ModelError::NotACrossEncoder { path: path.into(), what });
            }
        }
        let query = default_prompt(&config);
        let query = query.map_err(|reason| ModelError::Json { path: path.into(), reason })?;
        Ok(Self { prompts: Prompts { query, passage: String::new() }, ..Self::default() })
    }
}

fn named(name: &Value) -> Option<Similarity> {
    match name.as_str()? {
        "cosine" => Some(Similarity::Cosine),
        "dot" | "dot_product" => Some(Similarity::Dot),
        "euclidean" => Some(Similarity::L2),
        _ => None,
    }
}

/// Returns the prompt of this name.
fn prompt(config: &Value, name: &str) -> Result<Option<String>, String> {
    match &config["prompts"][name] {
        Value::Null => Ok(None),
        Value::String(prompt) => Ok(Some(prompt.clone())),
        _ => Err(format!("the prompt {name:?} is not a text")),
    }
}

/// Returns the prompt that is named as the default; empty where none is.
fn default_prompt(config: &Value) -> Result<String, String> {
    match &config["default_prompt_name"] {
        Value::Null => Ok(String::new()),
        Value::String(name) => prompt(config, name)?
            .ok_or_else(|| format!("default_prompt_name is {name:?}, which is none of its prompts")),
        other => Err(format!("default_prompt_name is {other}, expected a text")),
    }
}

/// Returns the prompts of both sides: the one of the side's name, even an empty one, else the default prompt.
fn prompts(config: &Value) -> Result<Prompts, String> {
    let default = default_prompt(config)?;
    let mut passage = None;
    for name in PASSAGE_PROMPTS {
        if passage.is_none() {
            passage = prompt(config, name)?;
        }
    }
    Ok(Prompts {
        query: prompt(config, "query")?.unwrap_or_else(|| default.clone()),
        passage: passage.unwrap_or(default),
    })
}

/// Refuses the other kinds of models that sentence-transformers saves, which newer versions name.
fn check_kind(path: &Path, config: &Value) -> Result<(), ModelError> {
    let what = match config["model_type"].as_str() {
        None | Some("SentenceTransformer") => return Ok(()),
        Some("CrossEncoder") => {
            "a CrossEncoder, which gives a score for a pair of texts and no vectors (it is imported as a cross-encoder)"
        }
        Some("SparseEncoder") => "a SparseEncoder, which gives a weight for each word of the vocabulary",
        Some("MultiVectorEncoder") => "a MultiVectorEncoder, which gives a vector for each token",
        Some(other) => return Err(not_an_encoder(path, format!("of the kind {other:?}"))),
    };
    Err(not_an_encoder(path, what.into()))
}

fn not_an_encoder(path: &Path, what: String) -> ModelError {
    ModelError::NotAnEncoder { path: path.into(), what }
}
