//! Configuration of the training of readers and rerankers: a TOML file whose defaults are the paper's settings for a
//! reader.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::config::{DataFile, RunOptions, Settings, check_numbers, with_short_quotes};
use super::super::encoders::Weights;
use super::super::error::TrainError;
use super::super::optimiser::OptimiserOptions;
use super::super::options::StepOptions;

/// Tokens of a question and a passage in the paper.
pub(super) const TOKENS: usize = 350;

/// The kind of model that is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairTask {
    /// A reader (paper §6.1): a `DPRReader` that marks answers and chooses passages.
    #[default]
    Reader,
    /// A cross-encoder that scores a question and a passage, to re-rank what a search found.
    Reranker,
}

impl PairTask {
    /// Returns the task that a configuration names; `None` for retrieval, for a file that names none, and for one that
    /// cannot be read or is no TOML.
    ///
    /// # Errors
    /// [`TrainError::Config`] when the file names an unknown task.
    pub fn of_file(path: &Path) -> Result<Option<Self>, TrainError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Named {
            task: Task,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Task {
            #[default]
            Retrieval,
            Reader,
            Reranker,
        }
        let text = fs_err::read_to_string(path).unwrap_or_default();
        if toml::from_str::<toml::Table>(&text).is_err() {
            return Ok(None);
        }
        let named: Named = toml::from_str(&text).map_err(|error| TrainError::Config {
            path: path.into(),
            reason: with_short_quotes(error.to_string().trim()),
        })?;
        Ok(match named.task {
            Task::Retrieval => None,
            Task::Reader => Some(Self::Reader),
            Task::Reranker => Some(Self::Reranker),
        })
    }

    /// Returns the name in configurations and for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Reranker => "reranker",
        }
    }
}

/// Settings of a run. Paths are taken from the working directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairConfig {
    /// The kind of model that is trained: `reader` or `reranker`.
    pub task: PairTask,
    /// Options of the model that training starts from.
    pub model: PairModelOptions,
    /// Training files and dev files.
    pub data: PairDataOptions,
    /// The loss.
    pub objective: PairObjective,
    /// Learning rate, schedule and other constants of the optimiser.
    pub optimiser: OptimiserOptions,
    /// Settings of the run: its length, the size of its batches, and the intervals of measurements and checkpoints.
    pub run: RunOptions,
    /// Options of computing a batch.
    pub compute: StepOptions,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self {
            task: PairTask::Reader,
            model: PairModelOptions::default(),
            data: PairDataOptions::default(),
            objective: PairObjective::default(),
            optimiser: OptimiserOptions { warm_up: 0, ..OptimiserOptions::default() },
            run: RunOptions { batch_size: 16, epochs: 20, checkpoint_every: 500, ..RunOptions::default() },
            compute: StepOptions::default(),
        }
    }
}

/// Options of the model that training starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairModelOptions {
    /// A model directory: of encoders, of which the passage encoder is taken, of a reader or of a cross-encoder. Layers
    /// that it does not have are drawn by the seed.
    pub start: PathBuf,
    /// `given`, or `random` to train from nothing.
    pub weights: Weights,
    /// Leave the embeddings as they are, so that a page can share them with the question encoder.
    pub freeze_embeddings: bool,
    /// Tokens a question and a passage are cut to; when not given 350, as in the paper, or as many as the model has
    /// positions for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Of a reranker: the model directory of a reader or of a cross-encoder whose scores it learns; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<PathBuf>,
}

impl Default for PairModelOptions {
    fn default() -> Self {
        Self {
            start: PathBuf::new(),
            weights: Weights::Given,
            freeze_embeddings: false,
            max_tokens: None,
            teacher: None,
        }
    }
}

/// The data of a run: training files and dev files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairDataOptions {
    /// Training files, mixed with their weights: SQuAD json, DPR training json or DPR's retriever results.
    pub train: Vec<DataFile>,
    /// Files of the same kinds whose questions measure each epoch; they decide which checkpoint is best.
    pub dev: Vec<PathBuf>,
    /// Passages without the answer that a question is given beside the one with it (23 in the paper); fewer where it
    /// has fewer.
    pub negatives_per_question: usize,
    /// Negatives of a question that are kept, of which each epoch draws; as many as a question is given, where that is
    /// more.
    pub kept_negatives: usize,
    /// Batches whose questions are sorted by length among themselves, so that a batch has little padding; 1 for none.
    pub bucket: usize,
    /// Questions of the dev files that are used, at most, drawn by the seed; 1 at least where there are dev files.
    pub dev_questions: usize,
}

