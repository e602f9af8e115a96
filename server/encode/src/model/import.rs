//! Import of Hugging Face directories into a model directory, as `dpr import` does.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::config::DprSection;
use dpr_core::model::{FileEntry, MODEL_FORMAT, sha256_hex};
use dpr_core::{EncoderConfig, Family, ModelManifest, Pooling, Similarity, TextTokenizer, names, project};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::huggingface::HuggingFaceDir;
use super::{MANIFEST, ModelError, PASSAGE_DIR, QUESTION_DIR};
use dpr_files::atomic::StagedDir;

/// Seed of `--project`: fixed, so that one model projected twice has one fingerprint.
const PROJECTION_SEED: u64 = 12345;

/// Tokens a text is truncated to when the model does not say (paper §4.1's passages fit).
const DEFAULT_TOKENS: usize = 256;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// A name for people; by default that of the question directory.
    pub name: Option<String>,
    /// Adds a projection to this many numbers that keeps inner products.
    pub project: Option<usize>,
    /// Pooling; by default the directory's setting, else CLS.
    pub pooling: Option<Pooling>,
    /// Scale vectors to length 1; by default the directory's setting.
    pub normalize: Option<bool>,
    /// How vectors are compared.
    pub similarity: Similarity,
    /// Tokens a question is truncated to.
    pub max_question_tokens: Option<usize>,
    /// Tokens a passage is truncated to.
    pub max_passage_tokens: Option<usize>,
    /// See [`ModelManifest::space`].
    pub space: Option<String>,
    /// Replace an output directory that exists.
    pub force: bool,
}

/// Imports the question encoder of `question` and the passage encoder of `passage` (the same one when `None`)
/// into the model directory `out`. Nothing is left at `out` when it fails.
///
/// # Errors
/// [`ModelError`] names the directory and what in it does not fit.
pub fn import(
    question: &Path,
    passage: Option<&Path>,
    out: &Path,
    options: &ImportOptions,
) -> Result<ModelManifest, ModelError> {
    if out.exists() && !options.force {
        return Err(ModelError::Exists(out.into()));
    }
    let questions = Prepared::new(question, options, options.max_question_tokens, "the limit of a question")?;
    let passages = passage
        .map(|dir| Prepared::new(dir, options, options.max_passage_tokens, "the limit of a passage"))
        .transpose()?;
    let other = passages.as_ref().unwrap_or(&questions);
    if questions.config.dim() != other.config.dim() {
        let (question, passage) = (questions.config.dim(), other.config.dim());
        return Err(ModelError::Dimensions { question, passage });
    }
    let max_passage_tokens = match (passage, options.max_passage_tokens) {
        (None, Some(limit)) => questions.limit(limit, "the limit of a passage")?,
        _ => other.config.max_tokens,
    };
    let staging = StagedDir::beside(out)?;
    let mut files = BTreeMap::new();
    questions.write(staging.path(), QUESTION_DIR, "question_encoder", &mut files)?;
    if let Some(passages) = &passages {
        passages.write(staging.path(), PASSAGE_DIR, "ctx_encoder", &mut files)?;
    }
    let mut manifest = ModelManifest {
        format_version: MODEL_FORMAT,
        name: options.name.clone().unwrap_or_else(|| name_of(question)),
        fingerprint: String::new(),
        family: questions.config.family,
        pooling: questions.config.pooling,
        normalize: questions.config.normalize,
        similarity: options.similarity,
        dim: questions.config.dim(),
        max_question_tokens: questions.config.max_tokens,
        max_passage_tokens,
        shared: passages.is_none(),
        space: options.space.clone(),
        files,
    };
    manifest.fingerprint = manifest.compute_fingerprint();
    let text = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::other)?;
    fs_err::write(staging.path().join(MANIFEST), text)?;
    staging.replace()?;
    Ok(manifest)
}

fn name_of(dir: &Path) -> String {
    let absolute = fs_err::canonicalize(dir).unwrap_or_else(|_| dir.into());
    absolute.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned())
}

