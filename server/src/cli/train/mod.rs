//! `dpr train`: questions and passages to better encoders, to a reader, or to a reranker.

mod rounds;

use std::path::{Path, PathBuf};

use clap::{ArgAction, ValueEnum};
use dpr_core::Similarity;

use self::rounds::RoundsArgs;
use super::train_args::{TrainArgs, set, set_start, warn};
use super::{CliError, output, stop_on_interrupt};
use crate::cli::progress;
use dpr_files::Job;
use dpr_train::{
    DataFile, DryRun, Negatives, PairConfig, PairTask, RunOptions, TrainConfig, TrainDevice, Training,
    keep_freed_memory,
};

/// Arguments of `dpr train`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr train --config configs/nq-paper.toml --model model/ --data train.json.gz --dev dev.json.gz --out run/
  dpr train --config configs/small-cpu.toml --model model/ --data train.json.gz --out run/ --dry-run
  dpr train --config configs/reader-cpu.toml --model model/ --data train.json.gz --dev dev.json.gz --out reader-run/
  dpr train --task reranker --model model/ --data results/dense.json.gz --out reranker-run/
  dpr train --task reranker --model model/ --teacher reader/ --data results/dense.json.gz --out reranker-run/
  dpr train --config configs/small-cpu.toml --model model/ --teacher reranker-run/best/ --data train.json.gz --out run/
  dpr train --rounds 2 --model model/ --passages passages.tsv --questions train.tsv --dev dev.json.gz --out rounds/
  dpr train --resume --out run/

The run directory holds config.toml, metrics.jsonl, loss.svg, dev.svg, checkpoints/ and best/, a model directory
for `dpr encode`, `dpr export-web` and `dpr serve`; of a reader for `dpr answer`, of a reranker for --rerank. Ctrl-C
writes a checkpoint; after a kill, --resume goes on from the last one, and every step is as it would have been.
With --rounds it holds rounds.json, and for each round its training data and a run directory.")]
pub struct Args {
    /// Settings as TOML; without it the paper's, and those of the flags
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to train; by default what the configuration says, else retrieval
    #[arg(long, value_enum, value_name = "TASK")]
    task: Option<Task>,
    /// Read and check everything, compute the batch of longest passages once, and say what a run would take
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Model directory to start from, in place of the configuration's; where neither names one, that of DPR_MODEL in
    /// the environment
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Training file, in place of the configuration's; may be given again: DPR training json, for a reader or a
    /// reranker also SQuAD json and retriever results
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    data: Vec<PathBuf>,
    /// Dev questions in a file of the same kind, in place of the configuration's; may be given again
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    dev: Vec<PathBuf>,
    /// What scores are divided by, of retrieval
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// How two vectors make a score, of retrieval: dot, cosine or l2
    #[arg(long, value_name = "NAME", value_parser = similarity)]
    similarity: Option<Similarity>,
    /// Sizes of nested vectors, the longest first, of retrieval: their first numbers are trained to be vectors too
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    matryoshka: Option<Vec<usize>>,
    /// Passages without the answer that a question brings into the batch
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    /// Model directory of a cross-encoder or of a reader whose scores encoders or a reranker learn beside the labels
    #[arg(long, value_name = "DIR")]
    teacher: Option<PathBuf>,
    /// Tokens that a question and a passage are cut to, of a reader or a reranker; by default 350, or as many as the
    /// model has positions for
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    #[command(flatten)]
    run: TrainArgs,
    #[command(flatten)]
    rounds: RoundsArgs,
}

/// The kind of model to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// The encoders of questions and passages
    Retrieval,
    /// A reader, which marks answers in passages
    Reader,
    /// A cross-encoder, which re-ranks passages
    Reranker,
}

impl Task {
    fn pairs(self) -> Option<PairTask> {
        match self {
            Self::Retrieval => None,
            Self::Reader => Some(PairTask::Reader),
            Self::Reranker => Some(PairTask::Reranker),
        }
    }
}

fn similarity(text: &str) -> Result<Similarity, String> {
    let named = Similarity::ALL.into_iter().find(|similarity| similarity.name() == text);
    named.ok_or_else(|| {
        let names = Similarity::ALL.map(Similarity::name).join(", ");
        format!("unknown similarity {text:?}: it is one of {names}")
    })
}

impl Args {
    /// Returns what is trained besides retrieval: what the flag says, else the file, else the run that goes on. A file
    /// that cannot be read is an error where its settings are read.
    ///
    /// # Errors
    /// When the file names an unknown task.
    fn pairs(&self) -> Result<Option<PairTask>, CliError> {
        let begun = self.run.out.as_ref().filter(|_| self.run.resume).map(|out| out.join("config.toml"));
        let file = self.config.as_deref().or(begun.as_deref());
        match (self.task, file) {
            (Some(task), _) => Ok(task.pairs()),
            (None, Some(file)) => Ok(PairTask::of_file(file)?),
            (None, None) => Ok(None),
        }
    }

    /// Sets what flags were given for that all kinds of training have.
    fn apply<C: Training>(&self, config: &mut C) {
        let shared = config.shared();
        self.run.apply(shared.run, shared.optimiser, shared.compute);
        set_start(shared.start, self.model.as_ref());
        if !self.data.is_empty() {
            *shared.train =
                self.data.iter().map(|path| DataFile { path: path.clone(), weight: 1.0 }).collect();
        }
        if !self.dev.is_empty() {
            shared.dev.clone_from(&self.dev);
        }
        set(shared.negatives_per_question, self.negatives);
    }

