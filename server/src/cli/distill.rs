//! `dpr distill`: a large question encoder to a small one for the browser.

use std::path::PathBuf;

use clap::ArgAction;

use super::train_args::{TrainArgs, set, set_start, warn};
use super::{CliError, stop_on_interrupt};
use crate::cli::progress;
use dpr_encode::model::WebFormat;
use dpr_files::Job;
use dpr_train::{DistillConfig, DistillPrepared, TrainDevice, distill, keep_freed_memory};

/// Arguments of `dpr distill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr import --question minilm/ --out small/ --project 768
  dpr distill --teacher mpnet-model/ --model small/ --questions nq-dev.tsv --vectors vectors/ --out run/
  dpr export-web --model run/best/
  dpr serve --model run/best/ --index index-of-the-teacher/

The student learns to give each question the vector that the teacher gives it. Answers are not looked at: any questions
do, the more like your users' the better. run/best/ is a model directory with the student as question encoder and
the teacher's passage encoder; it searches the indexes that the teacher's vectors were put in.")]
pub struct Args {
    /// Settings as TOML; without it the defaults, and those of the flags
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Model directory whose question encoder is imitated and whose passage encoder is kept
    #[arg(long, value_name = "DIR")]
    teacher: Option<PathBuf>,
    /// Model directory whose question encoder the student starts as; its vectors are as long as the teacher's. Where
    /// neither this nor the configuration names one, that of DPR_MODEL in the environment
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Questions, as `dpr search` takes them, or training data, whose questions are taken; in place of the
    /// configuration's; may be given again
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    questions: Vec<PathBuf>,
    /// Questions to measure with; without them some of the others are held out
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    dev: Vec<PathBuf>,
    /// Vectors that the teacher made of passages, so that the student also learns what they rank like; may be given
    /// again, for shards
    #[arg(long, value_name = "DIR", action = ArgAction::Append)]
    vectors: Vec<PathBuf>,
    /// Train for weights that pages have in this format, f16, q8 or q4 (`dpr export-web --dtype`): they are rounded to
    /// it in every step; on the CPU
    #[arg(long, value_name = "FORMAT")]
    dtype: Option<WebFormat>,
    #[command(flatten)]
    run: TrainArgs,
}

impl Args {
    /// The configuration with the flags over it.
    fn settings(&self) -> Result<DistillConfig, CliError> {
        let mut config: DistillConfig = self.run.settings(self.config.as_deref())?;
        self.run.apply(&mut config.run, &mut config.optimiser, &mut config.compute);
        set(&mut config.model.teacher, self.teacher.clone());
        set_start(&mut config.model.start, self.model.as_ref());
        config.model.dtype = self.dtype.or(config.model.dtype);
        let data = &mut config.data;
        for (setting, flag) in [
            (&mut data.questions, &self.questions),
            (&mut data.dev, &self.dev),
            (&mut data.vectors, &self.vectors),
        ] {
            if !flag.is_empty() {
                setting.clone_from(flag);
            }
        }
        Ok(config)
    }
}

/// Runs `dpr distill`.
///
/// # Errors
/// When the settings, the questions or the models cannot be used, the loss stops being a number, the directory cannot
/// be written, or on Ctrl-C.
pub fn run(args: Args) -> Result<(), CliError> {
    let mut config = args.settings()?;
    keep_freed_memory();
    let device = TrainDevice::open(args.run.device)?;
    args.run.write_down_threads(&mut config.compute, &device);
    let out = args.run.out(&config)?;
    let progress = progress::on_stderr();
    // Nothing is written yet, so that Ctrl-C may end the program while the teacher encodes.
    let prepared = DistillPrepared::new(&config, args.run.device, &device, progress.as_ref())?;
    warn(&prepared.notes);
    let stop = stop_on_interrupt();
    let job = Job { stop: &stop, progress: progress.as_ref() };
    let report = distill(&config, out, args.run.resume, prepared, &device, job)?;
    args.run.tell(&report, out, &device.name)
}