impl PairDataOptions {
    /// Returns the negatives of a question that are kept, at most.
    pub(super) fn kept(&self) -> usize {
        self.kept_negatives.max(self.negatives_per_question)
    }
}

impl Default for PairDataOptions {
    fn default() -> Self {
        Self {
            train: Vec::new(),
            dev: Vec::new(),
            negatives_per_question: 23,
            kept_negatives: 100,
            bucket: 16,
            dev_questions: 500,
        }
    }
}

/// The loss over the scores of a question's passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankLoss {
    /// Negative log-likelihood of the positive among the passages of its question, as a reader's selection.
    #[default]
    Listwise,
    /// Binary cross-entropy of every passage, as whether it answers the question.
    Binary,
}

/// The objective: a reader's is the paper's (§6.1), a reranker's one of two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairObjective {
    /// Of a reranker.
    pub loss: RankLoss,
    /// Places of the answers in a positive that a reader learns, at most.
    pub max_matches: usize,
    /// With a teacher, its share of a reranker's loss: the divergence from the teacher's distribution over the passages
    /// of a question. The labels have the rest.
    pub teacher_weight: f64,
}

impl Default for PairObjective {
    fn default() -> Self {
        Self { loss: RankLoss::Listwise, max_matches: 10, teacher_weight: 0.5 }
    }
}

impl Settings for PairConfig {
    fn of_run(&self) -> (&RunOptions, &OptimiserOptions, &StepOptions) {
        (&self.run, &self.optimiser, &self.compute)
    }

    /// A run may have written out the tokens of the paper, which other settings leave to the model.
    fn written_as(&self, begun: &Self) -> Self {
        let mut written = self.clone();
        if written.model.max_tokens.is_none() && begun.model.max_tokens == Some(TOKENS) {
            written.model.max_tokens = begun.model.max_tokens;
        }
        written
    }
}

impl PairConfig {
    /// Refuses settings that cannot be trained with.
    ///
    /// # Errors
    /// [`TrainError::Setting`] names the setting, its value and what it should be.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |setting, got: String, expected: &str| {
            Err(TrainError::Setting { setting, got, expected: expected.into() })
        };
        let data = &self.data;
        if self.model.start.as_os_str().is_empty() {
            return bad("model.start", "not given".into(), "name a model directory");
        }
        if data.train.is_empty() {
            return bad("data.train", "empty".into(), "name a training file");
        }
        if let Some(file) = data.train.iter().find(|file| !(file.weight > 0.0 && file.weight <= 1e3)) {
            return bad("data.train.weight", file.weight.to_string(), "it must be above 0, at most 1000");
        }
        let counts = [
            ("data.negatives_per_question", data.negatives_per_question),
            ("data.kept_negatives", data.kept_negatives),
            ("data.bucket", data.bucket),
            ("objective.max_matches", self.objective.max_matches),
        ];
        if let Some((setting, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return bad(setting, "0".into(), "it must be 1 at least");
        }
        if data.dev_questions == 0 && !data.dev.is_empty() {
            let expected = "it must be 1 at least; to measure nothing, leave data.dev out";
            return bad("data.dev_questions", "0".into(), expected);
        }
        if self.task == PairTask::Reader && self.objective.loss != RankLoss::default() {
            return bad("objective.loss", "binary".into(), "a reader has one objective: leave it out");
        }
        if self.task == PairTask::Reader
            && let Some(teacher) = &self.model.teacher
        {
            let got = teacher.display().to_string();
            return bad("model.teacher", got, "a reader learns from answers alone: leave it out");
        }
        let weight = self.objective.teacher_weight;
        if !(0.0..=1.0).contains(&weight) {
            return bad("objective.teacher_weight", weight.to_string(), "it must be from 0 to 1");
        }
        check_numbers(&self.run, &self.optimiser, &self.compute)
    }

    /// Returns a reranker's loss.
    pub(super) fn ranking(&self) -> Ranking {
        Ranking { loss: self.objective.loss, teacher_weight: self.objective.teacher_weight }
    }
}

