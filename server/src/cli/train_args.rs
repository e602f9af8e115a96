//! Parts that `dpr train` and `dpr distill` share: flags over the settings of a run, and the text that they print at
//! its end.

use std::path::{Path, PathBuf};
use std::{env, thread};

use dpr_core::DeviceChoice;

use super::{CliError, output};
use dpr_train::{
    Best, Metric, OptimiserOptions, Precision, RunDir, RunOptions, Scores, Settings, StepOptions,
    TrainDevice, TrainReport,
};

/// The environment variable that names a model directory.
const MODEL: &str = "DPR_MODEL";

/// Flags over the settings of a run.
#[derive(Debug, clap::Args)]
pub(super) struct TrainArgs {
    /// Run directory to write, or to continue
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Go on with the run in --out, with its settings
    #[arg(long, conflicts_with = "config", requires = "out")]
    pub(super) resume: bool,
    /// Questions in a batch
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Times every question is seen
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Stop after this many steps; 0: no limit
    #[arg(long, value_name = "N")]
    max_steps: Option<usize>,
    /// Learning rate at the end of the warm-up
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,
    /// Steps in which the learning rate rises
    #[arg(long, value_name = "N")]
    warm_up: Option<usize>,
    /// Decides the order of the questions and all that is drawn
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Steps between two checkpoints
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<usize>,
    /// Threads on the CPU, at most 1024; 0: one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    /// Numbers that the layers multiply: f32, f16 or bf16 on a GPU that has it, or bf16 on the CPU (fast with AMX or
    /// AVX-512 BF16)
    #[arg(long, value_name = "PRECISION")]
    precision: Option<Precision>,
    /// Where to compute: auto (a real GPU, else the CPU), wgpu, or cpu
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    pub(super) device: DeviceChoice,
    /// Print a summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl TrainArgs {
    /// The settings in `file`, or those of the run that goes on, or the defaults.
    pub(super) fn settings<C: Settings>(&self, file: Option<&Path>) -> Result<C, CliError> {
        Ok(match (file, &self.out) {
            (Some(path), _) => C::read(path)?,
            (None, Some(out)) if self.resume => RunDir::config(out)?,
            _ => C::default(),
        })
    }

    /// Sets what flags were given for.
    pub(super) fn apply(
        &self,
        run: &mut RunOptions,
        optimiser: &mut OptimiserOptions,
        compute: &mut StepOptions,
    ) {
        set(&mut run.batch_size, self.batch_size);
        set(&mut run.epochs, self.epochs);
        set(&mut run.max_steps, self.max_steps);
        set(&mut run.seed, self.seed);
        set(&mut run.checkpoint_every, self.checkpoint_every);
        set(&mut optimiser.learning_rate, self.learning_rate);
        set(&mut optimiser.warm_up, self.warm_up);
        set(&mut compute.threads, self.threads.map(usize::from));
        set(&mut compute.precision, self.precision);
    }

    /// The run directory: for a new run one with nothing else in it, for one that goes on one of these settings.
    pub(super) fn out<C: Settings>(&self, config: &C) -> Result<&Path, CliError> {
        let Some(out) = &self.out else {
            return Err("--out is missing: name the run directory to write".into());
        };
        if self.resume {
            RunDir::check_begun(out, config)?;
        } else {
            RunDir::check_new(out)?;
        }
        Ok(out)
    }

    /// Writes down how many threads the CPU gives, so that a resumed run adds up in the same order on a machine with
    /// another number. A run that goes on has the number that it began with, which is 0 where that was on a GPU.
    pub(super) fn write_down_threads(&self, compute: &mut StepOptions, device: &TrainDevice) {
        if compute.threads == 0 && !device.gpu && !self.resume {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            compute.threads = processors.min(StepOptions::MAX_THREADS);
        }
    }

    /// Says what a run did.
    pub(super) fn tell(&self, report: &TrainReport, out: &Path, device: &str) -> Result<(), CliError> {
        let at_start = report.at_start.or_else(|| scores_at_start(out));
        if let Some(warning) = at_start.zip(report.best).and_then(|(start, best)| worse_than(&start, &best)) {
            tracing::warn!("{warning}");
        }
        if self.json {
            return output::json(report);
        }
        let out = out.display();
        output::line(format_args!(
            "{out}: {} steps, {} of them now, {:.1} questions/s on {device}",
            report.steps, report.steps_now, report.questions_per_second,
        ))?;
        if report.skipped > 0 {
            let skipped = report.skipped;
            output::line(format_args!("{skipped} steps did not fit half precision and were skipped"))?;
        }
        if let Some(scores) = &report.at_start {
            output::line(format_args!("at the start: {}", scores_line(scores)))?;
        }
        if let Some(best) = &report.best {
            output::line(format_args!("best, after step {}: {}", best.step, scores_line(&best.scores)))?;
        }
        output::line(format_args!("model directory: {}", report.model.display()))
    }
}

