//! Export of trained encoders as a model directory.

use std::path::Path;

use dpr_core::Similarity;

use super::encoders::DualEncoder;
use super::error::TrainError;
use super::objective::Objective;
use dpr_encode::model::{ImportOptions, import};
use dpr_files::atomic::StagedDir;

/// Writes `model` as the model directory `out`, in place of one that is there. The vectors of a model trained by
/// cosine are scaled to length 1, and those of one trained by the Euclidean distance get a coordinate for it, so that
/// their inner products rank as the score that was trained. A model that was trained with nested vectors says so.
///
/// # Errors
/// [`TrainError::Model`] or an I/O error; `out` is then unchanged.
pub fn export(model: &DualEncoder, out: &Path, name: &str, objective: &Objective) -> Result<(), TrainError> {
    export_as(Exported {
        model,
        out,
        name,
        similarity: objective.similarity,
        matryoshka: !objective.matryoshka.is_empty(),
        max_passage_tokens: model.max_passage_tokens,
        passages: None,
        space: None,
    })
}

/// The inputs of [`export_as`].
pub(super) struct Exported<'a> {
    pub(super) model: &'a DualEncoder,
    pub(super) out: &'a Path,
    pub(super) name: &'a str,
    pub(super) similarity: Similarity,
    /// `true` if the first numbers of a vector were trained to be a vector too.
    pub(super) matryoshka: bool,
    pub(super) max_passage_tokens: usize,
    /// The directory of the passage encoder, where it is not one of the model's.
    pub(super) passages: Option<&'a Path>,
    /// The fingerprint of the model whose passage vectors the questions belong to, where it is another.
    pub(super) space: Option<&'a str>,
}

/// As [`export`].
pub(super) fn export_as(exported: Exported<'_>) -> Result<(), TrainError> {
    let Exported { model, out, name, similarity, matryoshka, max_passage_tokens, passages, space } = exported;
    let options = ImportOptions {
        name: Some(name.to_owned()),
        normalize: (similarity == Similarity::Cosine).then_some(true),
        similarity: Some(similarity),
        matryoshka,
        max_question_tokens: Some(model.max_question_tokens),
        max_passage_tokens: Some(max_passage_tokens),
        space: space.map(str::to_owned),
        force: true,
        ..ImportOptions::default()
    };
    put_in_place(out, |files, staged| {
        let dirs = [files.join("question"), files.join("passage")];
        for (dir, encoder) in dirs.iter().zip(&model.encoders) {
            fs_err::create_dir(dir)?;
            encoder.write(dir)?;
        }
        let passage = passages.or_else(|| (!model.is_shared()).then_some(dirs[1].as_path()));
        import(&dirs[0], passage, staged, &options)?;
        Ok(())
    })
}

/// Writes a model directory over whatever is at `out`, which is the run's own: `make` puts files of Hugging Face's form
/// in the first directory, and imports them into the second.
pub(super) fn put_in_place(
    out: &Path,
    make: impl FnOnce(&Path, &Path) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let (files, model) = (StagedDir::beside(out)?, StagedDir::beside(out)?);
    make(files.path(), model.path())?;
    Ok(model.replace()?)
}
