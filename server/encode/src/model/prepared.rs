//! One encoder of a Hugging Face directory: read, checked and brought into the form in which it is written.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::device::Device;
use dpr_core::model::FileEntry;
use dpr_core::weights::StoredTensor;
use dpr_core::{
    EncoderBytes, EncoderConfig, Family, Similarity, TextEncoder, TextTokenizer, TitleJoin, names, project,
};
use serde_json::{Value, json};

use super::huggingface::HuggingFaceDir;
use super::json::with_section;
use super::options::{ImportOptions, override_form};
use super::{ModelError, weights};

/// Seed of `--project`: fixed, so that one model projected twice has one fingerprint.
const PROJECTION_SEED: u64 = 12345;

/// Tokens a text is truncated to when the model does not say (paper §4.1's passages fit).
const DEFAULT_TOKENS: usize = 256;

/// Texts by which the usual length of a vector is measured.
const USUAL: [&str; 6] = [
    "Cats sleep most of the day.",
    "The capital of France is Paris.",
    "Water boils at 100 degrees Celsius at sea level.",
    "She wrote three novels before she turned thirty.",
    "The committee will meet on Monday to discuss the budget for the next year.",
    "1, 2, 3, 4 and 5 are numbers.",
];

/// The texts that an encoder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    Questions,
    Passages,
    Both,
}

/// One encoder read, checked and brought into the form it is written in.
pub(super) struct Prepared {
    source: HuggingFaceDir,
    pub(super) config: EncoderConfig,
    pub(super) similarity: Similarity,
    /// See [`ModelManifest::matryoshka`](dpr_core::ModelManifest::matryoshka).
    pub(super) matryoshka: bool,
    /// Tokens that the directory says a text is truncated to.
    declared: usize,
    tensors: Vec<StoredTensor>,
}

impl Prepared {
    pub(super) fn new(
        dir: &Path,
        options: &ImportOptions,
        texts: Texts,
        max_tokens: Option<usize>,
        option: &'static str,
    ) -> Result<Self, ModelError> {
        let mut source = HuggingFaceDir::read(dir, options.similarity)?;
        let json = source.config.to_string();
        let mut config = EncoderConfig::from_json(json.as_bytes()).map_err(ModelError::in_dir(dir))?;
        // A model of ours keeps what it says unless an option says otherwise.
        let ours = source.is_ours();
        config.pooling = match (options.pooling, &source.modules.pooling) {
            (Some(pooling), _) => pooling,
            (None, Some(modes)) => modes.supported()?,
            (None, None) => config.pooling,
        };
        if !source.modules.head.is_empty() {
            config.head.clone_from(&source.modules.head);
        }
        let similarity = compare(&mut config, &source, options)?;
        let trained = truncate(&mut config, &source, options, dir)?;
        form(&mut config, &source, options, texts);
        if let Some(modes) = &source.modules.pooling {
            modes.check_prompt(!config.form.prompts.is_empty())?;
        }
        config.form.check().map_err(|e| ModelError::in_dir::<dpr_core::ConfigError>(dir)(e.into()))?;
        if !ours {
            let limit = source.modules.max_tokens.unwrap_or(DEFAULT_TOKENS);
            config.max_tokens = limit.min(config.position_limit());
        }
        let added = match (options.project, config.projection_dim) {
            (Some(_), has) if has > 0 => return Err(ModelError::Projected { dir: dir.into(), has }),
            (Some(dim), _) if dim > 0 && dim != config.kept_width() => Some(dim),
            _ => None,
        };
        let mut tensors = Vec::new();
        for (name, shape) in names::tensors(&config) {
            let values = source.tensors.take_f32(&name, &shape).map_err(ModelError::in_dir(dir))?;
            tensors.push((name, shape, values));
        }
        source.tensors.all_taken().map_err(ModelError::in_dir(dir))?;
        if let Some(dim) = added {
            let width = config.kept_width();
            let matrix = project::orthonormal(dim, width, PROJECTION_SEED);
            tensors.push(("encode_proj.weight".into(), vec![dim, width], matrix));
            tensors.push(("encode_proj.bias".into(), vec![dim], vec![0.0; dim]));
            config.projection_dim = dim;
        }
        // The first numbers of a projected vector are not what was trained.
        let matryoshka = trained && config.projection_dim == 0;
        let declared = config.max_tokens;
        let mut prepared = Self { source, config, similarity, matryoshka, declared, tensors };
        prepared.config.max_tokens = prepared.limit(max_tokens, option)?;
        prepared.source.check_case()?;
        let limit = prepared.config.max_tokens;
        prepared.check_prompts(if texts == Texts::Passages { usize::MAX } else { limit }, usize::MAX)?;
        Ok(prepared)
    }

