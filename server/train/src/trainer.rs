//! Trainer: takes a run from its first step, or from its last checkpoint, to its last step.

use std::path::PathBuf;
use std::time::Instant;

use dpr_core::random::SplitMix;
use serde::Serialize;

use super::checkpoint::{self, Best, Position};
use super::config::RunOptions;
use super::encoders::{DualEncoder, TrainDevice};
use super::error::TrainError;
use super::optimiser::{AdamW, Gradient, OptimiserOptions, norm};
use super::run_dir::{DevMetric, Metric, RunDir, StepMetric};
use super::scores::Scores;
use super::step::{StepNoise, StepOutcome};
use super::task::Task;
use dpr_files::Job;

/// Questions of a batch that an error names.
const NAMED: usize = 3;

/// What a run did.
#[derive(Clone, Debug, Serialize)]
pub struct TrainReport {
    /// Steps taken in all, by earlier processes too.
    pub steps: usize,
    /// Steps taken by this process; the following figures count these only.
    pub steps_now: usize,
    /// Questions seen.
    pub questions: usize,
    /// Seconds, measuring and checkpoints included.
    pub seconds: f64,
    /// Questions a second while training, without measuring and checkpoints.
    pub questions_per_second: f64,
    /// Loss of the last step.
    pub last_loss: Option<f64>,
    /// Dev scores before the first step, where there are dev files and this process took it.
    pub at_start: Option<Scores>,
    /// The best dev scores.
    pub best: Option<Best>,
    /// The model directory with the best weights; without dev files, with the last.
    pub model: PathBuf,
}

/// A run before its first step.
pub(super) struct Setup<'a> {
    /// The run's directory.
    pub(super) run: RunDir,
    /// `true` to continue from the last checkpoint.
    pub(super) resume: bool,
    /// What to train for.
    pub(super) task: &'a dyn Task,
    /// The encoders as they are at the start.
    pub(super) model: DualEncoder,
    /// How long, how large, how often.
    pub(super) options: RunOptions,
    /// Learning rate, schedule and other constants of the optimiser.
    pub(super) optimiser: OptimiserOptions,
    /// A digest of the data and of the models that training starts from.
    pub(super) origin: String,
    /// Steps in all.
    pub(super) steps: usize,
}

/// Takes the steps.
///
/// # Errors
/// [`TrainError`]; [`TrainError::Interrupted`] once `job` is stopped and a checkpoint is written. The last checkpoint is
/// kept in any case.
pub(super) fn run(setup: Setup<'_>, device: &TrainDevice, job: Job<'_>) -> Result<TrainReport, TrainError> {
    let Setup { run, resume, task, model, options, optimiser, origin, steps } = setup;
    let optimisers = model.encoders.iter().map(|encoder| AdamW::new(&encoder.parameters)).collect();
    let position = Position::default();
    let context = Context { options, optimiser, task, device, job, origin, steps };
    let mut trainer = Trainer { context, run, model, optimisers, position, report: Report::default() };
    trainer.go_on(resume)?;
    trainer.work()
}

/// Context that does not change during a run.
struct Context<'a> {
    options: RunOptions,
    optimiser: OptimiserOptions,
    task: &'a dyn Task,
    device: &'a TrainDevice,
    job: Job<'a>,
    origin: String,
    steps: usize,
}

#[derive(Default)]
struct Report {
    steps: usize,
    training_seconds: f64,
    last_loss: Option<f64>,
    at_start: Option<Scores>,
}

struct Trainer<'a> {
    context: Context<'a>,
    run: RunDir,
    model: DualEncoder,
    optimisers: Vec<AdamW>,
    position: Position,
    report: Report,
}

