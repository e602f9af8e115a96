//! Tests of the trainer with a task that computes nothing: steps that do not fit half precision, and processes that end
//! between a checkpoint and its best model.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dpr_core::DeviceChoice;
use dpr_files::progress::{Progress, Silent};

use super::super::config::TrainConfig;
use super::super::evaluate::DevScores;
use super::super::gradient::Gradient;
use super::super::options::Precision;
use super::super::run_dir::Metric;
use super::super::step::{StepNoise, StepOutcome};
use super::super::task::Task;
use super::steps::SKIPPED_IN_A_ROW;
use super::*;

/// A task of 4 batches an epoch, whose model is the number of measurements so far.
struct Fake {
    /// Returns whether the loss of a step overflows to NaN; steps are counted from 0, those of every call included.
    overflows: fn(usize) -> bool,
    /// The average ranks that are measured, one after another.
    ranks: Vec<f64>,
    steps: Cell<usize>,
    measured: Cell<usize>,
    /// The measurement whose export the process does not survive: its files are whole, and nothing follows.
    ends_after_export: Option<usize>,
    exported: RefCell<Vec<usize>>,
}

impl Fake {
    fn new(overflows: fn(usize) -> bool, ranks: &[f64]) -> Self {
        Self {
            overflows,
            ranks: ranks.to_vec(),
            steps: Cell::new(0),
            measured: Cell::new(0),
            ends_after_export: None,
            exported: RefCell::new(Vec::new()),
        }
    }
}

impl Task for Fake {
    fn epoch(&self, _epoch: usize) -> Vec<Vec<usize>> {
        vec![vec![0, 1]; 4]
    }

    fn step(
        &self,
        _items: &[usize],
        _epoch: usize,
        _model: &DualEncoder,
        _noise: StepNoise,
        _scale: f32,
        _device: &TrainDevice,
    ) -> Result<StepOutcome, TrainError> {
        let step = self.steps.replace(self.steps.get() + 1);
        match (self.overflows)(step) {
            // Forwards and backwards by turns.
            true if step.is_multiple_of(2) => Err(TrainError::NotFinite { loss: f64::NAN }),
            true => {
                let gradients = vec![Gradient::Host(vec![vec![f32::INFINITY]])];
                Ok(StepOutcome { loss: 1.0, correct: 0, gradients })
            }
            false => Ok(StepOutcome { loss: 1.0, correct: 1, gradients: Vec::new() }),
        }
    }

    fn question(&self, _item: usize) -> Option<&str> {
        Some("who?")
    }

    fn has_dev(&self) -> bool {
        !self.ranks.is_empty()
    }

    fn measure(
        &self,
        _model: &DualEncoder,
        _device: &TrainDevice,
        _progress: &dyn Progress,
    ) -> Result<Scores, TrainError> {
        let number = self.measured.replace(self.measured.get() + 1);
        let average_rank = self.ranks[number.min(self.ranks.len() - 1)];
        let scores = DevScores { questions: 1, passages: 9, average_rank, top1: 0.0, top5: 0.0, loss: 1.0 };
        Ok(Scores::Retrieval(scores))
    }

    fn export(&self, _model: &DualEncoder, out: &Path) -> Result<(), TrainError> {
        fs_err::write(out, self.measured.get().to_string())?;
        self.exported.borrow_mut().push(self.measured.get());
        match self.ends_after_export == Some(self.measured.get()) {
            true => Err(TrainError::Interrupted { step: 0, steps: 0 }),
            false => Ok(()),
        }
    }
}

/// Runs 3 epochs of `task` in `out`.
fn run_in(out: &Path, task: &Fake, precision: Precision, resume: bool) -> Result<TrainReport, TrainError> {
    let device = TrainDevice::open(DeviceChoice::Flex).unwrap();
    let mut config = TrainConfig::default();
    (config.run.batch_size, config.run.epochs, config.compute.precision) = (2, 3, precision);
    let model = DualEncoder { encoders: Vec::new(), max_question_tokens: 8, max_passage_tokens: 8 };
    let stop = AtomicBool::new(false);
    let job = Job { stop: &stop, progress: &Silent };
    let origin = "o".to_owned();
    super::run(Setup { config: &config, out, resume, task, model, origin, steps: 12 }, &device, job)
}

