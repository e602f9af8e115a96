//! Import of Hugging Face directories into a model directory, as `dpr import` does.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::model::MODEL_FORMAT;
use dpr_core::{ModelManifest, Prompts, Similarity};
use serde::Serialize;

use super::prepared::{Prepared, Texts};
use super::{ImportOptions, MANIFEST, ModelError, PASSAGE_DIR, QUESTION_DIR, target};
use dpr_files::atomic::StagedDir;

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
    let read: Vec<&Path> = [question].into_iter().chain(passage).collect();
    target::check(out, options.force, &read)?;
    let texts = if passage.is_some() { Texts::Questions } else { Texts::Both };
    let limit = options.max_question_tokens;
    let mut questions = Prepared::new(question, options, texts, limit, "the limit of a question")?;
    let limit = options.max_passage_tokens;
    let mut passages = passage
        .map(|dir| Prepared::new(dir, options, Texts::Passages, limit, "the limit of a passage"))
        .transpose()?;
    let other = passages.as_ref().unwrap_or(&questions);
    if questions.config.dim() != other.config.dim() {
        let (question, passage) = (questions.config.dim(), other.config.dim());
        return Err(ModelError::Dimensions { question, passage });
    }
    if questions.similarity != other.similarity {
        let (question, passage) = (questions.similarity, other.similarity);
        return Err(ModelError::Similarities { question, passage });
    }
    if questions.config.normalize != other.config.normalize {
        let (question, passage) = (questions.config.normalize, other.config.normalize);
        return Err(ModelError::Lengths { question, passage });
    }
    if other.similarity == Similarity::L2 && !other.config.normalize {
        let weight = Some(other.l2_weight()?);
        questions.config.l2 = weight;
        passages.iter_mut().for_each(|passages| passages.config.l2 = weight);
    }
    let other = passages.as_ref().unwrap_or(&questions);
    let max_passage_tokens = match &passages {
        Some(passages) => passages.config.max_tokens,
        None => questions.limit(options.max_passage_tokens, "the limit of a passage")?,
    };
    other.check_prompts(usize::MAX, max_passage_tokens)?;
    let staging = StagedDir::beside(out)?;
    let mut files = BTreeMap::new();
    questions.write(staging.path(), QUESTION_DIR, "question_encoder", &mut files)?;
    if let Some(passages) = &passages {
        passages.write(staging.path(), PASSAGE_DIR, "ctx_encoder", &mut files)?;
    }
    let first = questions.config.is_first_format() && other.config.is_first_format();
    let mut manifest = ModelManifest {
        format_version: if first { 1 } else { MODEL_FORMAT },
        name: options.name.clone().unwrap_or_else(|| name_of(question)),
        fingerprint: String::new(),
        family: questions.config.family,
        pooling: questions.config.pooling,
        normalize: questions.config.normalize,
        similarity: questions.similarity,
        dim: questions.config.vector_dim(),
        max_question_tokens: questions.config.max_tokens,
        max_passage_tokens,
        shared: passages.is_none(),
        space: options.space.clone(),
        prompts: Prompts {
            query: questions.config.form.prompts.query.clone(),
            passage: other.config.form.prompts.passage.clone(),
        },
        title_join: other.config.form.join.clone(),
        matryoshka: questions.matryoshka && other.matryoshka,
        files,
    };
    manifest.fingerprint = manifest.compute_fingerprint();
    write_manifest(staging, &manifest)?;
    Ok(manifest)
}

/// Writes the manifest into a directory that is whole but for it, and puts the directory in its place.
pub(super) fn write_manifest(staging: StagedDir, manifest: &impl Serialize) -> Result<(), ModelError> {
    let text = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::other)?;
    fs_err::write(staging.path().join(MANIFEST), text)?;
    Ok(staging.replace()?)
}

pub(super) fn name_of(dir: &Path) -> String {
    let absolute = fs_err::canonicalize(dir).unwrap_or_else(|_| dir.into());
    absolute.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned())
}