/// A reranker's loss of one question: that of the labels, and with a teacher's scores its share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranking {
    /// The loss of the labels.
    pub loss: RankLoss,
    /// The teacher's share, from 0 to 1, where it has scored the passages.
    pub teacher_weight: f64,
}

#[cfg(test)]
mod tests {
    use super::super::super::run_dir::RunDir;
    use super::*;

    fn read(text: &str) -> Result<PairConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.toml");
        std::fs::write(&path, text).unwrap();
        PairConfig::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_keeps_the_paper_s_settings_where_it_says_nothing() {
        let config = read("task = \"reranker\"\n[run]\nepochs = 3\n[model]\nstart = \"m\"\n").unwrap();
        assert_eq!((config.task, config.run.epochs, config.run.batch_size), (PairTask::Reranker, 3, 16));
        assert_eq!((config.model.max_tokens, config.data.negatives_per_question), (None, 23));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.toml");
        for (text, task) in [
            ("task = \"reranker\"", Some(PairTask::Reranker)),
            ("[run]\nepochs = 3", None),
            ("task = \"retrieval\"", None),
            ("", None),
            ("task =", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(PairTask::of_file(&path).unwrap(), task, "{text}");
        }
        assert_eq!(PairTask::of_file(&dir.path().join("none.toml")).unwrap(), None);
        std::fs::write(&path, "task = \"rerankr\"").unwrap();
        let error = PairTask::of_file(&path).unwrap_err().to_string();
        for said in ["a.toml", "line 1", "rerankr", "`retrieval`", "`reader`", "`reranker`"] {
            assert!(error.contains(said), "no {said} in {error}");
        }
        let written = config.to_toml().unwrap();
        assert_eq!(read(&written).unwrap(), config);
    }

    #[test]
    fn a_run_that_has_written_the_tokens_of_the_paper_goes_on_with_settings_that_leave_them_out() {
        let settings = |max_tokens| {
            let model = PairModelOptions { max_tokens, ..PairModelOptions::default() };
            PairConfig { model, ..PairConfig::default() }
        };
        let check = |begun, given| {
            let same = RunDir::check_same(Path::new("run"), &settings(begun), &settings(given));
            same.map_err(|error| error.to_string())
        };
        for (begun, given) in [(Some(350), None), (Some(350), Some(350)), (None, None)] {
            check(begun, given).unwrap();
        }
        let mut other = settings(None);
        other.run.seed = 2;
        let error =
            RunDir::check_same(Path::new("run"), &settings(Some(350)), &other).unwrap_err().to_string();
        assert!(error.contains("seed = 12345, not seed = 2"), "{error}");
        let error = check(Some(256), None).unwrap_err();
        assert!(error.contains("max_tokens = 256, not without it"), "{error}");
        let error = check(Some(350), Some(256)).unwrap_err();
        assert!(error.contains("max_tokens = 350, not max_tokens = 256"), "{error}");
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let check = |more: &str| {
            let config = read(&format!("{more}\n[[data.train]]\npath = \"t.json\"\n"));
            config.and_then(|config| config.check().map_err(|error| error.to_string()))
        };
        check("[model]\nstart = \"m\"").unwrap();
        for (more, expected) in [
            ("", "model.start is not given"),
            ("task = \"ranker\"", "ranker"),
            ("[run]\nbatchsize = 4", "batchsize"),
            ("[model]\nstart = \"m\"\n[objective]\nloss = \"binary\"", "objective.loss is binary"),
            ("[model]\nstart = \"m\"\n[objective]\nmax_matches = 0", "objective.max_matches is 0"),
            ("[model]\nstart = \"m\"\n[data]\nnegatives_per_question = 0", "negatives_per_question is 0"),
            (
                "[model]\nstart = \"m\"\n[data]\ndev = [\"d\"]\ndev_questions = 0",
                "data.dev_questions is 0; it must be 1 at least; to measure nothing, leave data.dev out",
            ),
            ("[model]\nstart = \"m\"\n[run]\nbatch_size = 0", "run.batch_size is 0"),
            ("[model]\nstart = \"m\"\nteacher = \"t\"", "model.teacher is t; a reader learns from answers"),
            (
                "task = \"reranker\"\n[model]\nstart = \"m\"\n[objective]\nteacher_weight = 1.5",
                "objective.teacher_weight is 1.5; it must be from 0 to 1",
            ),
        ] {
            let message = check(more).unwrap_err();
            assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        }
    }
}
