//! Tests of the trainer with a task that computes nothing: steps that do not fit half precision, processes that end
//! between a checkpoint and its best model, and runs that are stopped while they measure.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::DeviceChoice;
use dpr_files::progress::Silent;

use super::super::config::TrainConfig;
use super::super::encoders::TrainedEncoder;
use super::super::evaluate::{DevScores, check_stop};
use super::super::gradient::Gradient;
use super::super::options::Precision;
use super::super::run_dir::Metric;
use super::super::step::{StepNoise, StepOutcome};
use super::super::task::Task;
use super::steps::SKIPPED_IN_A_ROW;
use super::*;

/// The questions, two a batch.
const QUESTIONS: [&str; 8] = ["who 0", "who 1", "who 2", "who 3", "who 4", "who 5", "who 6", "who 7"];

/// A task of 4 batches an epoch, whose model is the number of measurements so far. The gradient of an encoder is 1
/// everywhere.
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
    /// The measurement, counted from 0, during which the run is told to stop.
    stopped_in: Option<usize>,
    /// The measurement, counted from 0, that is not finite.
    diverges_in: Option<usize>,
    /// The first weight of each model that was exported, where it has an encoder.
    weights: RefCell<Vec<f32>>,
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
            stopped_in: None,
            diverges_in: None,
            weights: RefCell::new(Vec::new()),
        }
    }
}

impl Task for Fake {
    fn epoch(&self, _epoch: usize) -> Vec<Vec<usize>> {
        (0..4).map(|batch| vec![2 * batch, 2 * batch + 1]).collect()
    }

    fn step(
        &self,
        _items: &[usize],
        _epoch: usize,
        model: &DualEncoder,
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
            false => {
                let of_encoder = |encoder: &TrainedEncoder| {
                    let ones = encoder.parameters.iter().map(|parameter| vec![1.0; parameter.length()]);
                    Gradient::Host(ones.collect())
                };
                let gradients = model.encoders.iter().map(of_encoder).collect();
                Ok(StepOutcome { loss: 1.0, correct: 1, gradients })
            }
        }
    }

    fn question(&self, item: usize) -> Option<&str> {
        QUESTIONS.get(item).copied()
    }

    fn has_dev(&self) -> bool {
        !self.ranks.is_empty()
    }

    fn measure(
        &self,
        _model: &DualEncoder,
        _device: &TrainDevice,
        job: Job<'_>,
    ) -> Result<Scores, TrainError> {
        let number = self.measured.replace(self.measured.get() + 1);
        job.stop.store(self.stopped_in == Some(number), Ordering::Relaxed);
        check_stop(job)?;
        if self.diverges_in == Some(number) {
            return Err(TrainError::NotFinite { loss: f64::NAN });
        }
        let average_rank = self.ranks[number.min(self.ranks.len() - 1)];
        let scores = DevScores { questions: 1, passages: 9, average_rank, top1: 0.0, top5: 0.0, loss: 1.0 };
        Ok(Scores::Retrieval(scores))
    }

    fn export(&self, model: &DualEncoder, out: &Path) -> Result<(), TrainError> {
        fs_err::write(out, self.measured.get().to_string())?;
        self.weights.borrow_mut().extend(model.encoders.iter().map(|encoder| encoder.weights[0][0]));
        self.exported.borrow_mut().push(self.measured.get());
        match self.ends_after_export == Some(self.measured.get()) {
            true => Err(TrainError::Interrupted { step: 0, steps: 0 }),
            false => Ok(()),
        }
    }
}

/// Returns the settings of 3 epochs.
fn settings(precision: Precision) -> TrainConfig {
    let mut config = TrainConfig::default();
    (config.run.batch_size, config.run.epochs, config.compute.precision) = (2, 3, precision);
    config
}

/// Runs 3 epochs of `task` in `out`.
fn run_in(out: &Path, task: &Fake, precision: Precision, resume: bool) -> Result<TrainReport, TrainError> {
    run_with(out, task, &settings(precision), 12, Vec::new(), resume)
}