impl Trainer<'_> {
    fn go_on(&mut self, resume: bool) -> Result<(), TrainError> {
        if resume && let Some(last) = checkpoint::list(&self.run.checkpoints())?.pop() {
            let (model, optimisers) = (&mut self.model, &mut self.optimisers);
            self.position =
                checkpoint::load(&last, model, optimisers, &self.context.origin, self.context.device)?;
        }
        self.run.rewind(self.position.step)
    }

    fn work(mut self) -> Result<TrainReport, TrainError> {
        let started = Instant::now();
        let Context { task, options, .. } = self.context;
        if self.position.step == 0 && task.has_dev() && self.run.metrics().is_empty() {
            self.report.at_start = Some(self.measure()?);
        }
        self.start_progress();
        while self.position.step < self.context.steps {
            let batches = task.epoch(self.position.epoch);
            self.epoch(&batches)?;
        }
        self.context.job.progress.finish();
        if !task.has_dev() || !self.run.best().exists() {
            task.export(&self.model, &self.run.best())?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let questions = self.report.steps * options.batch_size * options.accumulate;
        let training = self.report.training_seconds;
        Ok(TrainReport {
            steps: self.position.step,
            steps_now: self.report.steps,
            questions,
            seconds,
            questions_per_second: if training > 0.0 { questions as f64 / training } else { 0.0 },
            last_loss: self.report.last_loss,
            at_start: self.report.at_start,
            best: self.position.best,
            model: self.run.best(),
        })
    }

    /// Trains the rest of the current epoch and ends it.
    fn epoch(&mut self, batches: &[Vec<usize>]) -> Result<(), TrainError> {
        let run = self.context.options;
        while self.position.step < self.context.steps {
            let Some(now) = batches.get(self.position.batch..self.position.batch + run.accumulate) else {
                break;
            };
            if self.context.job.is_stopped() {
                self.checkpoint()?;
                let (step, steps) = (self.position.step, self.context.steps);
                return Err(TrainError::Interrupted { step, steps });
            }
            self.step(now)?;
            let step = self.position.step;
            let is_last = step == self.context.steps;
            let due = |every: usize| every > 0 && step.is_multiple_of(every) && !is_last;
            let is_over = batches.len() - self.position.batch < run.accumulate;
            if due(run.evaluate_every) && !is_over {
                self.measure_and_keep()?;
            }
            if due(run.checkpoint_every) && !is_over {
                self.checkpoint()?;
            }
        }
        if batches.len() - self.position.batch < run.accumulate {
            self.position.epoch += 1;
            self.position.batch = 0;
        }
        self.measure_and_keep()?;
        self.checkpoint()
    }

    fn step(&mut self, batches: &[Vec<usize>]) -> Result<(), TrainError> {
        let started = Instant::now();
        let Context { options: run, optimiser, device, task, .. } = self.context;
        let (mut loss, mut correct, mut questions) = (0.0, 0, 0);
        let mut gradients: Vec<Gradient> = Vec::new();
        for (number, items) in batches.iter().enumerate() {
            let key = [run.seed, self.position.step as u64, number as u64];
            let noise = StepNoise { dropout: run.dropout as f32, seed: SplitMix::keyed(&key).bits() };
            let scale = 1.0 / batches.len() as f32;
            let outcome = task.step(items, self.position.epoch, &self.model, noise, scale, device);
            let outcome: StepOutcome = outcome.map_err(|error| match error {
                TrainError::NotFinite { loss } => self.diverged(format!("the loss became {loss}"), items),
                other => other,
            })?;
            loss += outcome.loss / batches.len() as f64;
            correct += outcome.correct;
            questions += items.len();
            if gradients.is_empty() {
                gradients = outcome.gradients;
            } else {
                for (sum, part) in gradients.iter_mut().flatten().zip(outcome.gradients.iter().flatten()) {
                    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                }
            }
        }
        let length = norm(&gradients);
        if !length.is_finite() {
            let what = "the gradient stopped being a number".to_owned();
            return Err(self.diverged(what, batches.first().map_or(&[], Vec::as_slice)));
        }
        let is_cut = optimiser.clip > 0.0 && length > optimiser.clip;
        let scale = if is_cut { optimiser.clip / (length + 1e-6) } else { 1.0 };
        let taken = self.position.step;
        let rate = optimiser.rate(taken, self.context.steps);
        let encoders = self.model.encoders.iter_mut().zip(&mut self.optimisers);
        for ((encoder, moments), gradient) in encoders.zip(&gradients) {
            let (weights, parameters) = (&mut encoder.weights, &encoder.parameters);
            moments.step(weights, gradient, parameters, &optimiser, rate, taken, scale);
            encoder.upload(device);
        }
        self.position.step += 1;
        self.position.batch += batches.len();
        self.report.steps += 1;
        self.report.last_loss = Some(loss);
        let seconds = started.elapsed().as_secs_f64();
        self.report.training_seconds += seconds;
        self.run.record(Metric::Step(StepMetric {
            step: self.position.step,
            epoch: self.position.epoch + 1,
            loss,
            accuracy: correct as f64 / questions.max(1) as f64,
            gradient: length,
            learning_rate: rate,
            questions_per_second: questions as f64 / seconds,
        }))?;
        self.context.job.progress.detail(&format!("step {}, loss {loss:.3}", self.position.step));
        self.context.job.progress.advance(questions as u64);
        Ok(())
    }

    fn diverged(&self, what: String, items: &[usize]) -> TrainError {
        let questions: Vec<String> = items
            .iter()
            .filter_map(|item| self.context.task.question(*item))
            .take(NAMED)
            .map(|question| format!("{question:?}"))
            .collect();
        let last = checkpoint::list(&self.run.checkpoints()).ok().and_then(|mut list| list.pop());
        let kept = match last {
            Some(path) => format!("the last good checkpoint is {}", path.display()),
            None => "there is no checkpoint yet".to_owned(),
        };
        let questions = format!("{} …", questions.join(", "));
        TrainError::Diverged { what, step: self.position.step + 1, questions, kept }
    }

    /// Measures on the dev questions and records the scores.
    fn measure(&mut self) -> Result<Scores, TrainError> {
        let Context { task, device, job, .. } = self.context;
        let scores = task.measure(&self.model, device, job.progress)?;
        self.run.record(Metric::Dev(DevMetric { step: self.position.step, scores }))?;
        Ok(scores)
    }

    /// Measures, and exports the model if it is the best so far; without dev questions the last one is.
    fn measure_and_keep(&mut self) -> Result<(), TrainError> {
        if !self.context.task.has_dev() {
            return Ok(());
        }
        self.context.job.progress.finish();
        let scores = self.measure()?;
        if self.position.best.is_none_or(|best| scores.is_better_than(&best.scores)) {
            self.position.best = Some(Best { step: self.position.step, scores });
            self.context.task.export(&self.model, &self.run.best())?;
        }
        self.start_progress();
        Ok(())
    }

    fn checkpoint(&self) -> Result<(), TrainError> {
        let (dir, origin) = (self.run.checkpoints(), &self.context.origin);
        let keep = self.context.options.keep_checkpoints;
        checkpoint::save(&dir, &self.model, &self.optimisers, &self.position, origin, keep)?;
        self.run.draw()
    }

    fn start_progress(&self) {
        let run = self.context.options;
        let left = (self.context.steps - self.position.step) * run.batch_size * run.accumulate;
        if left > 0 {
            self.context.job.progress.start("training", "questions", left as u64);
        }
    }
}
