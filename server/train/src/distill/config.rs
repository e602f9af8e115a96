//! Configuration of a distillation.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::config::{RunOptions, Settings, check_numbers};
use super::super::error::TrainError;
use super::super::optimiser::OptimiserOptions;
use super::super::options::StepOptions;
use dpr_encode::model::WebFormat;

/// A distillation's settings. Paths are taken from the working directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistillConfig {
    /// Teacher and student.
    pub model: DistillModel,
    /// Questions, and passages if any.
    pub data: DistillData,
    /// The objective: what the student is to match of its teacher.
    pub objective: DistillObjective,
    /// Learning rate, schedule and other constants of the optimiser.
    pub optimiser: OptimiserOptions,
    /// Settings of the run: its length, the size of its batches, and the intervals of measurements and checkpoints.
    pub run: RunOptions,
    /// Options of computing a batch.
    pub compute: StepOptions,
}

impl Default for DistillConfig {
    fn default() -> Self {
        Self {
            model: DistillModel::default(),
            data: DistillData::default(),
            objective: DistillObjective::default(),
            optimiser: OptimiserOptions {
                learning_rate: 2e-4,
                warm_up: 100,
                clip: 1.0,
                ..OptimiserOptions::default()
            },
            run: RunOptions { batch_size: 64, epochs: 5, dropout: 0.0, ..RunOptions::default() },
            compute: StepOptions::default(),
        }
    }
}

/// Teacher and student.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistillModel {
    /// The model directory whose question encoder is imitated and whose passage encoder is kept.
    pub teacher: PathBuf,
    /// The model directory whose question encoder the student starts as. Its vectors must have as many numbers as the
    /// teacher's; `dpr import --project` gives it a last layer that ensures this.
    pub start: PathBuf,
    /// Set the student's last layer (`encode_proj`) by least squares before the first step.
    pub fit_projection: bool,
    /// Tokens a question is cut to; the student's when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_question_tokens: Option<usize>,
    /// The number format in which pages will have the student: its weights are rounded to it in every step, so that it
    /// learns to be near its teacher as it is rounded. On the CPU only; its weights are not rounded when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<WebFormat>,
}

impl Default for DistillModel {
    fn default() -> Self {
        Self {
            teacher: PathBuf::new(),
            start: PathBuf::new(),
            fit_projection: true,
            max_question_tokens: None,
            dtype: None,
        }
    }
}

/// The data of a distillation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistillData {
    /// Files of questions, as `dpr search` and `dpr eval` take them; answers are ignored.
    pub questions: Vec<PathBuf>,
    /// Files of questions that measure each epoch; without them some of the questions are held out.
    pub dev: Vec<PathBuf>,
    /// Questions to measure with, at most, drawn by the seed.
    pub dev_questions: usize,
    /// Vectors directories that the teacher made of passages; none for questions alone.
    pub vectors: Vec<PathBuf>,
    /// Passages of these that are used, at most, drawn by the seed.
    pub passages: usize,
    /// The teacher's best passages of each question that the batch is compared on.
    pub passages_per_question: usize,
}

impl Default for DistillData {
    fn default() -> Self {
        Self {
            questions: Vec::new(),
            dev: Vec::new(),
            dev_questions: 500,
            vectors: Vec::new(),
            passages: 20_000,
            passages_per_question: 8,
        }
    }
}

/// The objective: what the student is to match of its teacher.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistillObjective {
    /// Weight of the distance to the teacher's vector.
    pub distance: f64,
    /// Weight of the divergence from the teacher's distribution over passages.
    pub passages: f64,
    /// The temperature that inner products are divided by in these distributions; 1 for models like the paper's,
    /// whose vectors are long.
    pub temperature: f64,
}

impl Default for DistillObjective {
    fn default() -> Self {
        Self { distance: 1.0, passages: 1.0, temperature: 0.05 }
    }
}

impl Settings for DistillConfig {
    fn of_run(&self) -> (&RunOptions, &OptimiserOptions, &StepOptions) {
        (&self.run, &self.optimiser, &self.compute)
    }
}

impl DistillConfig {
    /// Refuses settings that cannot be trained with.
    ///
    /// # Errors
    /// [`TrainError::Setting`] names the setting, its value and what it should be.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |setting, got: &str, expected: &str| {
            Err(TrainError::Setting { setting, got: got.into(), expected: expected.into() })
        };
        for (setting, path) in [("model.teacher", &self.model.teacher), ("model.start", &self.model.start)] {
            if path.as_os_str().is_empty() {
                return bad(setting, "not given", "name a model directory");
            }
        }
        if self.data.questions.is_empty() {
            return bad("data.questions", "empty", "name a file of questions");
        }
        let counts = [
            ("data.dev_questions", self.data.dev_questions),
            ("data.passages", self.data.passages),
            ("data.passages_per_question", self.data.passages_per_question),
        ];
        if let Some((setting, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return bad(setting, "0", "it must be 1 at least");
        }
        let objective = self.objective;
        let weights =
            [("objective.distance", objective.distance), ("objective.passages", objective.passages)];
        if let Some((setting, got)) = weights.into_iter().find(|(_, got)| !(*got >= 0.0 && got.is_finite())) {
            return bad(setting, &got.to_string(), "it must be 0 or above");
        }
        if objective.distance == 0.0 && (objective.passages == 0.0 || self.data.vectors.is_empty()) {
            return bad("objective.distance", "0", "with nothing else to match it must be above 0");
        }
        if !(objective.temperature > 0.0 && objective.temperature.is_finite()) {
            return bad("objective.temperature", &objective.temperature.to_string(), "it must be above 0");
        }
        check_numbers(&self.run, &self.optimiser, &self.compute)
    }
}