#[test]
fn steps_that_do_not_fit_half_precision_are_skipped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let task = Fake::new(|step| [1, 4, 5].contains(&step), &[]);
    let report = run_in(&out, &task, Precision::F16, false).unwrap();
    assert_eq!((report.steps, report.skipped), (12, 3));
    let metrics = fs_err::read_to_string(out.join("metrics.jsonl")).unwrap();
    let metrics: Vec<Metric> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let skipped: Vec<_> = metrics
        .iter()
        .filter_map(|metric| match metric {
            Metric::Skipped(metric) => Some((metric.step, metric.in_a_row)),
            _ => None,
        })
        .collect();
    assert_eq!(skipped, [(2, 1), (5, 1), (6, 2)]);
    assert_eq!(metrics.len(), 12);
}

#[test]
fn a_run_whose_every_step_overflows_ends() {
    let dir = tempfile::tempdir().unwrap();
    let error = run_in(&dir.path().join("f32"), &Fake::new(|step| step == 3, &[]), Precision::F32, false);
    let error = error.unwrap_err();
    assert!(
        matches!(&error, TrainError::Diverged { step: 4, .. }),
        "single precision skips nothing: {error}"
    );
    // 12 steps are fewer than are borne; a resumed run remembers them.
    let out = dir.path().join("f16");
    assert_eq!(run_in(&out, &Fake::new(|_| true, &[]), Precision::F16, false).unwrap().skipped, 12);
    const { assert!(SKIPPED_IN_A_ROW > 12) };
    let last = super::checkpoint::list(&out.join("checkpoints")).unwrap().pop().unwrap();
    let state = fs_err::read_to_string(last.join("state.json")).unwrap();
    let few = state.replace("\"step\": 12", "\"step\": 2").replace("\"epoch\": 3", "\"epoch\": 0");
    let many = few.replace("\"skipped_in_a_row\": 12", &format!("\"skipped_in_a_row\": {SKIPPED_IN_A_ROW}"));
    assert_ne!(many, few);
    fs_err::write(last.join("state.json"), many.replace("\"skipped\": 12", "\"skipped\": 2")).unwrap();
    let error = run_in(&out, &Fake::new(|_| true, &[]), Precision::F16, true).unwrap_err();
    assert!(error.to_string().contains("20 steps one after another"), "{error}");
}

#[test]
fn the_best_model_is_the_one_that_the_checkpoint_names_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    // At the start 20, then 10, then 5, whose model is written when the process ends.
    let mut task = Fake::new(|_| false, &[20.0, 10.0, 5.0]);
    task.ends_after_export = Some(3);
    run_in(&out, &task, Precision::F32, false).unwrap_err();
    assert_eq!(*task.exported.borrow(), [2, 3]);
    // The steps that are run again on a GPU may find less.
    let again = Fake::new(|_| false, &[12.0, 11.0]);
    let report = run_in(&out, &again, Precision::F32, true).unwrap();
    let best = report.best.unwrap();
    let Scores::Retrieval(scores) = best.scores else { panic!() };
    assert_eq!((best.step, scores.average_rank), (8, 5.0), "the model in best/ is the third");
}

#[test]
fn a_best_model_that_was_not_written_is_written_when_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut task = Fake::new(|_| false, &[20.0, 10.0]);
    task.ends_after_export = Some(2);
    run_in(&out, &task, Precision::F32, false).unwrap_err();
    fs_err::remove_file(out.join("best")).unwrap();
    let again = Fake::new(|_| false, &[30.0]);
    run_in(&out, &again, Precision::F32, true).unwrap();
    assert_eq!(*again.exported.borrow(), [0], "once, before any step");
    assert!(out.join("best").exists());
}
