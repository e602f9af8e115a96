//! Trainer: takes a run from its first step, or from its last checkpoint, to its last step.

mod steps;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::checkpoint::{self, Best, Position};
use super::config::{RunOptions, Settings};
use super::encoders::{DualEncoder, TrainDevice};
use super::error::TrainError;
use super::optimiser::{AdamW, OptimiserOptions};
use super::options::Precision;
use super::run_dir::{DevMetric, Metric, RunDir};
use super::scores::Scores;
use super::task::Task;
use dpr_files::Job;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TrainReport {
    /// Steps taken in all, by earlier processes too.
    pub steps: usize,
    /// Steps taken by this process; the following figures count these only.
    pub steps_now: usize,
    /// Steps in all that were skipped because they did not fit half precision.
    pub skipped: usize,
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
pub(super) struct Setup<'a, C> {
    /// Its settings.
    pub(super) config: &'a C,
    /// The run's directory.
    pub(super) out: &'a Path,
    /// `true` to continue from the last checkpoint.
    pub(super) resume: bool,
    /// The task that it trains for.
    pub(super) task: &'a dyn Task,
    /// The encoders as they are at the start.
    pub(super) model: DualEncoder,
    /// A digest of the data and of the models that training starts from.
    pub(super) origin: String,
    /// Steps in all.
    pub(super) steps: usize,
}

/// Begins the run, or goes on with it, and takes the steps.
///
/// # Errors
/// [`TrainError`]; [`TrainError::Interrupted`] once `job` is stopped and a checkpoint is written. The last checkpoint
/// is kept in any case.
pub(super) fn run<C: Settings>(
    setup: Setup<'_, C>,
    device: &TrainDevice,
    job: Job<'_>,
) -> Result<TrainReport, TrainError> {
    let Setup { config, out, resume, task, model, origin, steps } = setup;
    let run = if resume { RunDir::resume(out, config)? } else { RunDir::begin(out, config)? };
    let (options, optimiser, compute) = config.of_run();
    let optimisers = model.encoders.iter().map(|encoder| AdamW::new(&encoder.parameters)).collect();
    let position = Position::default();
    let (options, optimiser, precision) = (*options, *optimiser, compute.precision);
    let context = Context { options, optimiser, precision, task, device, job, origin, steps };
    let mut trainer = Trainer { context, run, model, optimisers, position, report: Report::default() };
    trainer.go_on(resume)?;
    trainer.work()
}

/// Context that does not change during a run.
struct Context<'a> {
    options: RunOptions,
    optimiser: OptimiserOptions,
    precision: Precision,
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
            // The run may have ended after this checkpoint was written and before its model was exported.
            if self.position.best.is_some_and(|best| best.step == self.position.step) {
                self.context.task.export(&self.model, &self.run.best())?;
            }
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
            skipped: self.position.skipped,
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
            if !is_over {
                self.keep(due(run.evaluate_every), due(run.checkpoint_every))?;
            }
        }
        if batches.len() - self.position.batch < run.accumulate {
            self.position.epoch += 1;
            self.position.batch = 0;
        }
        self.keep(true, true)
    }

    /// Measures on the dev questions and records the scores.
    fn measure(&mut self) -> Result<Scores, TrainError> {
        let Context { task, device, job, .. } = self.context;
        let scores = task.measure(&self.model, device, job.progress)?;
        self.run.record(Metric::Dev(DevMetric { step: self.position.step, scores }))?;
        Ok(scores)
    }

    /// Measures where `measure` says so and there are dev questions, writes a checkpoint where `checkpoint` says so,
    /// and exports the model if it is the best so far.
    ///
    /// A checkpoint that names the best model is written before that is exported, and a run that goes on from it
    /// exports it again. So the best model is always the one that the last checkpoint names, whenever the process is
    /// killed: on a GPU the steps after a checkpoint are not repeated to the bit, and a model exported first could
    /// belong to none.
    fn keep(&mut self, measure: bool, checkpoint: bool) -> Result<(), TrainError> {
        let mut is_best = false;
        if measure && self.context.task.has_dev() {
            self.context.job.progress.finish();
            let scores = self.measure()?;
            is_best = self.position.best.is_none_or(|best| scores.is_better_than(&best.scores));
            if is_best {
                self.position.best = Some(Best { step: self.position.step, scores });
            }
        }
        if checkpoint || is_best {
            self.checkpoint()?;
        }
        if is_best {
            self.context.task.export(&self.model, &self.run.best())?;
        }
        if measure && self.context.task.has_dev() {
            self.start_progress();
        }
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
