//! Preparation of a run: everything is read and checked before the first step, and a dry run tries the largest batch.

use std::time::Instant;

use dpr_core::model::sha256_hex;
use serde::Serialize;

use super::config::TrainConfig;
use super::data::TrainingData;
use super::encoders::{DualEncoder, TrainDevice, Weights};
use super::epochs::Steps;
use super::error::TrainError;
use super::optimiser::OptimiserOptions;
use super::sampler::Sampler;
use super::start::{check_start, similarity_note};
use super::step::{StepNoise, step};
use super::teacher::Teacher;
use dpr_encode::model::ModelDir;

/// Data and encoders, read and checked.
pub struct Prepared {
    /// The training and dev items.
    pub data: TrainingData,
    /// The encoders as they are at the start.
    pub model: DualEncoder,
    /// The teacher of the passages' scores, if there is one.
    pub(super) teacher: Option<Teacher>,
    /// A name for people, from the model that training starts from.
    pub name: String,
    /// A digest of the data, of the model that training starts from and of its teacher: a run continues only with the
    /// same digest.
    pub origin: String,
    /// Steps in an epoch.
    pub steps_per_epoch: usize,
    /// Steps in all.
    pub steps: usize,
    /// Notes about the data: not errors, but worth knowing.
    pub notes: Vec<String>,
}

impl Prepared {
    /// Reads what `config` names. The data is read first, so that its errors show before a model is loaded.
    ///
    /// # Errors
    /// [`TrainError`] names the setting, the file and item, or the model that cannot be used.
    pub fn new(config: &TrainConfig, device: &TrainDevice) -> Result<Self, TrainError> {
        config.check()?;
        device.check(config.compute.precision)?;
        let data = TrainingData::read(&config.data, config.run.seed)?;
        let Steps { per_epoch: steps_per_epoch, all: steps } = Steps::of(data.train.seen(), &config.run)?;

        let dir = ModelDir::open(&config.model.start)?;
        check_start(config, &dir)?;
        let options = &config.model;
        let limits = (options.max_question_tokens, options.max_passage_tokens);
        let mut model = DualEncoder::load(&dir, options.encoders, limits.0, limits.1, device)?;
        for (number, encoder) in model.encoders.iter_mut().enumerate() {
            if options.weights == Weights::Random {
                encoder.randomise(config.run.seed.wrapping_add(number as u64), device);
            }
            if options.freeze_embeddings {
                encoder.freeze_embeddings();
            }
        }
        let (name, fingerprint) = (dir.manifest().name.clone(), &dir.manifest().fingerprint);
        let teacher = Teacher::of(config.model.teacher.as_deref(), device)?;
        let mut origin = format!("{} {fingerprint}", data.sha256());
        if let Some(teacher) = &teacher {
            origin += &format!(" {}", teacher.fingerprint);
        }
        let origin = sha256_hex(origin.as_bytes());
        let mut prepared =
            Self { data, model, teacher, name, origin, steps_per_epoch, steps, notes: Vec::new() };
        prepared.notes = prepared.notes(config);
        prepared.notes.extend(similarity_note(config, dir.manifest()));
        Ok(prepared)
    }

    fn notes(&self, config: &TrainConfig) -> Vec<String> {
        let mut notes = shared_notes(self.data.overlap, self.data.dev.len(), &config.optimiser, self.steps);
        if self.model.has_unit_length() && config.objective.temperature > 0.5 {
            notes.push(
                "vectors have length 1, so that scores differ by 2 at most: a temperature of 0.05 or so trains faster"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Refuses what [`Prepared::new`] would refuse of the device, the model and the files that `config` names, before there
/// is the training file that is mined for at most `mined` questions. No weights but a teacher's are read.
///
/// # Errors
/// [`TrainError`] as from [`Prepared::new`]; [`TrainConfig::check`] is for the settings by themselves.
pub fn check_before_mining(
    config: &TrainConfig,
    mined: usize,
    device: &TrainDevice,
) -> Result<(), TrainError> {
    device.check(config.compute.precision)?;
    check_start(config, &ModelDir::open(&config.model.start)?)?;
    Teacher::of(config.model.teacher.as_deref(), device)?;
    let data = TrainingData::read(&config.data, config.run.seed)?;
    Steps::of(data.train.seen() + mined, &config.run)?;
    Ok(())
}

/// Returns the notes that runs of all kinds have: about dev questions that are trained on, and a warm-up that does not
/// end.
pub(super) fn shared_notes(
    overlap: usize,
    dev: usize,
    optimiser: &OptimiserOptions,
    steps: usize,
) -> Vec<String> {
    let mut notes = Vec::new();
    if overlap > 0 {
        notes.push(format!(
            "{overlap} of {dev} dev questions are training questions too: what is measured on them is too good"
        ));
    }
    if optimiser.warm_up >= steps {
        notes.push(format!(
            "the warm-up takes {} steps and the run {steps}: the learning rate never reaches {}",
            optimiser.warm_up, optimiser.learning_rate
        ));
    }
    notes
}

/// The result of `--dry-run`.
#[derive(Clone, Debug, Serialize)]
pub struct DryRun {
    /// Training questions.
    pub questions: usize,
    /// Dev questions.
    pub dev_questions: usize,
    /// Distinct passages.
    pub passages: usize,
    /// Steps in an epoch.
    pub steps_per_epoch: usize,
    /// Steps in all.
    pub steps: usize,
    /// Numbers that are trained.
    pub parameters: usize,
    /// Texts and tokens, padding left out, of the batch of longest passages.
    pub batch_texts: usize,
    /// As above.
    pub batch_tokens: usize,
    /// Loss of that batch.
    pub loss: f64,
    /// Seconds that it took, forwards and backwards.
    pub seconds: f64,
    /// The process's largest memory so far, in bytes; `None` where the system does not say.
    pub peak_memory: Option<u64>,
    /// Notes about the data: not errors, but worth knowing.
    pub notes: Vec<String>,
}

/// Reads everything and computes the batch of longest passages once, changing nothing.
///
/// # Errors
/// [`TrainError`] as a run would return it before its first step.
pub fn dry_run(config: &TrainConfig, device: &TrainDevice) -> Result<DryRun, TrainError> {
    let Prepared { data, model, teacher, steps_per_epoch, steps, notes, .. } = Prepared::new(config, device)?;
    let sampler = Sampler::new(&data, &config.data, &config.run)?.taught_by(teacher.as_ref());
    let batch = sampler.compose(&sampler.longest(), 0, &model)?;
    let started = Instant::now();
    let noise = StepNoise { dropout: config.run.dropout as f32, seed: config.run.seed };
    let outcome = step(&model, &batch, &config.objective, &config.compute, noise, 1.0, device)?;
    let texts = || batch.questions.iter().chain(&batch.passages);
    Ok(DryRun {
        questions: data.items().count(),
        dev_questions: data.dev.len(),
        passages: data.pool.len(),
        steps_per_epoch,
        steps,
        parameters: trained_numbers(&model),
        batch_texts: texts().count(),
        batch_tokens: texts().map(Vec::len).sum(),
        loss: outcome.loss,
        seconds: started.elapsed().as_secs_f64(),
        peak_memory: peak_memory(),
        notes,
    })
}

/// Returns the number of numbers that are trained.
pub(super) fn trained_numbers(model: &DualEncoder) -> usize {
    let parameters =
        model.encoders.iter().flat_map(|encoder| encoder.parameters.iter().zip(&encoder.trained));
    parameters.filter(|(_, trained)| **trained).map(|(parameter, _)| parameter.length()).sum()
}

/// Returns the process's largest resident memory in bytes, on Linux.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
