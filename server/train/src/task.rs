//! What a run trains for.

use std::path::Path;

use super::encoders::{DualEncoder, TrainDevice};
use super::error::TrainError;
use super::scores::Scores;
use super::step::{StepNoise, StepOutcome};
use dpr_files::progress::Progress;

/// Where a run's batches come from, what they give, and how the encoders are measured and exported. The run itself, with
/// its steps, checkpoints and curves, is the [trainer](super::trainer)'s.
pub(super) trait Task {
    /// The batches of an epoch, as numbers of items.
    fn epoch(&self, epoch: usize) -> Vec<Vec<usize>>;

    /// Loss and gradients of one batch, times `scale`.
    fn step(
        &self,
        items: &[usize],
        epoch: usize,
        model: &DualEncoder,
        noise: StepNoise,
        scale: f32,
        device: &TrainDevice,
    ) -> Result<StepOutcome, TrainError>;

    /// The question of an item.
    fn question(&self, item: usize) -> Option<&str>;

    /// Whether there are questions to measure with.
    fn has_dev(&self) -> bool;

    /// Measures the encoders on the dev questions.
    fn measure(
        &self,
        model: &DualEncoder,
        device: &TrainDevice,
        progress: &dyn Progress,
    ) -> Result<Scores, TrainError>;

    /// Writes the encoders as the model directory `out`, in place of one that is there.
    fn export(&self, model: &DualEncoder, out: &Path) -> Result<(), TrainError>;
}