/// One encoder read, checked and brought into the form it is written in.
struct Prepared {
    source: HuggingFaceDir,
    config: EncoderConfig,
    config_json: Value,
    tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl Prepared {
    fn new(
        dir: &Path,
        options: &ImportOptions,
        max_tokens: Option<usize>,
        option: &'static str,
    ) -> Result<Self, ModelError> {
        let mut source = HuggingFaceDir::read(dir)?;
        let mut config_json = source.config.clone();
        let mut config =
            EncoderConfig::from_json(config_json.to_string().as_bytes()).map_err(ModelError::in_dir(dir))?;
        // A model of ours keeps what it says unless an option says otherwise.
        let ours = config_json.get("dpr").is_some();
        config.pooling = match (options.pooling, &source.modules.pooling) {
            (Some(pooling), _) => pooling,
            (None, Some(modes)) => modes.supported()?,
            (None, None) => config.pooling,
        };
        config.normalize = options.normalize.unwrap_or(config.normalize || source.modules.normalize);
        if !ours {
            let limit = source.modules.max_tokens.unwrap_or(DEFAULT_TOKENS);
            config.max_tokens = limit.min(config.position_limit());
        }
        let added = match (options.project, config.projection_dim) {
            (Some(_), has) if has > 0 => return Err(ModelError::Projected { dir: dir.into(), has }),
            (Some(dim), _) if dim > 0 && dim != config.hidden_size => Some(dim),
            _ => None,
        };
        let mut tensors = Vec::new();
        for (name, shape) in names::tensors(&config) {
            let values = source.tensors.take_f32(&name, &shape).map_err(ModelError::in_dir(dir))?;
            tensors.push((name, shape, values));
        }
        source.tensors.all_taken().map_err(ModelError::in_dir(dir))?;
        if let Some(dim) = added {
            let matrix = project::orthonormal(dim, config.hidden_size, PROJECTION_SEED);
            tensors.push(("encode_proj.weight".into(), vec![dim, config.hidden_size], matrix));
            tensors.push(("encode_proj.bias".into(), vec![dim], vec![0.0; dim]));
            config.projection_dim = dim;
        }
        let mut prepared = Self { source, config, config_json: Value::Null, tensors };
        let declared = (prepared.config.max_tokens, "max_seq_length");
        let (limit, what) = max_tokens.map_or(declared, |limit| (limit, option));
        prepared.config.max_tokens = prepared.limit(limit, what)?;
        prepared.check_case()?;
        TextTokenizer::from_json(&prepared.source.tokenizer, &prepared.config)
            .map_err(ModelError::in_dir(dir))?;
        config_json["projection_dim"] = json!(prepared.config.projection_dim);
        config_json["dpr"] = json!(DprSection {
            pooling: prepared.config.pooling,
            normalize: prepared.config.normalize,
            max_tokens: prepared.config.max_tokens,
        });
        prepared.config_json = config_json;
        Ok(prepared)
    }

    /// Refuses a tokenizer that keeps upper case where sentence-transformers lowercases before it.
    fn check_case(&self) -> Result<(), ModelError> {
        if !self.source.modules.lowercase {
            return Ok(());
        }
        let tokenizer: Value = serde_json::from_slice(&self.source.tokenizer).unwrap_or_default();
        let normalizer = &tokenizer["normalizer"];
        let parts =
            normalizer["normalizers"].as_array().map_or(std::slice::from_ref(normalizer), Vec::as_slice);
        if parts.iter().any(|part| part["type"] == "Lowercase" || part["lowercase"] == true) {
            return Ok(());
        }
        Err(ModelError::Lowercase(self.source.path.clone()))
    }

    fn limit(&self, limit: usize, what: &'static str) -> Result<usize, ModelError> {
        let most = self.config.position_limit();
        if (4..=most).contains(&limit) {
            return Ok(limit);
        }
        Err(ModelError::Tokens { what, got: limit, dir: self.source.path.clone(), limit: most })
    }

    /// Writes `config.json`, `tokenizer.json` and `model.safetensors`: BERT as `DPRQuestionEncoder` or
    /// `DPRContextEncoder` (by `prefix`), MPNet as `MPNetModel` with an `encode_proj` beside it.
    fn write(
        &self,
        root: &Path,
        dir: &str,
        prefix: &str,
        files: &mut BTreeMap<String, FileEntry>,
    ) -> Result<(), ModelError> {
        let mut config = self.config_json.clone();
        let bert = self.config.family == Family::Bert;
        if bert {
            let class = if prefix == "ctx_encoder" { "DPRContextEncoder" } else { "DPRQuestionEncoder" };
            config["model_type"] = json!("dpr");
            config["architectures"] = json!([class]);
        }
        let name = |name: &str| match (bert, name.starts_with("encode_proj.")) {
            (true, true) => format!("{prefix}.{name}"),
            (true, false) => format!("{prefix}.bert_model.{name}"),
            (false, _) => name.to_owned(),
        };
        let bytes: Vec<(String, &[usize], Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(tensor, shape, values)| {
                (name(tensor), shape.as_slice(), values.iter().flat_map(|v| v.to_le_bytes()).collect())
            })
            .collect();
        let views = bytes
            .iter()
            .map(|(name, shape, bytes)| {
                Ok((name.as_str(), TensorView::new(Dtype::F32, shape.to_vec(), bytes)?))
            })
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(std::io::Error::other)?;
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        let weights = safetensors::serialize(views, Some(metadata)).map_err(std::io::Error::other)?;
        let config = serde_json::to_vec_pretty(&config).map_err(std::io::Error::other)?;
        fs_err::create_dir(root.join(dir))?;
        let contents = [
            ("config.json", config.as_slice()),
            ("tokenizer.json", &self.source.tokenizer),
            ("model.safetensors", &weights),
        ];
        for (file, content) in contents {
            let path = format!("{dir}/{file}");
            fs_err::write(root.join(&path), content)?;
            files.insert(path, FileEntry { bytes: content.len() as u64, sha256: sha256_hex(content) });
        }
        Ok(())
    }
}