/// Sets what a flag was given for.
pub(super) fn set<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

/// Sets the model directory that training starts from: the flag's, else that of the settings, else that of `DPR_MODEL`
/// in the environment.
pub(super) fn set_start(start: &mut PathBuf, flag: Option<&PathBuf>) {
    match flag {
        Some(path) => start.clone_from(path),
        None if start.as_os_str().is_empty() => *start = env::var_os(MODEL).unwrap_or_default().into(),
        None => {}
    }
}

pub(super) fn warn(notes: &[String]) {
    notes.iter().for_each(|note| tracing::warn!("{note}"));
}

/// Returns the scores that a run measured before its first step, which its metrics keep.
fn scores_at_start(out: &Path) -> Option<Scores> {
    let metrics = fs_err::read_to_string(out.join("metrics.jsonl")).ok()?;
    metrics.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(Metric::Dev(dev)) if dev.step == 0 => Some(dev.scores),
        _ => None,
    })
}

/// Returns a warning where the best model of a run is worse than the one that it started from.
fn worse_than(start: &Scores, best: &Best) -> Option<String> {
    let ((name, at_start, less_is_better), (_, at_best, _)) = (chosen_by(start), chosen_by(&best.scores));
    let is_worse = if less_is_better { at_best > at_start } else { at_best < at_start };
    is_worse.then(|| {
        let step = best.step;
        format!(
            "{name} was {at_start:.4} at the start and is {at_best:.4} at best, after step {step}: the model that the \
             run started from is better than the one that it wrote; try a lower --learning-rate or more steps"
        )
    })
}

/// Returns the measure by which the best model is chosen: its name, its value, and whether less is better.
fn chosen_by(scores: &Scores) -> (&'static str, f64, bool) {
    match scores {
        Scores::Retrieval(scores) => ("average rank", scores.average_rank, true),
        Scores::Reader(scores) => ("EM", scores.exact_match, false),
        Scores::Reranker(scores) => ("reciprocal rank", scores.reciprocal_rank, false),
        Scores::Student(scores) => ("cosine to the teacher", scores.cosine, false),
    }
}

fn scores_line(scores: &Scores) -> String {
    match scores {
        Scores::Retrieval(scores) => format!(
            "average rank {:.2} of {}, top-1 {:.1}%, top-5 {:.1}%, loss {:.3}, on {} questions",
            scores.average_rank,
            scores.passages,
            scores.top1 * 100.0,
            scores.top5 * 100.0,
            scores.loss,
            scores.questions
        ),
        Scores::Reader(scores) => format!(
            "EM {:.1}%, F1 {:.1}%, EM in the positive {:.1}%, positive chosen {:.1}%, loss {:.3}, on {} questions",
            scores.exact_match * 100.0,
            scores.f1 * 100.0,
            scores.gold_exact_match * 100.0,
            scores.selected * 100.0,
            scores.loss,
            scores.questions
        ),
        Scores::Reranker(scores) => format!(
            "reciprocal rank {:.4}, positive first {:.1}%, loss {:.3}, on {} questions",
            scores.reciprocal_rank,
            scores.first * 100.0,
            scores.loss,
            scores.questions
        ),
        Scores::Student(scores) => {
            let shared = scores
                .shared
                .map(|shared| format!(", {:.1}% of the teacher's best 20 passages", shared * 100.0));
            format!(
                "cosine to the teacher {:.4}{}, loss {:.3}, on {} questions",
                scores.cosine,
                shared.unwrap_or_default(),
                scores.loss,
                scores.questions
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use dpr_train::StudentScores;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: TrainArgs,
    }

    #[test]
    fn more_threads_than_a_run_may_have_are_refused() {
        let parse = |count: usize| {
            let line = Line::try_parse_from(["train", "--threads", &count.to_string()]);
            line.map(|line| line.args.threads.map(usize::from))
        };
        for count in [0, 1, StepOptions::MAX_THREADS] {
            assert_eq!(parse(count).unwrap(), Some(count));
        }
        assert!(parse(StepOptions::MAX_THREADS + 1).unwrap_err().to_string().contains("1024"));
    }

    #[test]
    fn a_best_model_that_is_worse_than_the_start_is_told_with_both_measures() {
        let scores =
            |cosine| Scores::Student(StudentScores { questions: 40, cosine, shared: None, loss: 0.1 });
        let warning = |at_best| worse_than(&scores(0.7252), &Best { step: 60, scores: scores(at_best) });
        let said = warning(0.6855).unwrap();
        assert!(said.contains("0.7252 at the start and is 0.6855 at best, after step 60"), "{said}");
        assert_eq!((warning(0.7252), warning(0.73)), (None, None));
    }
}