/// Runs `steps` of `task` in `out`, with encoders.
fn run_with(
    out: &Path,
    task: &Fake,
    config: &TrainConfig,
    steps: usize,
    encoders: Vec<TrainedEncoder>,
    resume: bool,
) -> Result<TrainReport, TrainError> {
    let device = TrainDevice::open(DeviceChoice::Flex).unwrap();
    let model = DualEncoder { encoders, max_question_tokens: 8, max_passage_tokens: 8 };
    let stop = AtomicBool::new(false);
    let job = Job { stop: &stop, progress: &Silent };
    let origin = "o".to_owned();
    super::run(Setup { config, out, resume, task, model, origin, steps }, &device, job)
}

/// Returns the steps after which the dev questions were measured.
fn measured_after(out: &Path) -> Vec<usize> {
    let metrics = fs_err::read_to_string(out.join("metrics.jsonl")).unwrap();
    let dev = metrics.lines().filter_map(|line| match serde_json::from_str::<Metric>(line).unwrap() {
        Metric::Dev(dev) => Some(dev.step),
        Metric::Step(_) | Metric::Skipped(_) => None,
    });
    dev.collect()
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

#[test]
fn a_run_that_is_stopped_while_it_measures_keeps_its_steps_and_measures_once_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let state =
        |step: usize| fs_err::read_to_string(out.join(format!("checkpoints/step-{step:07}/state.json")));
    // Measurement 0 is at the start; measurement 1, after the first epoch, is stopped.
    let mut task = Fake::new(|_| false, &[20.0, 10.0]);
    task.stopped_in = Some(1);
    let error = run_in(&out, &task, Precision::F32, false).unwrap_err();
    assert!(matches!(error, TrainError::Interrupted { step: 4, steps: 12 }), "{error}");
    assert!(state(4).unwrap().contains("\"unmeasured\": true"));
    assert_eq!(measured_after(&out), [0]);
    // Stopped again in the measurement that is due, and then not.
    let mut again = Fake::new(|_| false, &[10.0]);
    again.stopped_in = Some(0);
    let error = run_in(&out, &again, Precision::F32, true).unwrap_err();
    assert!(matches!(error, TrainError::Interrupted { step: 4, .. }), "{error}");
    let last = Fake::new(|_| false, &[10.0, 11.0, 12.0]);
    let report = run_in(&out, &last, Precision::F32, true).unwrap();
    assert_eq!((report.steps, report.steps_now, report.best.unwrap().step), (12, 8, 4));
    assert_eq!((measured_after(&out), last.measured.get()), (vec![0, 4, 8, 12], 3));
    // The last checkpoint is older than its measurement, which is not made again.
    assert!(state(12).unwrap().contains("\"unmeasured\": true"));
    let whole = Fake::new(|_| false, &[1.0]);
    assert_eq!(run_in(&out, &whole, Precision::F32, true).unwrap().best.unwrap().step, 4);
    assert_eq!((whole.measured.get(), measured_after(&out)), (0, vec![0, 4, 8, 12]));
    let kept = super::checkpoint::list(&out.join("checkpoints")).unwrap();
    assert_eq!(kept.len(), 2, "{kept:?}");
}

#[test]
fn a_checkpoint_whose_measurement_is_not_finite_is_removed_and_the_run_goes_on_from_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let kept = || super::checkpoint::list(&out.join("checkpoints")).unwrap();
    // Measurement 0 is at the start; measurement 2, after the second epoch, is not finite.
    let mut task = Fake::new(|_| false, &[20.0, 10.0]);
    task.diverges_in = Some(2);
    let error = run_in(&out, &task, Precision::F32, false).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { .. }), "{error}");
    assert_eq!(kept(), [out.join("checkpoints/step-0000004")]);
    let again = Fake::new(|_| false, &[9.0, 8.0]);
    let report = run_in(&out, &again, Precision::F32, true).unwrap();
    assert_eq!((report.steps, report.steps_now, report.best.unwrap().step), (12, 8, 12));
    assert_eq!(measured_after(&out), [0, 4, 8, 12]);
    // The measurement that is due when a run goes on may be it, too.
    let out = dir.path().join("due");
    let kept = || super::checkpoint::list(&out.join("checkpoints")).unwrap();
    let mut task = Fake::new(|_| false, &[20.0, 10.0]);
    task.stopped_in = Some(2);
    run_in(&out, &task, Precision::F32, false).unwrap_err();
    assert_eq!(kept(), [4, 8].map(|step| out.join(format!("checkpoints/step-{step:07}"))));
    let mut due = Fake::new(|_| false, &[20.0]);
    due.diverges_in = Some(0);
    run_in(&out, &due, Precision::F32, true).unwrap_err();
    assert_eq!(kept(), [out.join("checkpoints/step-0000004")]);
}

