//! `dpr train --rounds`: training on hard negatives that the model itself ranks high, found anew before each round
//! (ANCE, Xiong et al. 2021; RocketQA, Qu et al. 2021).
//!
//! A round is four steps, each a command of its own: encode the passages, index them, mine hard negatives, train. The
//! run directory of rounds holds `rounds.json`, the settings and the number of steps done, and a directory a round.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use dpr_core::DeviceChoice;
use dpr_data::{read_passages, read_questions};
use dpr_encode::model::CrossEncoderDir;
use dpr_files::{DirLock, atomic};
use dpr_index::sparse::Analyzer;
use dpr_train::mine::check_questions;
use dpr_train::{
    DataFile, RunDir, TrainConfig, TrainDevice, TrainError, Weights, check_before_mining, keep_freed_memory,
};
use serde::{Deserialize, Serialize};

use super::super::{CliError, output, run_arguments};
use super::Task;
use crate::cli::data::{PositivesFrom, margin};

/// The file of the settings and of what is done.
const STATE: &str = "rounds.json";

/// Passages that are looked at for a question whose hard negatives are the fewest: the default of `dpr data mine`.
const DEPTH: usize = 100;

/// The fewest negatives of a kind that are mined for a question (the default of `dpr data mine`), and the most (its
/// limit).
const LEAST_NEGATIVES: usize = 30;
const MOST_NEGATIVES: usize = 10_000;

/// The format of that file.
const FORMAT: u32 = 1;

/// Flags of rounds.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rounds")]
pub(super) struct RoundsArgs {
    /// Train N times, each time on hard negatives that the model before ranks high: passages are encoded and indexed,
    /// negatives mined, and training begins where the round before ended
    #[arg(long, value_name = "N", requires_all = ["passages", "questions", "out"],
        conflicts_with_all = ["dry_run", "resume"], value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: Option<u16>,
    /// The corpus to mine from: TSV, BEIR jsonl or SQuAD json
    #[arg(long, value_name = "FILE", requires = "rounds")]
    passages: Option<PathBuf>,
    /// Questions with their answers to mine for: SQuAD or WebQuestions json, DPR's question tsv, CuratedTREC
    #[arg(long, value_name = "FILE", requires = "rounds")]
    questions: Option<PathBuf>,
    /// Where positives come from
    #[arg(long, value_enum, default_value_t = PositivesFrom::Distant, requires = "rounds")]
    positives: PositivesFrom,
    /// Language of the passages, whose words positives and random negatives are found by
    #[arg(long, value_name = "LANGUAGE", default_value = "english", requires = "rounds")]
    sparse: Analyzer,
    /// Leave out hard negatives that this cross-encoder scores as high as the positive
    #[arg(long, value_name = "DIR", requires = "rounds")]
    denoise: Option<PathBuf>,
    /// With --denoise: the score that a hard negative must be below the positive's, 0 or above
    #[arg(long, value_name = "M", requires = "denoise", allow_negative_numbers = true,
        value_parser = margin)]
    denoise_margin: Option<f32>,
}

impl RoundsArgs {
    /// Returns whether rounds are asked for.
    pub(super) fn is_given(&self) -> bool {
        self.rounds.is_some()
    }
}

/// Settings of rounds and what is done of them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    #[serde(default = "first_format")]
    format_version: u32,
    rounds: usize,
    passages: PathBuf,
    questions: PathBuf,
    positives: PositivesFrom,
    sparse: Analyzer,
    denoise: Option<PathBuf>,
    denoise_margin: f32,
    /// Of each round; its model is where the first begins, its files are trained on beside what is mined.
    training: TrainConfig,
    /// Steps that are done, of all rounds.
    done: usize,
}

/// The format of a file that does not say it.
fn first_format() -> u32 {
    1
}

impl State {
    /// Reads the file at `path`.
    fn read(path: &Path) -> Result<Self, CliError> {
        /// What a file of any format says.
        #[derive(Deserialize)]
        struct Format {
            #[serde(default = "first_format")]
            format_version: u32,
        }

        let text = fs_err::read(path)?;
        let bad = |error: serde_json::Error| format!("{}: {error}", path.display());
        let Format { format_version } = serde_json::from_slice(&text).map_err(bad)?;
        if format_version != FORMAT {
            return Err(format!(
                "{}: it has format {format_version}, this version reads {FORMAT}: go on with the version of dpr that \
                 began these rounds",
                path.display()
            )
            .into());
        }
        Ok(serde_json::from_slice(&text).map_err(bad)?)
    }
}