    /// Refuses limits of tokens that the prompts alone use up, and a tokenizer that does not fit.
    pub(super) fn check_prompts(&self, questions: usize, passages: usize) -> Result<(), ModelError> {
        let dir = &self.source.path;
        let all = EncoderConfig { max_tokens: self.config.position_limit(), ..self.config.clone() };
        let tokenizer =
            TextTokenizer::from_json(&self.source.tokenizer, &all).map_err(ModelError::in_dir(dir))?;
        let question_tokens = tokenizer.question("").map_err(ModelError::in_dir(dir))?.len();
        let found = tokenizer.passage("", "").map_err(ModelError::in_dir(dir))?.len();
        for (what, tokens, limit) in
            [("questions", question_tokens, questions), ("passages", found, passages)]
        {
            if tokens >= limit {
                return Err(ModelError::PromptFills { what, tokens, limit });
            }
        }
        Ok(())
    }

    /// Returns the limit of tokens that is asked for by `option`, else the one that the directory says.
    ///
    /// # Errors
    /// [`ModelError::Tokens`] for a limit that the encoder cannot have.
    pub(super) fn limit(&self, asked: Option<usize>, option: &'static str) -> Result<usize, ModelError> {
        let (what, got) = asked.map_or(("max_seq_length", self.declared), |asked| (option, asked));
        let limit = self.config.position_limit();
        if (4..=limit).contains(&got) {
            return Ok(got);
        }
        Err(ModelError::Tokens { what, got, dir: self.source.path.clone(), limit })
    }

    /// Returns the weight of the coordinate of [`EncoderConfig::coordinate`]: a power of two with which the coordinate
    /// of a usual vector is about as large as the largest of its other numbers, so that 8-bit copies, which have one
    /// scale a vector, lose nothing by it. A weight that the directory has and that is near enough is kept.
    pub(super) fn l2_weight(&self) -> Result<f32, ModelError> {
        let dir = &self.source.path;
        let plain = EncoderConfig { l2: None, ..self.config.clone() };
        let config = serde_json::to_vec(&self.json(&plain)).map_err(std::io::Error::other)?;
        let weights = weights::safetensors(&self.tensors, &str::to_owned)?;
        let files = EncoderBytes {
            config: &config,
            tokenizer: &self.source.tokenizer,
            weights: &[("model.safetensors", weights.as_slice())],
        };
        let encoder = TextEncoder::load(&files, None, &Device::Kernel).map_err(ModelError::in_dir(dir))?;
        let unusable = |reason: String| ModelError::Json { path: dir.join("model.safetensors"), reason };
        let rows = USUAL.iter().map(|text| encoder.passage_tokens("", text));
        let rows = rows.collect::<Result<Vec<_>, _>>().map_err(|e| unusable(e.to_string()))?;
        let vectors = encoder.forward(&rows).map_err(|e| unusable(e.to_string()))?;
        let lengths =
            vectors.chunks_exact(encoder.dim()).map(|row| row.iter().map(|x| x * x).sum::<f32>().sqrt());
        let length = lengths.sum::<f32>() / USUAL.len() as f32;
        let target = length * (encoder.dim() as f32).sqrt() / 12.0;
        if !(target.is_finite() && target > 0.0) {
            return Err(unusable("its vectors are zero or not finite".into()));
        }
        Ok(match self.config.l2 {
            Some(has) if (0.5..=2.0).contains(&(has / target)) => has,
            _ => target.log2().round().clamp(-60.0, 60.0).exp2(),
        })
    }

    /// Returns the config.json of `config`.
    fn json(&self, config: &EncoderConfig) -> Value {
        let mut json = self.source.config.clone();
        json["projection_dim"] = json!(config.projection_dim);
        with_section(json, config)
    }

