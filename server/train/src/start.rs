//! Checks of the model that the training of encoders starts from, by its manifest and its configurations: no weights
//! are read.

use dpr_core::{EncoderConfig, ModelManifest, Similarity};

use super::config::TrainConfig;
use super::encoders::{Weights, check_limits};
use super::error::TrainError;
use dpr_encode::model::{ModelDir, PASSAGE_DIR, QUESTION_DIR};

/// Refuses a model that cannot be trained as `config` says: one with two encoders where one is asked for, limits of
/// tokens that it does not have, and nested vectors that it cannot be cut to.
///
/// # Errors
/// [`TrainError`] names the setting, or the encoder's directory.
pub(super) fn check_start(config: &TrainConfig, model: &ModelDir) -> Result<(), TrainError> {
    let (options, manifest) = (&config.model, model.manifest());
    options.encoders.is_shared(model)?;
    let read = |folder: &str| -> Result<EncoderConfig, TrainError> {
        let (json, dir) = (model.config(folder)?, model.path().join(folder));
        EncoderConfig::from_json(&json).map_err(|e| TrainError::Encoder { dir, source: e.into() })
    };
    let question = read(QUESTION_DIR)?;
    let passage = read(if manifest.shared { QUESTION_DIR } else { PASSAGE_DIR })?;
    let limits = [
        options.max_question_tokens.unwrap_or(manifest.max_question_tokens),
        options.max_passage_tokens.unwrap_or(manifest.max_passage_tokens),
    ];
    check_limits(limits, [&question, &passage])?;
    config.objective.check_sizes([&question, &passage])
}

/// Returns a note where a model that compares by the Euclidean distance is trained to compare otherwise, or the other
/// way round: indexes and searches of the trained model rank by what it was trained for. Vectors of length 1 rank the
/// same by all similarities.
pub(super) fn similarity_note(config: &TrainConfig, start: &ModelManifest) -> Option<String> {
    let (given, trained) = (start.similarity, config.objective.similarity);
    let is_distance = |similarity: Similarity| similarity == Similarity::L2;
    let is_kept = start.normalize || is_distance(given) == is_distance(trained);
    if is_kept || config.model.weights == Weights::Random {
        return None;
    }
    let (given, trained) = (given.name(), trained.name());
    Some(format!(
        "the model that training starts from compares by {given}, and objective.similarity is {trained}: the trained \
         model compares by {trained}; objective.similarity = \"{given}\" keeps what the model has"
    ))
}