/// A step of a round, in their order.
#[derive(Clone, Copy)]
enum Step {
    Encode,
    Index,
    Mine,
    Train,
}

const STEPS: [Step; 4] = [Step::Encode, Step::Index, Step::Mine, Step::Train];

/// Returns whether `out` holds rounds.
pub(super) fn is_in(out: &Path) -> bool {
    out.join(STATE).exists()
}

/// Begins the rounds that the flags ask for; `None` where they ask for none.
///
/// # Errors
/// Files or settings that cannot be used, found before anything is computed, and what a step fails with.
pub(super) fn begin(args: &super::Args) -> Option<Result<(), CliError>> {
    let RoundsArgs { rounds, passages, questions, .. } = &args.rounds;
    // That the others are there with the first, the command line ensures.
    let (rounds, passages, questions) = (rounds.as_ref()?, passages.as_ref()?, questions.as_ref()?);
    Some(begin_with(args, usize::from(*rounds), passages, questions))
}

fn begin_with(args: &super::Args, rounds: usize, passages: &Path, questions: &Path) -> Result<(), CliError> {
    let given = &args.rounds;
    let mut training = args.retrieval_settings()?;
    // What a step would find after hours is looked at now.
    let mut with_mined = training.clone();
    with_mined.data.train.push(DataFile { path: questions.into(), weight: 1.0 });
    with_mined.check()?;
    let device = TrainDevice::open(args.run.device)?;
    given.denoise.as_deref().map(CrossEncoderDir::open).transpose()?;
    let asked = read_questions(questions)?;
    check_questions(&asked, given.positives.into())?;
    check_before_mining(&training, asked.len(), &device)?;
    read_passages(passages)?;
    args.run.write_down_threads(&mut training.compute, &device);

    if let Some(out) = args.run.out.as_deref().filter(|out| is_in(out)) {
        return Err(TrainError::Exists { dir: out.into() }.into());
    }
    let out = args.run.out(&training)?;
    let state = State {
        format_version: FORMAT,
        rounds,
        passages: passages.into(),
        questions: questions.into(),
        positives: given.positives,
        sparse: given.sparse,
        denoise: given.denoise.clone(),
        denoise_margin: given.denoise_margin.unwrap_or(0.0),
        training,
        done: 0,
    };
    atomic::create_dir_all(out)?;
    let run = Run::lock(out, state, args)?;
    run.write()?;
    run.go_on()
}

/// Goes on with the rounds in `out`.
///
/// # Errors
/// [`TrainError::OtherConfig`] with flags that say something else than the rounds began with, flags of other tasks, and
/// what a step fails with.
pub(super) fn resume(args: &super::Args, out: &Path) -> Result<(), CliError> {
    let state = State::read(&out.join(STATE))?;
    if let Some(task) = args.task.and_then(Task::pairs) {
        let (out, task) = (out.display(), task.name());
        return Err(format!(
            "{out} holds rounds, which are of retrieval: leave --task {task} out, or name another --out"
        )
        .into());
    }
    args.refuse_flags_of_pairs()?;
    let mut given = state.training.clone();
    args.apply_to_retrieval(&mut given)?;
    RunDir::check_same(out, &state.training, &given)?;
    Run::lock(out, state, args)?.go_on()
}

/// Rounds under way.
struct Run<'a> {
    out: &'a Path,
    state: State,
    device: DeviceChoice,
    json: bool,
    args: &'a super::Args,
    _lock: DirLock,
}

impl<'a> Run<'a> {
    fn lock(out: &'a Path, state: State, args: &'a super::Args) -> Result<Self, CliError> {
        let lock = DirLock::acquire(out)?.ok_or_else(|| TrainError::InUse { dir: out.into() })?;
        Ok(Self { out, state, device: args.run.device, json: args.run.json, args, _lock: lock })
    }