    /// Returns the configuration of encoders.
    fn retrieval_settings(&self) -> Result<TrainConfig, CliError> {
        self.refuse_flags_of_pairs()?;
        let mut config: TrainConfig = self.run.settings(self.config.as_deref())?;
        self.apply_to_retrieval(&mut config)?;
        Ok(config)
    }

    /// Refuses flags of readers and rerankers, which encoders have none of.
    fn refuse_flags_of_pairs(&self) -> Result<(), CliError> {
        if self.max_tokens.is_some() {
            return Err(
                "--max-tokens is of a reader or a reranker: the configuration has max_passage_tokens".into(),
            );
        }
        Ok(())
    }

    /// Sets what flags were given for in a configuration of encoders, and refuses those without an effect there.
    fn apply_to_retrieval(&self, config: &mut TrainConfig) -> Result<(), CliError> {
        self.apply(config);
        let data = &config.data;
        if self.negatives.is_some() && data.mixed_negatives.is_some() {
            return Err(
                "--negatives is of one kind: leave it out, the configuration has mixed_negatives".into()
            );
        }
        if self.negatives.is_some() && data.negatives == Negatives::Gold && data.in_batch {
            return Err(
                "--negatives has no effect beside negatives = \"gold\", the batch's other positives: leave it out, or \
                 say in_batch = false in the configuration"
                    .into(),
            );
        }
        set(&mut config.objective.temperature, self.temperature);
        set(&mut config.objective.similarity, self.similarity);
        set(&mut config.objective.matryoshka, self.matryoshka.clone());
        config.model.teacher = self.teacher.clone().or_else(|| config.model.teacher.take());
        Ok(())
    }

    /// Returns the configuration of a reader or a reranker.
    fn pair_settings(&self, task: PairTask) -> Result<PairConfig, CliError> {
        let of_retrieval = [
            ("--temperature", self.temperature.is_some()),
            ("--similarity", self.similarity.is_some()),
            ("--matryoshka", self.matryoshka.is_some()),
        ];
        if let Some((flag, _)) = of_retrieval.into_iter().find(|(_, given)| *given) {
            return Err(format!("{flag} is of retrieval: leave it out, a {} has none", task.name()).into());
        }
        let mut config: PairConfig = self.run.settings(self.config.as_deref())?;
        self.apply(&mut config);
        if self.task.is_some() {
            config.task = task;
        }
        config.model.max_tokens = self.max_tokens.or(config.model.max_tokens);
        if self.teacher.is_some() {
            config.model.teacher.clone_from(&self.teacher);
        }
        Ok(config)
    }
}

/// Runs `dpr train`.
///
/// # Errors
/// When the settings, the data or the model cannot be used, the loss stops being a number, the directory cannot be
/// written, or on Ctrl-C.
pub fn run(args: Args) -> Result<(), CliError> {
    if let Some(out) = args.run.out.as_deref().filter(|out| args.run.resume && rounds::is_in(out)) {
        return rounds::resume(&args, out);
    }
    match args.pairs()? {
        Some(task) if args.rounds.is_given() => {
            Err(format!("--rounds is of retrieval: leave it out, or train no {}", task.name()).into())
        }
        Some(task) => run_by(&args, args.pair_settings(task)?),
        None => match rounds::begin(&args) {
            Some(done) => done,
            None => run_by(&args, args.retrieval_settings()?),
        },
    }
}

/// Trains as `config` says, or tries it.
fn run_by<C: Training>(args: &Args, mut config: C) -> Result<(), CliError> {
    keep_freed_memory();
    let device = TrainDevice::open(args.run.device)?;
    let shared = config.shared();
    args.run.write_down_threads(shared.compute, &device);
    let run = *shared.run;
    if args.dry_run {
        let found = config.dry_run(&device)?;
        warn(&found.notes);
        return if args.run.json { output::json(&found) } else { tell(&found, &run, &device.name) };
    }
    train_on(args, &config, args.run.out(&config)?, args.run.resume, &device)
}

/// Trains in the run directory `out`, or goes on there, and says what was done.
fn train_on<C: Training>(
    args: &Args,
    config: &C,
    out: &Path,
    resume: bool,
    device: &TrainDevice,
) -> Result<(), CliError> {
    let prepared = config.prepare(device)?;
    warn(C::notes(&prepared));
    let (stop, progress) = (stop_on_interrupt(), progress::on_stderr());
    let job = Job { stop: &stop, progress: progress.as_ref() };
    let report = config.train(out, resume, prepared, device, job)?;
    args.run.tell(&report, out, &device.name)
}

fn tell(found: &DryRun, run: &RunOptions, device: &str) -> Result<(), CliError> {
    output::line(format_args!(
        "{} questions, {} dev questions, {} passages; {} numbers to train on {device}",
        found.questions, found.dev_questions, found.passages, found.parameters
    ))?;
    output::line(format_args!(
        "{} steps of {} questions in an epoch, {} in all",
        found.steps_per_epoch,
        run.batch_size * run.accumulate,
        found.steps
    ))?;
    let memory = found.peak_memory.map_or("unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let whole = found.seconds * (found.steps * run.accumulate) as f64;
    output::line(format_args!(
        "the batch of longest passages: {} texts, {} tokens, loss {:.3}, {:.1} s, peak memory {memory}",
        found.batch_texts, found.batch_tokens, found.loss, found.seconds
    ))?;
    output::line(format_args!("at most {:.1} h in all at that speed; nothing was written", whole / 3600.0))
}
