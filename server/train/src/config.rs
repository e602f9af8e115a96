//! Configuration of a training run: a TOML file whose defaults are the paper's settings.

mod data;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::encoders::Weights;
use super::error::TrainError;
use super::objective::Objective;
use super::optimiser::OptimiserOptions;
use super::options::StepOptions;
use super::sharing::Sharing;
pub use data::{DataFile, DataOptions, NegativeCounts, Negatives};

/// A run's settings. Paths are taken from the working directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The task: `retrieval`, the encoders of questions and passages. [`PairConfig`](super::PairConfig) has the
    /// settings of the other tasks.
    #[serde(skip_serializing_if = "is_default")]
    pub task: RetrievalTask,
    /// The model that training starts from.
    pub model: ModelOptions,
    /// Training files and dev files.
    pub data: DataOptions,
    /// Similarity and loss.
    pub objective: Objective,
    /// Learning rate, schedule and other constants of the optimiser.
    pub optimiser: OptimiserOptions,
    /// Settings of the run: its length, the size of its batches, and the intervals of measurements and checkpoints.
    pub run: RunOptions,
    /// Options of computing a batch.
    pub compute: StepOptions,
}

/// The task of a [`TrainConfig`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrievalTask {
    /// Training of encoders.
    #[default]
    Retrieval,
}

/// Runs that were begun when there was one task have no name of it in their files.
fn is_default(task: &RetrievalTask) -> bool {
    *task == RetrievalTask::default()
}

/// Options of the model that training starts from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptions {
    /// A model directory, as `dpr import` writes it.
    pub start: PathBuf,
    /// `keep`, `separate` (two, as in the paper) or `shared`.
    pub encoders: Sharing,
    /// `given`, or `random` to train from nothing.
    pub weights: Weights,
    /// Leave the embeddings as they are.
    pub freeze_embeddings: bool,
    /// Tokens a question is cut to; the model's when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_question_tokens: Option<usize>,
    /// Tokens a passage is cut to; the model's when not given (256 in the paper).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_passage_tokens: Option<usize>,
    /// The model directory of a cross-encoder, or of a reader with a selection layer, whose scores of the passages that
    /// a question brings the encoders learn beside the labels; none by default, as in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<PathBuf>,
}

/// Settings of the run: its length, the size of its batches, and the intervals of measurements and checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    /// Questions in a batch.
    pub batch_size: usize,
    /// Batches whose gradients are added up before a step is taken.
    pub accumulate: usize,
    /// Times every question is seen.
    pub epochs: usize,
    /// Steps after which to stop, if sooner; the schedule ends there too. 0 for none.
    pub max_steps: usize,
    /// Share of the numbers that dropout leaves out.
    pub dropout: f64,
    /// Decides the order of the questions, the negatives and dropout.
    pub seed: u64,
    /// Steps between two checkpoints; each epoch ends with one too. 0 for only these.
    pub checkpoint_every: usize,
    /// Checkpoints that are kept.
    pub keep_checkpoints: usize,
    /// Steps between two measurements on the dev files; each epoch ends with one too. 0 for only these.
    pub evaluate_every: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            batch_size: 128,
            accumulate: 1,
            epochs: 40,
            max_steps: 0,
            dropout: 0.1,
            seed: 12345,
            checkpoint_every: 0,
            keep_checkpoints: 2,
            evaluate_every: 0,
        }
    }
}

/// The most negatives of a kind that a question brings into a batch: as many as `dpr data mine` writes.
const MOST_NEGATIVES: usize = 10_000;

/// Characters of a line of a file that an error quotes.
const QUOTED: usize = 80;

/// Settings of a run, which are read from a file and written to one.
pub trait Settings: Serialize + DeserializeOwned + Clone + PartialEq + Default {
    /// Returns how long, how large and how often, the optimiser's constants, and how a batch is computed.
    fn of_run(&self) -> (&RunOptions, &OptimiserOptions, &StepOptions);