    fn write(&self) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.state)?;
        atomic::write_file(&self.out.join(STATE), |out| out.write_all(&text))
    }

    /// Returns the path of a part of a round, counted from 1.
    fn path(&self, round: usize, part: &str) -> PathBuf {
        self.out.join(round.to_string()).join(part)
    }

    /// Returns the model that a round begins with.
    fn start(&self, round: usize) -> PathBuf {
        match round {
            1 => self.state.training.model.start.clone(),
            _ => self.path(round - 1, "run").join("best"),
        }
    }

    /// Does the steps that are left.
    fn go_on(mut self) -> Result<(), CliError> {
        let all = self.state.rounds * STEPS.len();
        while self.state.done < all {
            let (round, step) = (self.state.done / STEPS.len() + 1, STEPS[self.state.done % STEPS.len()]);
            tracing::info!("round {round} of {}: {}", self.state.rounds, step.name());
            if let Err(error) = self.take(round, step) {
                let out = self.out.display();
                tracing::info!(
                    "round {round} stopped while {}: `dpr train --resume --out {out}` goes on",
                    step.name()
                );
                return Err(error);
            }
            self.state.done += 1;
            self.write()?;
        }
        let model = self.path(self.state.rounds, "run").join("best");
        match self.json {
            true => Ok(()),
            false => output::line(format_args!("after {} rounds: {}", self.state.rounds, model.display())),
        }
    }

    fn take(&self, round: usize, step: Step) -> Result<(), CliError> {
        let State { passages, questions, positives, sparse, denoise, denoise_margin, .. } = &self.state;
        let (vectors, index, mined) =
            (self.path(round, "vectors"), self.path(round, "index"), self.path(round, "train.json.gz"));
        let start = self.start(round);
        let mut command = Command::default();
        match step {
            Step::Encode => {
                command.word("encode").path("--model", &start).path("--passages", passages);
                command.path("--out", &vectors).option("--device", self.device);
            }
            Step::Index => {
                command.word("index").path("--vectors", &vectors).option("--sparse", sparse);
                command.path("--out", &index);
            }
            Step::Mine => {
                command.word("data").word("mine").path("--index", &index).path("--model", &start);
                command.path("--questions", questions).word("--hard").word("dense");
                command.option("--positives", positives).option("--device", self.device);
                command.option("--seed", self.state.training.run.seed).path("--out", &mined);
                let [hard, random] = self.mined_negatives();
                command.option("--hard-negatives", hard).option("--random-negatives", random);
                command.option("--depth", hard * DEPTH / LEAST_NEGATIVES);
                if let Some(denoise) = denoise {
                    command.path("--denoise", denoise).option("--denoise-margin", denoise_margin);
                }
            }
            Step::Train => {
                // The training data holds the texts of its passages.
                for dir in [vectors, index] {
                    if dir.exists() {
                        fs_err::remove_dir_all(dir)?;
                    }
                }
                return self.train(round, &mined, start);
            }
        }
        if self.json {
            command.word("--json");
        }
        run_arguments(&command.0)
    }

    /// Returns the hard and the random negatives that are mined for a question, at most: as many as it brings into a
    /// batch, within what `dpr data mine` takes, and no fewer than its default.
    fn mined_negatives(&self) -> [usize; 2] {
        let brought = self.state.training.data.negative_counts();
        [brought.hard, brought.random].map(|count| count.clamp(LEAST_NEGATIVES, MOST_NEGATIVES))
    }

    /// Trains on what was mined, or goes on where it was stopped.
    fn train(&self, round: usize, mined: &Path, start: PathBuf) -> Result<(), CliError> {
        let mut config = self.state.training.clone();
        config.data.train.push(DataFile { path: mined.into(), weight: 1.0 });
        config.model.start = start;
        if round > 1 {
            config.model.weights = Weights::Given;
        }
        let run = self.path(round, "run");
        let resume = RunDir::is_begun(&run);
        keep_freed_memory();
        super::train_on(self.args, &config, &run, resume, &TrainDevice::open(self.device)?)
    }
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Encode => "encoding the passages",
            Self::Index => "indexing",
            Self::Mine => "mining hard negatives",
            Self::Train => "training",
        }
    }
}

/// The words of a command line.
struct Command(Vec<OsString>);

impl Default for Command {
    fn default() -> Self {
        Self(vec!["dpr".into()])
    }
}

impl Command {
    fn word(&mut self, word: impl AsRef<OsStr>) -> &mut Self {
        self.0.push(word.as_ref().to_owned());
        self
    }

    fn path(&mut self, flag: &str, path: &Path) -> &mut Self {
        self.word(flag).word(path)
    }

    fn option(&mut self, flag: &str, value: impl ToString) -> &mut Self {
        self.word(flag).word(value.to_string())
    }
}
