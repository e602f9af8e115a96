//! Steps of a run: gradients of a few batches, and the change of the weights that they make.

use std::time::Instant;

use dpr_core::random::SplitMix;

use super::super::checkpoint;
use super::super::error::TrainError;
use super::super::gradient::{Gradient, norm};
use super::super::optimiser::Update;
use super::super::options::Precision;
use super::super::run_dir::{Metric, SkippedMetric, StepMetric};
use super::super::step::{StepNoise, StepOutcome};
use super::{Context, Trainer};

/// Questions of a batch that an error names.
const NAMED: usize = 3;

/// The message for a gradient that is infinite or NaN.
const NOT_A_NUMBER: &str = "the gradient stopped being a number";

/// Steps one after another that may be skipped in half precision: more are no odd batches, but a run that diverged.
pub(super) const SKIPPED_IN_A_ROW: usize = 20;

/// Loss and gradient of a step's batches.
struct Computed {
    loss: f64,
    correct: usize,
    questions: usize,
    gradients: Vec<Gradient>,
    /// The norm of all gradients.
    length: f64,
}

/// The loss or the gradient of a batch that is not a number.
struct NotFinite<'a> {
    what: String,
    items: &'a [usize],
}

impl Trainer<'_> {
    /// Takes a step. One whose numbers do not fit half precision changes no weight, as with PyTorch's `GradScaler`; it
    /// counts as a step of the schedule, but not as one of the optimiser.
    pub(super) fn step(&mut self, batches: &[Vec<usize>]) -> Result<(), TrainError> {
        let started = Instant::now();
        match self.compute(batches)? {
            Ok(computed) => self.update(computed, batches.len(), started),
            Err(_)
                if self.context.precision == Precision::F16
                    && self.position.skipped_in_a_row < SKIPPED_IN_A_ROW =>
            {
                self.skip(batches)
            }
            Err(NotFinite { what, items }) => Err(self.diverged(what, items)),
        }
    }

    fn compute<'b>(&self, batches: &'b [Vec<usize>]) -> Result<Result<Computed, NotFinite<'b>>, TrainError> {
        let Context { options: run, device, task, .. } = self.context;
        let (mut loss, mut correct, mut questions) = (0.0, 0, 0);
        let mut gradients: Vec<Gradient> = Vec::new();
        for (number, items) in batches.iter().enumerate() {
            let key = [run.seed, self.position.step as u64, number as u64];
            let noise = StepNoise { dropout: run.dropout as f32, seed: SplitMix::keyed(&key).bits() };
            let scale = 1.0 / batches.len() as f32;
            let outcome = task.step(items, self.position.epoch, &self.model, noise, scale, device);
            let outcome: StepOutcome = match outcome {
                Ok(outcome) => outcome,
                Err(TrainError::NotFinite { loss }) => {
                    return Ok(Err(NotFinite { what: format!("the loss became {loss}"), items }));
                }
                Err(error) => return Err(error),
            };
            // Checked for each batch, since the sum does not show which batch is at fault.
            if batches.len() > 1 && !norm(&outcome.gradients)?.is_finite() {
                return Ok(Err(NotFinite { what: NOT_A_NUMBER.to_owned(), items }));
            }
            loss += outcome.loss / batches.len() as f64;
            correct += outcome.correct;
            questions += items.len();
            if gradients.is_empty() {
                gradients = outcome.gradients;
            } else {
                for (sum, part) in gradients.iter_mut().zip(outcome.gradients) {
                    sum.add(part)?;
                }
            }
        }
        let length = norm(&gradients)?;
        if !length.is_finite() {
            let items = batches.first().map_or(&[][..], Vec::as_slice);
            return Ok(Err(NotFinite { what: NOT_A_NUMBER.to_owned(), items }));
        }
        Ok(Ok(Computed { loss, correct, questions, gradients, length }))
    }

    /// Changes the weights and records the step.
    fn update(&mut self, computed: Computed, batches: usize, started: Instant) -> Result<(), TrainError> {
        let Computed { loss, correct, questions, gradients, length } = computed;
        let Context { optimiser, device, .. } = self.context;
        let is_cut = optimiser.clip > 0.0 && length > optimiser.clip;
        let scale = if is_cut { optimiser.clip / (length + 1e-6) } else { 1.0 };
        let rate = optimiser.rate(self.position.step, self.context.steps);
        let taken = self.position.step - self.position.skipped;
        let update = Update { options: &optimiser, rate, taken, scale };
        let encoders = self.model.encoders.iter_mut().zip(&mut self.optimisers);
        for ((encoder, moments), gradient) in encoders.zip(gradients) {
            moments.step(encoder, gradient, &update, device)?;
        }
        self.position.skipped_in_a_row = 0;
        self.advance(batches);
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

    fn skip(&mut self, batches: &[Vec<usize>]) -> Result<(), TrainError> {
        self.position.skipped += 1;
        self.position.skipped_in_a_row += 1;
        self.advance(batches.len());
        let step = self.position.step;
        self.run.record(Metric::Skipped(SkippedMetric {
            step,
            epoch: self.position.epoch + 1,
            in_a_row: self.position.skipped_in_a_row,
        }))?;
        self.context.job.progress.detail(&format!("step {step} does not fit half precision and is skipped"));
        self.context.job.progress.advance(batches.iter().map(Vec::len).sum::<usize>() as u64);
        Ok(())
    }

    fn advance(&mut self, batches: usize) {
        self.position.step += 1;
        self.position.batch += batches;
        self.report.steps += 1;
    }

    fn diverged(&self, what: String, items: &[usize]) -> TrainError {
        let what = match self.position.skipped_in_a_row {
            0 => what,
            skipped => {
                format!("after {skipped} steps one after another that did not fit half precision, {what}")
            }
        };
        let questions: Vec<String> = items
            .iter()
            .filter_map(|item| self.context.task.question(*item))
            .take(NAMED)
            .map(|question| format!("{question:?}"))
            .collect();
        let last = checkpoint::list(&self.run.checkpoints()).ok().and_then(|mut list| list.pop());
        let kept = match last {
            Some(path) => format!("the last good checkpoint is {}", path.display()),
            None => "the run has written no checkpoint".to_owned(),
        };
        let questions = format!("{} …", questions.join(", "));
        TrainError::Diverged { what, step: self.position.step + 1, questions, kept }
    }
}