    /// Writes `config.json`, `tokenizer.json` and `model.safetensors`: BERT as `DPRQuestionEncoder` or
    /// `DPRContextEncoder` (by `prefix`), MPNet as `MPNetModel`, each with its head's tensors beside it.
    pub(super) fn write(
        &self,
        root: &Path,
        dir: &str,
        prefix: &str,
        files: &mut BTreeMap<String, FileEntry>,
    ) -> Result<(), ModelError> {
        let mut config = self.json(&self.config);
        let bert = self.config.family == Family::Bert;
        if bert {
            let class = if prefix == "ctx_encoder" { "DPRContextEncoder" } else { "DPRQuestionEncoder" };
            config["model_type"] = json!("dpr");
            config["architectures"] = json!([class]);
        }
        let of_head = |name: &str| name.starts_with("encode_proj.") || name.starts_with("dense.");
        let name = |name: &str| match (bert, of_head(name)) {
            (true, true) => format!("{prefix}.{name}"),
            (true, false) => format!("{prefix}.bert_model.{name}"),
            (false, _) => name.to_owned(),
        };
        let weights = weights::safetensors(&self.tensors, &name)?;
        self.source.write(root, dir, &config, &weights, files)
    }
}

/// Decides how vectors are compared, and whether they are scaled for it.
fn compare(
    config: &mut EncoderConfig,
    source: &HuggingFaceDir,
    options: &ImportOptions,
) -> Result<Similarity, ModelError> {
    config.normalize = options.normalize.unwrap_or(config.normalize || source.modules.normalize);
    let own = config.l2.map(|_| Similarity::L2);
    let similarity = match source.modules.settings.similarity.or(own).unwrap_or_default() {
        Similarity::Cosine if options.normalize != Some(false) => {
            config.normalize = true;
            Similarity::Cosine
        }
        Similarity::Cosine if options.similarity.is_some() => return Err(ModelError::CosineUnscaled),
        Similarity::Cosine | Similarity::Dot => Similarity::Dot,
        Similarity::L2 => Similarity::L2,
    };
    // Between vectors of length 1, the inner product has the order of the distance.
    if similarity != Similarity::L2 || config.normalize {
        config.l2 = None;
    }
    Ok(similarity)
}

/// Decides how many numbers of the head's output are kept, and returns whether the encoder was trained for fewer.
fn truncate(
    config: &mut EncoderConfig,
    source: &HuggingFaceDir,
    options: &ImportOptions,
    dir: &Path,
) -> Result<bool, ModelError> {
    let (full, own) = (config.head_width(), source.modules.settings.truncate);
    // More than there are means all of them, as in sentence-transformers.
    let kept = config.truncate.or(own).unwrap_or(full).min(full);
    let said = options.matryoshka || says_matryoshka(&source.config);
    let trained = said || config.truncate.is_some() || own.is_some();
    let dim = options.dim.unwrap_or(kept);
    if !(1..=full).contains(&dim) {
        return Err(ModelError::Truncate { dir: dir.into(), dim, full });
    }
    if dim < full && options.dim.is_some() {
        if config.projection_dim > 0 {
            return Err(ModelError::ProjectedCut { dir: dir.into(), has: config.projection_dim, dim });
        }
        if !trained {
            return Err(ModelError::NotMatryoshka { dir: dir.into(), dim, full });
        }
    }
    config.truncate = (dim < full).then_some(dim);
    Ok(trained)
}

/// Returns whether a config.json says that its encoder was trained for fewer numbers, by the fields that vLLM reads:
/// sentence-transformers names the sizes in the model card alone.
fn says_matryoshka(config: &Value) -> bool {
    let sizes = config["matryoshka_dimensions"].as_array();
    config["is_matryoshka"] == true || sizes.is_some_and(|sizes| !sizes.is_empty())
}

/// Decides the prompts and the title join; an encoder of one kind of texts has nothing of the other's.
fn form(config: &mut EncoderConfig, source: &HuggingFaceDir, options: &ImportOptions, texts: Texts) {
    let form = &mut config.form;
    if form.prompts.is_empty() {
        form.prompts.clone_from(&source.modules.settings.prompts);
    }
    let ImportOptions { query_prompt, passage_prompt, title_join, .. } = options;
    override_form(form, query_prompt.as_ref(), passage_prompt.as_ref(), title_join.as_ref());
    match texts {
        Texts::Both => {}
        Texts::Questions => {
            form.prompts.passage.clear();
            form.join = TitleJoin::Separator;
        }
        Texts::Passages => form.prompts.query.clear(),
    }
}
