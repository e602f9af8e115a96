//! Retrieval task: training of question and passage encoders on questions with their passages.

use std::path::Path;

use super::config::TrainConfig;
use super::data::TrainingData;
use super::encoders::{DualEncoder, TrainDevice};
use super::error::TrainError;
use super::evaluate::evaluate;
use super::export::export;
use super::prepare::Prepared;
use super::sampler::Sampler;
use super::scores::Scores;
use super::step::{StepNoise, StepOutcome, step};
use super::task::Task;
use super::trainer::{self, Setup, TrainReport};
use dpr_files::Job;

/// Trains as `config` says in the run directory `out`, which holds no run yet, or with `resume` one begun with the
/// same settings: it then continues from its last checkpoint, and every step is the same as without the interruption.
///
/// ```no_run
/// use std::path::Path;
/// use std::sync::atomic::AtomicBool;
///
/// use dpr_core::DeviceChoice;
/// use dpr_files::Job;
/// use dpr_files::progress::Silent;
/// use dpr_train::{Prepared, Settings, TrainConfig, TrainDevice, train};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = TrainConfig::read(Path::new("configs/small-cpu.toml"))?;
/// let device = TrainDevice::open(DeviceChoice::Auto)?;
/// // Everything is read and checked before the run directory is made.
/// let prepared = Prepared::new(&config, &device)?;
/// let stop = AtomicBool::new(false);
/// let job = Job { stop: &stop, progress: &Silent };
/// let report = train(&config, Path::new("run/"), false, prepared, &device, job)?;
/// println!("{} steps, the best model is in {}", report.steps, report.model.display());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`TrainError`]; [`TrainError::Interrupted`] once `job` is stopped and a checkpoint is written. The last checkpoint
/// is kept in any case.
pub fn train(
    config: &TrainConfig,
    out: &Path,
    resume: bool,
    prepared: Prepared,
    device: &TrainDevice,
    job: Job<'_>,
) -> Result<TrainReport, TrainError> {
    let Prepared { data, model, teacher, name, origin, steps, .. } = prepared;
    let sampler = Sampler::new(&data, &config.data, &config.run)?.taught_by(teacher.as_ref());
    let task = RetrievalTask { config, data: &data, sampler, name };
    trainer::run(Setup { config, out, resume, task: &task, model, origin, steps }, device, job)
}

struct RetrievalTask<'a> {
    config: &'a TrainConfig,
    data: &'a TrainingData,
    sampler: Sampler<'a>,
    name: String,
}

impl Task for RetrievalTask<'_> {
    fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        self.sampler.epoch(epoch)
    }

    fn step(
        &self,
        items: &[usize],
        epoch: usize,
        model: &DualEncoder,
        noise: StepNoise,
        scale: f32,
        device: &TrainDevice,
    ) -> Result<StepOutcome, TrainError> {
        let batch = self.sampler.compose(items, epoch, model)?;
        step(model, &batch, &self.config.objective, &self.config.compute, noise, scale, device)
    }

    fn question(&self, item: usize) -> Option<&str> {
        self.data.item(item).map(|item| item.question.as_str())
    }

    fn has_dev(&self) -> bool {
        !self.data.dev.is_empty()
    }

    fn measure(&self, model: &DualEncoder, device: &TrainDevice, job: Job<'_>) -> Result<Scores, TrainError> {
        evaluate(model, self.data, self.config, device, job).map(Scores::Retrieval)
    }

    fn export(&self, model: &DualEncoder, out: &Path) -> Result<(), TrainError> {
        export(model, out, &self.name, &self.config.objective)
    }
}
