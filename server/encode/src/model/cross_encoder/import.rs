//! Import of a Hugging Face directory of a cross-encoder, as `dpr import --cross-encoder` does.

use std::path::Path;

use dpr_core::{
    ConfigError, CrossEncoder, CrossEncoderConfig, EncodeError, ModelKind, PairManifest, TitleJoin,
};
use serde_json::Value;

use super::super::huggingface::HuggingFaceDir;
use super::super::json::with_section;
use super::super::options::override_form;
use super::super::{ModelError, pair, target, weights};

/// Options of importing a cross-encoder.
#[derive(Clone, Debug, Default)]
pub struct CrossEncoderOptions {
    /// A name for people; by default that of the directory.
    pub name: Option<String>,
    /// Text before every question; by default the directory's setting. An empty one is none.
    pub query_prompt: Option<String>,
    /// Text before every passage; by default none.
    pub passage_prompt: Option<String>,
    /// The way a title is joined to its text; by default with a space between.
    pub title_join: Option<TitleJoin>,
    /// Tokens a pair is truncated to; by default the directory's setting, else as many as there are positions.
    pub max_tokens: Option<usize>,
    /// Replace an output directory that exists.
    pub force: bool,
}

/// Imports the cross-encoder of `from`, a `…ForSequenceClassification` of one label, into the model directory `out`.
/// Nothing is left at `out` when it fails.
///
/// # Errors
/// [`ModelError`] names the directory and what in it does not fit.
pub fn import_cross_encoder(
    from: &Path,
    out: &Path,
    options: &CrossEncoderOptions,
) -> Result<PairManifest, ModelError> {
    target::check(out, options.force, &[from])?;
    let mut source = HuggingFaceDir::read_cross_encoder(from)?;
    let config = configured(&source, options)?;
    let dir = source.path.clone();
    let tensors = config.take_tensors(&mut source.tensors).map_err(ModelError::in_dir(&dir))?;
    source.tensors.all_taken().map_err(ModelError::in_dir(&dir))?;
    source.check_case()?;
    let weights = weights::safetensors(&tensors, &str::to_owned)?;
    drop(tensors);
    let json = with_section(source.config.clone(), config.encoder());
    check(&source, &json, &weights)?;
    let name = pair::name(options.name.as_ref(), from);
    pair::write(ModelKind::CrossEncoder, &source, (out, name), config.encoder(), (&json, &weights))
}

/// Returns the directory's configuration with its limit, its prompts and its title join.
fn configured(
    source: &HuggingFaceDir,
    options: &CrossEncoderOptions,
) -> Result<CrossEncoderConfig, ModelError> {
    let dir = &source.path;
    let json = source.config.to_string();
    let config = CrossEncoderConfig::from_json(json.as_bytes()).map_err(ModelError::in_dir(dir))?;
    // A model of ours keeps what it says unless an option says otherwise.
    let ours = source.is_ours();
    let mut form = config.encoder().form.clone();
    if !ours {
        form.prompts.clone_from(&source.modules.settings.prompts);
    }
    let CrossEncoderOptions { query_prompt, passage_prompt, title_join, .. } = options;
    override_form(&mut form, query_prompt.as_ref(), passage_prompt.as_ref(), title_join.as_ref());
    let limit = pair::limit(source, config.encoder(), options.max_tokens)?;
    let one_type = if ours { config.encoder().one_type } else { !pair::takes_types(dir)? };
    let config = config.with_form(form).map_err(ModelError::in_dir::<ConfigError>(dir))?;
    Ok(config.with_max_tokens(limit).with_one_type(one_type))
}

/// Checks that what is about to be written scores pairs, with room for their texts.
fn check(source: &HuggingFaceDir, config: &Value, weights: &[u8]) -> Result<(), ModelError> {
    let loaded = pair::loaded(source, config, weights, CrossEncoder::load)?;
    let unusable = |file: &str, e: EncodeError| pair::unusable(&source.path, file, &e);
    let tokens_of =
        |question, text| loaded.pair_tokens(question, "", text).map_err(|e| unusable("tokenizer.json", e));
    let (tokens, limit) = (tokens_of("", "")?.ids().len(), loaded.max_tokens());
    // One token of each text at least.
    if tokens + 2 > limit {
        return Err(ModelError::PromptFills { what: "pairs", tokens, limit });
    }
    let usual = tokens_of("what sleeps most of the day?", "Cats sleep most of the day.")?;
    loaded.forward(&[usual]).map(drop).map_err(|e| unusable("model.safetensors", e))
}