    /// Reads a TOML file. A setting that it does not name has the default of these settings, in a section that it names
    /// too.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the line of an unknown or misspelt setting.
    fn read(path: &Path) -> Result<Self, TrainError> {
        let text = fs_err::read_to_string(path)?;
        let bad =
            |reason: String| TrainError::Config { path: path.into(), reason: with_short_quotes(&reason) };
        // Parsed without the defaults first, since these errors name lines.
        toml::from_str::<Self>(&text).map_err(|e| bad(e.to_string().trim().to_owned()))?;
        let table = |text: &str| toml::from_str::<toml::Table>(text).map_err(|e| bad(e.to_string()));
        let mut settings = table(&Self::default().to_toml()?)?;
        overlay(&mut settings, table(&text)?);
        settings.try_into().map_err(|e: toml::de::Error| bad(e.to_string()))
    }

    /// Returns these settings as the run of `begun` writes them: with a default that it has written out.
    fn written_as(&self, _begun: &Self) -> Self {
        self.clone()
    }

    /// Returns the settings as TOML, defaults written out.
    ///
    /// # Errors
    /// [`TrainError::Config`] when a path is not valid UTF-8.
    fn to_toml(&self) -> Result<String, TrainError> {
        toml::to_string(self)
            .map_err(|e| TrainError::Config { path: "the settings".into(), reason: e.to_string() })
    }
}

