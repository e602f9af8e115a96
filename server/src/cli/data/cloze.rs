//! `dpr data ict`

use std::path::PathBuf;

use super::super::{CliError, output};
use crate::cli::args::at_least_one;
use dpr_data::check_not_input;
use dpr_train::mine::{ClozeOptions, cloze};

/// Arguments of `dpr data ict`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, from a corpus to encoders that know it, without one question:
  dpr data ict --passages passages.tsv --out ict.json.gz
  dpr train --config configs/ict.toml --model model/ --data ict.json.gz --out run/")]
pub(super) struct Args {
    /// Passages: psgs_w100.tsv order, BEIR corpus.jsonl, or SQuAD json; each also .gz
    #[arg(long, value_name = "FILE")]
    passages: PathBuf,
    /// DPR training json to write; gzip-compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Share of the passages that keep the sentence that is asked by
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    keep: f64,
    /// Passages to use, at most, drawn from the whole corpus
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    limit: Option<usize>,
    /// Decides the sentences
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    check_not_input(&args.out, &args.passages)?;
    if !(0.0..=1.0).contains(&args.keep) {
        return Err(format!("--keep is {}; it must be from 0 to 1", args.keep).into());
    }
    let options =
        ClozeOptions { keep: args.keep, limit: args.limit, seed: args.seed, ..ClozeOptions::default() };
    let report = cloze(&args.passages, &args.out, &options)?;
    if args.json {
        return output::json(&report);
    }
    output::line(format_args!(
        "{} items of {} blocks, {} too short: {}",
        report.items,
        report.blocks,
        report.too_short,
        args.out.display()
    ))
}
