//! `dpr data convert`

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::super::{CliError, output};
use dpr_data::{ConvertOptions, Converted, FileFormat, convert};

/// Arguments of `dpr data convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr data convert --input squad-train-v1.1.json --out corpus.jsonl --to beir-corpus
  dpr data convert --input train.json.gz --out train.jsonl --to tevatron-v1 --lossy

Formats that mean the same:
  passages   psgs-tsv, beir-corpus, tevatron-corpus, tevatron-corpus-v1; read only: squad
  questions  qa-tsv, beir-queries; read only: squad, curated-trec, web-questions, plain-questions
  training   dpr-training, tevatron-v1, tevatron-v2
  judgements trec-qrels, beir-qrels

Tevatron's lines of queries, query_id with query or query_text, are read as beir-queries.")]
pub(super) struct Args {
    /// The file to read, plain or gzip-compressed
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Its format [default: told by its beginning]
    #[arg(long, value_name = "FORMAT")]
    from: Option<FileFormat>,
    /// The file to write; gzip-compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Its format
    #[arg(long, value_name = "FORMAT")]
    to: FileFormat,
    /// The corpus that the ids of tevatron-v2 are of
    #[arg(long, value_name = "FILE")]
    passages: Option<PathBuf>,
    /// Leave out what the new format has no place for; without this the file is refused
    #[arg(long)]
    lossy: bool,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    from: &'static str,
    to: &'static str,
    items: usize,
    /// What was left out, and of how many items.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    lost: BTreeMap<&'static str, usize>,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let from = match args.from {
        Some(format) => format,
        None => FileFormat::detect(&args.input)?,
    };
    let options = ConvertOptions { lossy: args.lossy, passages: args.passages };
    let Converted { items, lost } = convert(&args.input, from, &args.out, args.to, &options)?;
    if args.json {
        return output::json(&Report { from: from.name(), to: args.to.name(), items, lost });
    }
    output::line(format_args!("{items} items, {from} to {}: {}", args.to, args.out.display()))?;
    lost.iter().try_for_each(|(what, count)| output::line(format_args!("left out, of {count} items: {what}")))
}
