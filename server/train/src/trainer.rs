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
/// [`TrainError`]; [`TrainError::Interrupted`] once `job` is stopped: a checkpoint is then written, unless no step was
/// taken. A checkpoint whose measurement is not finite is removed; the one before it is kept.
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
            self.position = self.load(&last)?;
            let Position { step, best, .. } = self.position;
            if step > self.context.steps {
                let reason = format!("it is of step {step}, and the run has {} steps", self.context.steps);
                return Err(TrainError::Checkpoint { path: last, reason });
            }
            match best {
                // The run may have ended after this checkpoint was written and before its model was exported.
                Some(best) if best.step == step => self.export()?,
                Some(best) if !self.run.best().exists() => {
                    let of_best = self.checkpoint_of(best.step);
                    if of_best.exists() {
                        self.load(&of_best)?;
                        self.export()?;
                        self.load(&last)?;
                    } else {
                        let lost = self.best_lost(best.step);
                        tracing::warn!(
                            "{lost}; unless a later model is better, the run ends with this error"
                        );
                    }
                }
                _ => {}
            }
        }
        self.run.rewind(self.position.step)
    }

    /// Reads a checkpoint and returns its position.
    fn load(&mut self, path: &Path) -> Result<Position, TrainError> {
        let Context { origin, device, .. } = &self.context;
        checkpoint::load(path, &mut self.model, &mut self.optimisers, origin, device)
    }

    /// Writes the model as the best one.
    fn export(&self) -> Result<(), TrainError> {
        self.context.task.export(&self.model, &self.run.best())
    }

    fn work(mut self) -> Result<TrainReport, TrainError> {
        let started = Instant::now();
        let Context { task, options, .. } = self.context;
        if self.position.step == 0 && task.has_dev() && self.run.metrics().is_empty() {
            self.report.at_start = Some(self.measure().map_err(|error| self.stopped(error))?);
        }
        if self.position.unmeasured {
            self.measure_due(true)?;
        }
        self.start_progress();
        while self.position.step < self.context.steps {
            let batches = task.epoch(self.position.epoch);
            self.epoch(&batches)?;
        }
        self.context.job.progress.finish();
        match self.position.best {
            Some(best) if best.step != self.position.step => self.check_best(best.step)?,
            _ if task.has_dev() && self.run.best().exists() => {}
            _ => self.export()?,
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
                return Err(self.stopped(TrainError::Stopped));
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
        let scores = task.measure(&self.model, device, job)?;
        self.run.record(Metric::Dev(DevMetric { step: self.position.step, scores }))?;
        Ok(scores)
    }

    /// Writes a checkpoint where `checkpoint` says so, measures where `measure` says so and there are dev questions,
    /// and exports the model if it is the best so far. The checkpoint is written first, since measuring may take long:
    /// a run that goes on from it makes the measurement that is due.
    fn keep(&mut self, measure: bool, checkpoint: bool) -> Result<(), TrainError> {
        self.position.unmeasured = measure && self.context.task.has_dev();
        if checkpoint {
            self.checkpoint()?;
        }
        if self.position.unmeasured {
            self.context.job.progress.finish();
            self.measure_due(checkpoint)?;
            self.start_progress();
        }
        Ok(())
    }

    /// Measures on the dev questions and exports the model if it is the best so far. `is_kept` says that there is a
    /// checkpoint of this step.
    ///
    /// A checkpoint that names the best model is written before that is exported, and a run that goes on from it
    /// exports it again. So the best model is always the one that the last checkpoint names, whenever the process is
    /// killed: on a GPU the steps after a checkpoint are not repeated to the bit, and a model exported first could
    /// belong to none.
    fn measure_due(&mut self, is_kept: bool) -> Result<(), TrainError> {
        let step = self.position.step;
        // The checkpoint of a step may be older than the scores that are recorded of it.
        let recorded = self.run.metrics().iter().find_map(|metric| match metric {
            Metric::Dev(dev) if dev.step == step => Some(dev.scores),
            _ => None,
        });
        let measured = match recorded {
            Some(scores) => Ok(scores),
            None => self.measure(),
        };
        let scores = match measured {
            Ok(scores) => scores,
            Err(error) => {
                match error {
                    TrainError::Stopped if !is_kept => self.checkpoint()?,
                    // Weights that are not finite are in this checkpoint too: it is removed, so that a run goes on from
                    // the one before.
                    TrainError::NotFinite { .. } if is_kept => {
                        fs_err::remove_dir_all(self.checkpoint_of(step))?;
                    }
                    _ => {}
                }
                return Err(self.stopped(error));
            }
        };
        self.position.unmeasured = false;
        if self.position.best.is_some_and(|best| !scores.is_better_than(&best.scores)) {
            checkpoint::remove_old(&self.run.checkpoints(), self.context.options.keep_checkpoints)?;
            return self.run.draw();
        }
        self.position.best = Some(Best { step, scores });
        self.checkpoint()?;
        self.export()
    }

    /// Returns [`TrainError::Interrupted`] with the step for [`TrainError::Stopped`], any other error as it is.
    fn stopped(&self, error: TrainError) -> TrainError {
        let (step, steps) = (self.position.step, self.context.steps);
        match error {
            TrainError::Stopped => TrainError::Interrupted { step, steps },
            error => error,
        }
    }

    /// Refuses to end without the best model, which is that of an earlier step.
    fn check_best(&self, step: usize) -> Result<(), TrainError> {
        if self.run.best().exists() {
            return Ok(());
        }
        Err(self.best_lost(step))
    }

    /// Returns the error of a best model, that of `step`, that is gone with its checkpoint.
    fn best_lost(&self, step: usize) -> TrainError {
        TrainError::BestLost { best: self.run.best(), checkpoint: self.checkpoint_of(step) }
    }

    /// Writes a checkpoint. Where the dev questions are still to be measured, one more is kept: that before it, until
    /// it is known that the weights are numbers.
    fn checkpoint(&self) -> Result<(), TrainError> {
        let (dir, origin) = (self.run.checkpoints(), &self.context.origin);
        let unmeasured = usize::from(self.position.unmeasured);
        let keep = self.context.options.keep_checkpoints.saturating_add(unmeasured);
        checkpoint::save(&dir, &self.model, &self.optimisers, &self.position, origin, keep)?;
        self.run.draw()
    }

    /// Returns the directory of the checkpoint of a step.
    fn checkpoint_of(&self, step: usize) -> PathBuf {
        checkpoint::path(&self.run.checkpoints(), step)
    }

    fn start_progress(&self) {
        let run = self.context.options;
        let left = (self.context.steps - self.position.step) * run.batch_size * run.accumulate;
        if left > 0 {
            self.context.job.progress.start("training", "questions", left as u64);
        }
    }
}
