//! `dpr eval`: how good retrieval is, measured.

use std::path::PathBuf;
use std::time::Instant;

use clap::Subcommand;
use dpr_core::DeviceChoice;
use serde::Serialize;

use super::search::open;
use super::{CliError, output};
use crate::data::read_questions;
use crate::encode::{PipelineOptions, encode_questions};
use crate::eval::{Recall, RetrievalReport, gold_accuracy, gold_passages, recall};
use crate::index::VectorIndex as _;
use crate::progress;

/// The least number of passages searched for: the reciprocal rank looks at ten.
const LEAST: usize = 10;

/// Passages that recall against exact search looks at.
const RECALL_AT: usize = 20;

/// Arguments of `dpr eval`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval retrieval --model model/ --index index/ --questions squad-dev-v1.1.json")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Top-k accuracy of the gold passage: for how many questions it is among the first k
    Retrieval(RetrievalArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval retrieval --model model/ --index index/ --questions squad-dev-v1.1.json --k 1,5,20,100
Example, what the graph of an HNSW index misses:
  dpr eval retrieval --model model/ --index index/ --questions squad-dev-v1.1.json --against-exact")]
struct RetrievalArgs {
    /// Model directory, as `dpr import` wrote it
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: PathBuf,
    /// Index directory, as `dpr index` wrote it
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Questions that name their gold passage: SQuAD json, also .gz
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,
    /// Ranks to report
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "1,5,20",
          value_parser = clap::value_parser!(u32).range(1..))]
    k: Vec<u32>,
    /// Only the first N questions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Also compare with exact search on the same vectors: recall@20
    #[arg(long)]
    against_exact: bool,
    /// Worker threads for encoding [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to encode: auto (a real GPU, else the CPU), wgpu, cpu, or flex (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    model: &'a str,
    device: &'a str,
    index_kind: String,
    passages: usize,
    #[serde(flatten)]
    retrieval: RetrievalReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall_against_exact: Option<Recall>,
    encode_seconds: f64,
    encoded_per_second: f64,
    search_seconds: f64,
    searched_per_second: f64,
}

/// Runs `dpr eval`.
///
/// # Errors
/// When the questions name no gold passages, or the index was built by another model or of another corpus.
pub fn run(args: Args) -> Result<(), CliError> {
    match args.what {
        What::Retrieval(args) => retrieval(args),
    }
}

fn retrieval(args: RetrievalArgs) -> Result<(), CliError> {
    let mut questions = read_questions(&args.questions)?;
    if let Some(limit) = args.limit {
        questions.truncate(limit as usize);
    }
    gold_passages(&questions)?;
    let (searcher, encoder) = open(&args.model, &args.index, args.device)?;
    let loaded = searcher.index();
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    let options = PipelineOptions::for_device(encoder.device_name(), None, args.threads.map(usize::from));

    let started = Instant::now();
    let vectors = encode_questions(&encoder, &texts, options, progress::on_stderr().as_ref())?;
    let encode_seconds = started.elapsed().as_secs_f64();

    let ks: Vec<usize> = args.k.iter().map(|k| *k as usize).collect();
    let least = if args.against_exact { RECALL_AT } else { LEAST };
    let depth = ks.iter().copied().fold(least, usize::max);
    let started = Instant::now();
    let found = loaded.index.search_batch(&vectors, depth)?;
    let search_seconds = started.elapsed().as_secs_f64();

    let retrieval = gold_accuracy(&questions, &found, loaded, &ks)?;
    let recall_against_exact = if args.against_exact {
        let exact = loaded.exact().search_batch(&vectors, RECALL_AT)?;
        Some(recall(&found, &exact, RECALL_AT))
    } else {
        None
    };
    let per_second = |seconds: f64| if seconds > 0.0 { texts.len() as f64 / seconds } else { 0.0 };
    let report = Report {
        model: searcher.model_fingerprint(),
        device: encoder.device_name(),
        index_kind: loaded.index.kind().to_string(),
        passages: loaded.index.len(),
        retrieval,
        recall_against_exact,
        encode_seconds,
        encoded_per_second: per_second(encode_seconds),
        search_seconds,
        searched_per_second: per_second(search_seconds),
    };
    if args.json {
        output::json(&report)?;
    } else {
        output::print(&table(&report))?;
    }
    Ok(())
}

fn table(report: &Report<'_>) -> String {
    let Report { retrieval, index_kind, passages, device, .. } = report;
    let mut lines = vec![format!(
        "{} questions, {passages} passages, {index_kind} index, questions encoded on {device}",
        retrieval.questions
    )];
    for top in &retrieval.top_k {
        lines.push(format!("top-{:<5} {:6.2} %", top.k, top.accuracy * 100.0));
    }
    lines.push(format!("MRR@10    {:6.4}", retrieval.mrr_at_10));
    if let Some(recall) = &report.recall_against_exact {
        let Recall { k, mean, perfect, worst } = recall;
        lines.push(format!("recall@{k} {mean:6.4} against exact search ({:.2} % of the questions have all, the worst {worst:.2})", perfect * 100.0));
    }
    if retrieval.gold_not_in_index > 0 {
        lines.push(format!(
            "{} questions' gold passages are not in the index; they count as not found",
            retrieval.gold_not_in_index
        ));
    }
    lines.push(format!(
        "encoded {:.1} questions/s ({:.1} s), searched {:.0} questions/s ({:.2} s)",
        report.encoded_per_second, report.encode_seconds, report.searched_per_second, report.search_seconds
    ));
    lines.push(String::new());
    lines.join("\n")
}