#[test]
fn a_checkpoint_of_a_run_without_the_field_of_a_measurement_that_is_due_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    run_in(&out, &Fake::new(|_| false, &[20.0, 10.0]), Precision::F32, false).unwrap();
    for path in super::checkpoint::list(&out.join("checkpoints")).unwrap() {
        let state = fs_err::read_to_string(path.join("state.json")).unwrap();
        let mut state: serde_json::Value = serde_json::from_str(&state).unwrap();
        state["position"].as_object_mut().unwrap().remove("unmeasured").unwrap();
        fs_err::write(path.join("state.json"), state.to_string()).unwrap();
    }
    let again = Fake::new(|_| false, &[1.0]);
    run_in(&out, &again, Precision::F32, true).unwrap();
    assert_eq!(again.measured.get(), 0);
}

/// Returns an encoder of the fixtures.
fn encoder() -> TrainedEncoder {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/dpr-tiny/question"));
    TrainedEncoder::load(dir, 16, &TrainDevice::open(DeviceChoice::Flex).unwrap()).unwrap()
}

#[test]
fn a_best_model_that_was_removed_is_written_again_from_its_checkpoint_and_never_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut config = settings(Precision::F32);
    (config.run.keep_checkpoints, config.optimiser.warm_up, config.optimiser.learning_rate) = (3, 0, 1e-2);
    let run = |task: &Fake, resume| run_with(&out, task, &config, 12, vec![encoder()], resume);
    let task = Fake::new(|_| false, &[20.0, 10.0, 15.0]);
    run(&task, false).unwrap();
    assert_eq!(*task.exported.borrow(), [2], "after the first epoch");
    fs_err::remove_file(out.join("best")).unwrap();
    let again = Fake::new(|_| false, &[1.0]);
    let report = run(&again, true).unwrap();
    assert_eq!((report.steps, report.best.unwrap().step, again.measured.get()), (12, 4, 0));
    assert_eq!(*again.weights.borrow(), *task.weights.borrow(), "the weights after step 4");
    // Without its checkpoint there is nothing to write it from.
    fs_err::remove_file(out.join("best")).unwrap();
    fs_err::remove_dir_all(out.join("checkpoints/step-0000004")).unwrap();
    let error = run(&Fake::new(|_| false, &[1.0]), true).unwrap_err();
    assert!(error.to_string().contains("step-0000004, which holds the best weights"), "{error}");
    assert!(!out.join("best").exists());
}

#[test]
fn a_checkpoint_beyond_the_steps_of_the_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let task = Fake::new(|_| false, &[]);
    run_in(&out, &task, Precision::F32, false).unwrap();
    let error = run_with(&out, &task, &settings(Precision::F32), 8, Vec::new(), true).unwrap_err();
    assert!(error.to_string().contains("it is of step 12, and the run has 8 steps"), "{error}");
}

#[test]
fn of_batches_that_are_added_up_the_one_at_fault_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = settings(Precision::F32);
    config.run.accumulate = 2;
    // The second batch of the first step, whose gradient is infinite.
    let task = Fake::new(|step| step == 1, &[]);
    let error = run_with(&dir.path().join("run"), &task, &config, 6, Vec::new(), false).unwrap_err();
    let error = error.to_string();
    let named = "stopped being a number at step 1, on the questions \"who 2\", \"who 3\"";
    assert!(error.contains(named), "{error}");
}
