//! `dpr eval answers`: exact match and F1 of predicted answers.

use std::path::PathBuf;

use clap::ValueEnum;

use super::super::{CliError, output};
use dpr_data::read_questions;
use dpr_eval::{ReadingReport, ReadingRules, measure_reading, read_predictions};

/// Arguments of `dpr eval answers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval answers --questions squad-dev-v1.1.json --predictions predictions.json
Example, scored by character as KorQuAD is:
  dpr eval answers --questions korquad-dev-v1.0.json --predictions predictions.json --rules korquad")]
pub(super) struct Args {
    /// Questions with their answers: SQuAD or KorQuAD json, also .gz
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,
    /// Predicted answers: one JSON object, question id to answer text, also .gz
    #[arg(long, value_name = "FILE")]
    predictions: PathBuf,
    /// Whose rules decide when two answers are the same
    #[arg(long, value_enum, default_value_t = Rules::Squad)]
    rules: Rules,
    /// Print JSON; figures from 0 to 1
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rules {
    /// SQuAD v1.1: words, without punctuation and English articles
    Squad,
    /// KorQuAD 1.0: characters
    Korquad,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let rules = match args.rules {
        Rules::Squad => ReadingRules::Squad,
        Rules::Korquad => ReadingRules::KorQuad,
    };
    let questions = read_questions(&args.questions)?;
    let predictions = read_predictions(&args.predictions)?;
    let report = measure_reading(&questions, &predictions, rules)?;
    if args.json { output::json(&report) } else { output::print(&table(&report)) }
}

fn table(report: &ReadingReport) -> String {
    let ReadingReport { questions, exact_match, f1, missing, unknown, .. } = report;
    let mut lines = vec![
        format!("{questions} questions"),
        format!("EM {:6.2} %", exact_match * 100.0),
        format!("F1 {:6.2} %", f1 * 100.0),
    ];
    if *missing > 0 {
        lines.push(format!("{missing} questions have no prediction; each counts 0"));
    }
    if *unknown > 0 {
        lines.push(format!("{unknown} predictions are for no question of the set; they do not count"));
    }
    lines.push(String::new());
    lines.join("\n")
}
