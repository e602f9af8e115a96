//! `dpr train`: questions and passages to better encoders.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use dpr_core::Similarity;

use super::train_args::{TrainArgs, set, warn, write_down_threads};
use super::{CliError, output, stop_on_interrupt};
use crate::cli::progress;
use dpr_files::Job;
use dpr_train::{DataFile, Prepared, TrainConfig, TrainDevice, dry_run, keep_freed_memory, train};

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
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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
    /// What scores are divided by
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// How two vectors make a score: dot, cosine or l2
    #[arg(long, value_name = "NAME", value_parser = similarity)]
    similarity: Option<Similarity>,
    /// Negatives a question brings into the batch
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    #[command(flatten)]
    run: TrainArgs,
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
        let mut config: TrainConfig = self.run.settings(self.config.as_deref())?;
        self.run.apply(&mut config.run, &mut config.optimiser, &mut config.compute);
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
        set(&mut config.objective.temperature, self.temperature);
        set(&mut config.objective.similarity, self.similarity);
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
    let device = TrainDevice::open(args.run.device)?;
    write_down_threads(&mut config.compute, &device);
    if args.dry_run {
        let found = dry_run(&config, &device)?;
        warn(&found.notes);
        return if args.run.json { output::json(&found) } else { tell(&found, &config, &device.name) };
    }
    let out = args.run.out()?;
    let prepared = Prepared::new(&config, &device)?;
    warn(&prepared.notes);
    let (stop, progress) = (stop_on_interrupt(), progress::on_stderr());
    let job = Job { stop: &stop, progress: progress.as_ref() };
    let report = train(&config, out, args.run.resume, prepared, &device, job)?;
    args.run.tell(&report, &device.name)
}

fn tell(found: &dpr_train::DryRun, config: &TrainConfig, device: &str) -> Result<(), CliError> {
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
