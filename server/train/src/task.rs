//! Training task: the interface of retrieval training and distillation to the trainer.

use std::path::Path;

use super::encoders::{DualEncoder, TrainDevice};
use super::error::TrainError;
use super::scores::Scores;
use super::step::{StepNoise, StepOutcome};
use dpr_files::Job;

/// A task makes a run's batches, computes their loss and gradients, and measures and exports the encoders. The
/// [trainer](super::trainer) runs the steps, checkpoints and curves.
pub(super) trait Task {
    /// Returns the batches of an epoch, as numbers of items.
    fn epoch(&self, epoch: usize) -> Vec<Vec<usize>>;

    /// Returns loss and gradients of one batch, the gradients multiplied by `scale`.
    fn step(
        &self,
        items: &[usize],
        epoch: usize,
        model: &DualEncoder,
        noise: StepNoise,
        scale: f32,
        device: &TrainDevice,
    ) -> Result<StepOutcome, TrainError>;

    /// Returns the question of an item.
    fn question(&self, item: usize) -> Option<&str>;

    /// Returns whether there are questions to measure with.
    fn has_dev(&self) -> bool;

    /// Measures the encoders on the dev questions and returns the scores.
    ///
    /// # Errors
    /// [`TrainError::Stopped`] once `job` is stopped.
    fn measure(&self, model: &DualEncoder, device: &TrainDevice, job: Job<'_>) -> Result<Scores, TrainError>;

    /// Writes the encoders as the model directory `out`, in place of one that is there.
    fn export(&self, model: &DualEncoder, out: &Path) -> Result<(), TrainError>;
}
