//! `dpr train`: questions and passages to better encoders.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use dpr_core::{DeviceChoice, Similarity};

use super::{CliError, output, stop_on_interrupt};
use crate::progress;
use crate::train::{
    DataFile, DevScores, Prepared, RunDir, TrainConfig, TrainDevice, dry_run, keep_freed_memory, train,
};

/// Arguments of `dpr train`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr train --config configs/nq-paper.toml --model model/ --data train.json.gz --dev dev.json.gz --out run/
  dpr train --config configs/small-cpu.toml --model model/ --data train.json.gz --out run/ --dry-run
  dpr train --resume --out run/

The run directory holds config.toml, metrics.jsonl, loss.svg, dev.svg, checkpoints/ and best/, a model directory
for `dpr encode`, `dpr export-web` and `dpr serve`. Ctrl-C writes a checkpoint; after a kill, --resume goes on from
the last one, and every step is as it would have been.")]
pub struct Args {
    /// Settings as TOML; without it the paper's, and those of the flags
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    config: Option<PathBuf>,
    /// Run directory to write, or to continue
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// Go on with the run in --out, with its settings
    #[arg(long)]
    resume: bool,
    /// Read and check everything, compute the batch of longest passages once, and say what a run would take
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Model directory to start from
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: Option<PathBuf>,
    /// DPR training json, in place of the configuration's; may be given again
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    data: Vec<PathBuf>,
    /// Dev questions as DPR training json, in place of the configuration's; may be given again
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    dev: Vec<PathBuf>,
    /// Questions in a batch
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Times every question is seen
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Stop after this many steps
    #[arg(long, value_name = "N")]
    max_steps: Option<usize>,
    /// Learning rate at the end of the warm-up
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,
    /// Steps in which the learning rate rises
    #[arg(long, value_name = "N")]
    warm_up: Option<usize>,
    /// What scores are divided by
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// How two vectors make a score: dot, cosine or l2
    #[arg(long, value_name = "NAME", value_parser = similarity)]
    similarity: Option<Similarity>,
    /// Negatives a question brings into the batch
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    /// Decides the order of the questions, the negatives and dropout
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Steps between two checkpoints
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<usize>,
    /// Threads on the CPU
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where to compute: auto (a real GPU, else the CPU), wgpu, or cpu
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

fn similarity(text: &str) -> Result<Similarity, String> {
    match text {
        "dot" => Ok(Similarity::Dot),
        "cosine" => Ok(Similarity::Cosine),
        "l2" => Ok(Similarity::L2),
        other => Err(format!("unknown similarity {other:?}: it is one of dot, cosine, l2")),
    }
}

impl Args {
    /// The configuration with the flags over it.
    fn settings(&self) -> Result<TrainConfig, CliError> {
        let mut config = match (&self.config, &self.out) {
            (Some(path), _) => TrainConfig::read(path)?,
            (None, Some(out)) if self.resume => RunDir::config(out)?,
            _ => TrainConfig::default(),
        };
        fn set<T: Copy>(setting: &mut T, flag: Option<T>) {
            *setting = flag.unwrap_or(*setting);
        }
        if let Some(model) = &self.model {
            config.model.start.clone_from(model);
        }
        if !self.data.is_empty() {
            config.data.train =
                self.data.iter().map(|path| DataFile { path: path.clone(), weight: 1.0 }).collect();
        }
        if !self.dev.is_empty() {
            config.data.dev.clone_from(&self.dev);
        }
        set(&mut config.data.negatives_per_question, self.negatives);
        set(&mut config.run.batch_size, self.batch_size);
        set(&mut config.run.epochs, self.epochs);
        set(&mut config.run.max_steps, self.max_steps);
        set(&mut config.run.seed, self.seed);
        set(&mut config.run.checkpoint_every, self.checkpoint_every);
        set(&mut config.optimiser.learning_rate, self.learning_rate);
        set(&mut config.optimiser.warm_up, self.warm_up);
        set(&mut config.objective.temperature, self.temperature);
        set(&mut config.objective.similarity, self.similarity);
        set(&mut config.compute.threads, self.threads);
        Ok(config)
    }
}

/// Runs `dpr train`.
///
/// # Errors
/// When the settings, the data or the model cannot be used, the loss stops being a number, the directory cannot be
/// written, or on Ctrl-C.
pub fn run(args: Args) -> Result<(), CliError> {
    let mut config = args.settings()?;
    keep_freed_memory();
    let device = TrainDevice::open(args.device)?;
    if config.compute.threads == 0 && !device.gpu {
        // Written down, so that a resumed run adds up in the same order on a machine with another number.
        config.compute.threads = std::thread::available_parallelism().map_or(1, usize::from);
    }
    if args.dry_run {
        let found = dry_run(&config, &device)?;
        warn(&found.notes);
        return if args.json { output::json(&found) } else { tell(&found, &config, &device.name) };
    }
    let Some(out) = &args.out else { return Err("--out is missing".into()) };
    if !args.resume {
        RunDir::refuse_existing(out)?;
    }
    let prepared = Prepared::new(&config, &device)?;
    warn(&prepared.notes);
    let (stop, progress) = (stop_on_interrupt(), progress::on_stderr());
    let report = train(&config, out, args.resume, prepared, &device, &stop, progress.as_ref())?;
    if args.json {
        return output::json(&report);
    }
    output::line(format_args!(
        "{}: {} steps, {} of them now, {:.1} questions/s on {}",
        out.display(),
        report.steps,
        report.steps_now,
        report.questions_per_second,
        device.name
    ))?;
    if let Some(scores) = &report.at_start {
        output::line(format_args!("at the start: {}", scores_line(scores)))?;
    }
    if let Some(best) = &report.best {
        output::line(format_args!("best, after step {}: {}", best.step, scores_line(&best.scores)))?;
    }
    output::line(format_args!("model directory: {}", report.model.display()))
}

fn warn(notes: &[String]) {
    notes.iter().for_each(|note| tracing::warn!("{note}"));
}

fn scores_line(scores: &DevScores) -> String {
    format!(
        "average rank {:.2} of {}, top-1 {:.1}%, top-5 {:.1}%, loss {:.3}, on {} questions",
        scores.average_rank,
        scores.passages,
        scores.top1 * 100.0,
        scores.top5 * 100.0,
        scores.loss,
        scores.questions
    )
}

fn tell(found: &crate::train::DryRun, config: &TrainConfig, device: &str) -> Result<(), CliError> {
    output::line(format_args!(
        "{} questions, {} dev questions, {} passages; {} numbers to train on {device}",
        found.questions, found.dev_questions, found.passages, found.parameters
    ))?;
    output::line(format_args!(
        "{} steps of {} questions in an epoch, {} in all",
        found.steps_per_epoch,
        config.run.batch_size * config.run.accumulate,
        found.steps
    ))?;
    let memory = found.peak_memory.map_or("unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let whole = found.seconds * (found.steps * config.run.accumulate) as f64;
    output::line(format_args!(
        "the batch of longest passages: {} texts, {} tokens, loss {:.3}, {:.1} s, peak memory {memory}",
        found.batch_texts, found.batch_tokens, found.loss, found.seconds
    ))?;
    output::line(format_args!(
        "at most {:.1} h in all at that speed; nothing was written",
        Duration::from_secs_f64(whole).as_secs_f64() / 3600.0
    ))
}
