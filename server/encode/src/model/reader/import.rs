//! Import of a Hugging Face directory of a reader, as `dpr import --reader` does.

use std::path::Path;

use dpr_core::reader::ReadError;
use dpr_core::{
    ConfigError, EncodeError, ModelKind, PairManifest, ReadOptions, Reader, ReaderConfig, TitleJoin,
};
use serde_json::Value;

use super::super::huggingface::HuggingFaceDir;
use super::super::json::with_section;
use super::super::pair;
use super::super::{ModelError, target, weights};

/// Options of importing a reader.
#[derive(Clone, Debug, Default)]
pub struct ReaderOptions {
    /// A name for people; by default that of the directory.
    pub name: Option<String>,
    /// The way a title is joined to its text, of a `…ForQuestionAnswering`; by default it is left out.
    pub title_join: Option<TitleJoin>,
    /// Tokens a question and a passage are cut to; by default 350, or fewer where the model has fewer.
    pub max_tokens: Option<usize>,
    /// Replace an output directory that exists.
    pub force: bool,
}

/// Imports the reader of `from`, a `DPRReader` or a `…ForQuestionAnswering`, into the model directory `out`. Nothing is
/// left at `out` when it fails.
///
/// # Errors
/// [`ModelError`] names the directory and what in it does not fit.
pub fn import_reader(from: &Path, out: &Path, options: &ReaderOptions) -> Result<PairManifest, ModelError> {
    target::check(out, options.force, &[from])?;
    let mut source = HuggingFaceDir::read_reader(from)?;
    let config = configured(&source, options)?;
    let dir = source.path.clone();
    let tensors = config.take_tensors(&mut source.tensors).map_err(ModelError::in_dir(&dir))?;
    source.tensors.all_taken().map_err(ModelError::in_dir(&dir))?;
    let weights = weights::safetensors(&tensors, &str::to_owned)?;
    drop(tensors);
    let json = with_section(source.config.clone(), config.encoder());
    check(&source, &json, &weights)?;
    let name = pair::name(options.name.as_ref(), from);
    pair::write(ModelKind::Reader, &source, (out, name), config.encoder(), (&json, &weights))
}

/// Returns the directory's configuration with its limit and its title join.
fn configured(source: &HuggingFaceDir, options: &ReaderOptions) -> Result<ReaderConfig, ModelError> {
    let dir = &source.path;
    let json = source.config.to_string();
    let mut config = ReaderConfig::from_json(json.as_bytes()).map_err(ModelError::in_dir(dir))?;
    if let Some(join) = &options.title_join {
        config = config.with_title_join(join.clone()).map_err(ModelError::in_dir::<ConfigError>(dir))?;
    }
    let limit = match options.max_tokens {
        // A tokenizer's limit is that of the positions, and more than readers are trained with.
        None if !source.is_ours() => {
            let own = source.modules.max_tokens.unwrap_or(usize::MAX);
            pair::limit(source, config.encoder(), Some(own.min(config.encoder().max_tokens)))?
        }
        option => pair::limit(source, config.encoder(), option)?,
    };
    let one_type = if source.is_ours() { config.encoder().one_type } else { !pair::takes_types(dir)? };
    Ok(config.with_max_tokens(limit).with_one_type(one_type))
}

/// Checks that what is about to be written reads, with room for a passage.
fn check(source: &HuggingFaceDir, config: &Value, weights: &[u8]) -> Result<(), ModelError> {
    let loaded = pair::loaded(source, config, weights, Reader::load)?;
    let question = "what sleeps most of the day?";
    let passages = [("Cats", "Cats sleep most of the day.")];
    match loaded.read_passages(question, &passages, ReadOptions::default()) {
        // A limit for short questions.
        Ok(_) | Err(ReadError::Question { .. }) => Ok(()),
        Err(error @ ReadError::Encode(EncodeError::Tokenizer(_))) => {
            Err(pair::unusable(&source.path, "tokenizer.json", &error))
        }
        Err(error) => Err(pair::unusable(&source.path, "model.safetensors", &error)),
    }
}