/// Returns the text of a TOML error with at most [`QUOTED`] characters of each line that it quotes, which may be the
/// whole of a file in another format.
pub(super) fn with_short_quotes(error: &str) -> String {
    let lines = error.lines().map(|line| {
        let is_quote = line.split_once('|').is_some_and(|(number, _)| {
            number.ends_with(' ') && number.trim().chars().all(|c| c.is_ascii_digit())
        });
        match line.char_indices().nth(QUOTED) {
            Some((end, _)) if is_quote => format!("{}…", line[..end].trim_end()),
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Puts the values of `given` over those of `settings`, section by section.
fn overlay(settings: &mut toml::Table, given: toml::Table) {
    for (name, value) in given {
        match (settings.get_mut(&name), value) {
            (Some(toml::Value::Table(section)), toml::Value::Table(given)) => overlay(section, given),
            (_, value) => {
                settings.insert(name, value);
            }
        }
    }
}

impl Settings for TrainConfig {
    fn of_run(&self) -> (&RunOptions, &OptimiserOptions, &StepOptions) {
        (&self.run, &self.optimiser, &self.compute)
    }
}

impl TrainConfig {
    /// Refuses settings that cannot be trained with.
    ///
    /// # Errors
    /// [`TrainError::Setting`] names the setting, its value and what it should be.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |setting, got: String, expected: &str| {
            Err(TrainError::Setting { setting, got, expected: expected.into() })
        };
        let (data, run) = (&self.data, &self.run);
        if self.model.start.as_os_str().is_empty() {
            return bad("model.start", "not given".into(), "name a model directory");
        }
        if data.train.is_empty() {
            return bad("data.train", "empty".into(), "name a training file");
        }
        if let Some(file) = data.train.iter().find(|file| !(file.weight > 0.0 && file.weight <= 1e3)) {
            return bad("data.train.weight", file.weight.to_string(), "it must be above 0, at most 1000");
        }
        if data.bucket == 0 {
            return bad("data.bucket", "0".into(), "it must be 1 at least");
        }
        if data.kept_negatives == 0 {
            return bad("data.kept_negatives", "0".into(), "it must be 1 at least");
        }
        if data.dev_questions == 0 && !data.dev.is_empty() {
            let expected = "it must be 1 at least; to measure nothing, leave data.dev out";
            return bad("data.dev_questions", "0".into(), expected);
        }
        let mixed = data.mixed_negatives.unwrap_or_default();
        let counts = [
            ("data.negatives_per_question", data.negatives_per_question),
            ("data.mixed_negatives.hard", mixed.hard),
            ("data.mixed_negatives.random", mixed.random),
            ("data.mixed_negatives.gold", mixed.gold),
        ];
        if let Some((setting, got)) = counts.into_iter().find(|(_, count)| *count > MOST_NEGATIVES) {
            return bad(setting, got.to_string(), &format!("it must be {MOST_NEGATIVES} at most"));
        }
        match data.negative_counts().total() {
            0 if !data.in_batch => {
                return bad(
                    "data.in_batch",
                    "false".into(),
                    "a question then needs negatives of its own: set negatives_per_question or mixed_negatives",
                );
            }
            0 if run.batch_size < 2 => {
                return bad(
                    "run.batch_size",
                    run.batch_size.to_string(),
                    "without negatives it must be 2 at least",
                );
            }
            _ => {}
        }
        if let Some(teacher) = &self.model.teacher
            && data.negative_counts().total() == 0
        {
            return bad(
                "model.teacher",
                teacher.display().to_string(),
                "it scores the passages that a question brings, its positive and its negatives: set \
                 negatives_per_question or mixed_negatives, or leave it out",
            );
        }
        self.objective.check()?;
        check_numbers(run, &self.optimiser, &self.compute)
    }
}

/// Refuses numbers that no run can be made with.
///
/// # Errors
/// [`TrainError::Setting`] names the setting, its value and what it should be.
pub(super) fn check_numbers(
    run: &RunOptions,
    optimiser: &OptimiserOptions,
    compute: &StepOptions,
) -> Result<(), TrainError> {
    let bad = |setting, got: String, expected: &str| {
        Err(TrainError::Setting { setting, got, expected: expected.into() })
    };
    let counts = [
        ("run.batch_size", run.batch_size),
        ("run.accumulate", run.accumulate),
        ("run.epochs", run.epochs),
        ("run.keep_checkpoints", run.keep_checkpoints),
        ("compute.chunk_rows", compute.chunk_rows),
        ("compute.chunk_tokens", compute.chunk_tokens),
    ];
    if let Some((setting, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
        return bad(setting, "0".into(), "it must be 1 at least");
    }
    if compute.threads > StepOptions::MAX_THREADS {
        let expected = format!("it must be from 0, one a processor, to {}", StepOptions::MAX_THREADS);
        return bad("compute.threads", compute.threads.to_string(), &expected);
    }
    if !(0.0..1.0).contains(&run.dropout) {
        return bad("run.dropout", run.dropout.to_string(), "it must be from 0 to below 1");
    }
    let positive =
        [("optimiser.learning_rate", optimiser.learning_rate), ("optimiser.epsilon", optimiser.epsilon)];
    if let Some((setting, got)) = positive.into_iter().find(|(_, got)| !(*got > 0.0 && got.is_finite())) {
        return bad(setting, got.to_string(), "it must be above 0, and finite");
    }
    // The optimiser computes in single precision, where epsilon must be a normal number.
    if !(optimiser.epsilon as f32).is_normal() {
        let expected = format!("it must be from {:e} to {:e}", f32::MIN_POSITIVE, f32::MAX);
        return bad("optimiser.epsilon", format!("{:e}", optimiser.epsilon), &expected);
    }
    let shares = [("optimiser.beta1", optimiser.beta1), ("optimiser.beta2", optimiser.beta2)];
    if let Some((setting, got)) = shares.into_iter().find(|(_, got)| !(0.0..1.0).contains(got)) {
        return bad(setting, got.to_string(), "it must be from 0 to below 1");
    }
    if let Some((setting, got)) = shares.into_iter().find(|(_, got)| *got as f32 >= 1.0) {
        return bad(setting, got.to_string(), "in single precision that is 1: it must be 0.9999999 at most");
    }
    let least = [("optimiser.weight_decay", optimiser.weight_decay), ("optimiser.clip", optimiser.clip)];
    match least.into_iter().find(|(_, got)| !(*got >= 0.0 && got.is_finite())) {
        Some((setting, got)) => bad(setting, got.to_string(), "it must be 0 or above, and finite"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_paper_s_and_a_file_says_them_all() {
        let config = TrainConfig::default();
        assert_eq!((config.run.batch_size, config.run.epochs, config.run.dropout), (128, 40, 0.1));
        assert_eq!((config.optimiser.learning_rate, config.optimiser.warm_up), (1e-5, 1237));
        let text = config.to_toml().unwrap();
        for setting in ["batch_size = 128", "negatives = \"hard\"", "temperature = 1.0", "seed = 12345"] {
            assert!(text.contains(setting), "no {setting} in\n{text}");
        }
        assert_eq!(toml::from_str::<TrainConfig>(&text).unwrap(), config);
    }

    #[test]
    fn a_question_without_any_negatives_is_refused() {
        let mut config = TrainConfig::default();
        config.model.start = "m".into();
        config.data.train = vec![DataFile { path: "t.json".into(), weight: 1.0 }];
        config.check().unwrap();
        (config.data.in_batch, config.data.negatives_per_question) = (false, 0);
        let message = config.check().unwrap_err().to_string();
        assert!(
            message.contains("data.in_batch is false") && message.contains("mixed_negatives"),
            "{message}"
        );
        config.data.mixed_negatives = Some(NegativeCounts { gold: 1, ..NegativeCounts::default() });
        config.run.batch_size = 1;
        config.check().unwrap();
    }

    #[test]
    fn dev_files_of_which_no_question_is_taken_are_refused() {
        let mut config = TrainConfig::default();
        config.model.start = "m".into();
        config.data.train = vec![DataFile { path: "t.json".into(), weight: 1.0 }];
        config.data.dev_questions = 0;
        config.check().unwrap();
        config.data.dev = vec!["d.json".into()];
        let message = config.check().unwrap_err().to_string();
        assert_eq!(
            message,
            "data.dev_questions is 0; it must be 1 at least; to measure nothing, leave data.dev out"
        );
    }

    #[test]
    fn a_long_line_of_a_file_in_another_format_is_quoted_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.json");
        fs_err::write(&path, format!("[{{\"question\": \"{}\"}}]", "who ".repeat(8000))).unwrap();
        let message = TrainConfig::read(&path).unwrap_err().to_string();
        assert!(message.contains("who who") && message.contains('…'), "{message}");
        assert!(message.lines().filter(|line| line.contains(" | ")).all(|line| line.chars().count() <= 81));
        assert!(message.len() < 600, "{} bytes", message.len());
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let whole = "[model]\nstart = \"m\"\n[[data.train]]\npath = \"t.json\"\n";
        let check = |more: &str| {
            let config = toml::from_str::<TrainConfig>(&format!("{whole}{more}"));
            match config {
                Ok(config) => config.check().map_err(|e| e.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        check("").unwrap();
        check("[compute]\nthreads = 1024").unwrap();
        for (more, expected) in [
            ("[run]\nbatchsize = 4", "batchsize"),
            ("[run]\nbatch_size = 0", "run.batch_size is 0"),
            ("[run]\ndropout = 1.5", "run.dropout is 1.5"),
            ("[optimiser]\nlearning_rate = -1.0", "optimiser.learning_rate is -1"),
            ("[optimiser]\nepsilon = 1e-46", "optimiser.epsilon is 1e-46; it must be from 1.17549"),
            ("[optimiser]\nbeta2 = 0.999999999", "optimiser.beta2 is 0.999999999; in single precision"),
            ("[compute]\nthreads = 1025", "compute.threads is 1025; it must be from 0"),
            ("[objective]\ntemperature = 0.0", "objective.temperature is 0"),
            ("[objective]\nloss = \"mse\"", "mse"),
            ("[objective]\nmatryoshka = [8, 0]", "objective.matryoshka is [8, 0]"),
            ("[objective]\nmatryoshka = [8, 8]", "objective.matryoshka is [8, 8]"),
            ("[objective]\nmatryoshka = [8]\nsimilarity = \"l2\"", "objective.similarity is l2"),
            ("[data.mixed_negatives]\nbm25 = 1", "bm25"),
            ("[data.mixed_negatives]\ngold = 10001", "data.mixed_negatives.gold is 10001; it must be 10000"),
        ] {
            let message = check(more).unwrap_err();
            assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        }
        assert!(TrainConfig::default().check().unwrap_err().to_string().contains("model.start is not given"));
        let mut config = toml::from_str::<TrainConfig>(whole).unwrap();
        config.data.negatives_per_question = usize::MAX;
        let message = config.check().unwrap_err().to_string();
        assert!(message.starts_with("data.negatives_per_question is "), "{message}");
    }
}
