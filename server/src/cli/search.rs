//! `dpr search`: questions on the command line, for operators and scripts.

use std::path::{Path, PathBuf};

use dpr_core::{DeviceChoice, TextEncoder};
use serde::Serialize;

use super::{CliError, output};
use crate::data::read_questions;
use crate::encode::{PipelineOptions, encode_questions};
use crate::index::{IndexError, LoadedIndex};
use crate::model::ModelDir;
use crate::progress;
use crate::search::{Hit, Searcher};

/// Characters of a passage that the table shows.
const SHOWN: usize = 160;

/// Arguments of `dpr search`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr search --model model/ --index index/ \"who won super bowl 50\"
  dpr search --model model/ --index index/ --k 100 --questions questions.txt > hits.jsonl")]
pub struct Args {
    /// Model directory, as `dpr import` wrote it
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: PathBuf,
    /// Index directory, as `dpr index` wrote it
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Passages to return; all of them when the index holds fewer
    #[arg(long, value_name = "N", default_value = "10")]
    k: usize,
    /// Where to encode: auto (a real GPU, else the CPU), wgpu, cpu, or flex (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Search every question of a file (SQuAD json, BEIR queries.jsonl, or one a line) and print one JSON line each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["question", "json"])]
    questions: Option<PathBuf>,
    /// The question
    #[arg(required_unless_present = "questions")]
    question: Option<String>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    question: &'a str,
    model: &'a str,
    device: &'a str,
    hits: &'a [Hit],
}

/// A line of `--questions`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    question: &'a str,
    hits: Vec<LineHit<'a>>,
}

#[derive(Debug, Serialize)]
struct LineHit<'a> {
    id: &'a str,
    score: f32,
}

/// Runs `dpr search`.
///
/// # Errors
/// When the question is empty, `k` is 0, or the index was built by another model.
pub fn run(args: Args) -> Result<(), CliError> {
    if args.k == 0 {
        return Err(IndexError::K.into());
    }
    let (searcher, encoder) = open(&args.model, &args.index, args.device)?;
    match (&args.question, &args.questions) {
        (_, Some(file)) => search_file(&searcher, &encoder, file, args.k),
        (Some(question), None) => {
            let hits = searcher.search(&encoder.encode_question(question)?, args.k)?;
            if args.json {
                let (model, device) = (searcher.model_fingerprint(), encoder.device_name());
                return output::json(&Answer { question, model, device, hits: &hits });
            }
            let mut table = String::new();
            for (rank, hit) in hits.iter().enumerate() {
                table.push_str(&row(rank + 1, hit));
            }
            output::print(&table)
        }
        (None, None) => Err("give a question, or --questions FILE".into()),
    }
}

/// Opens an index and the question encoder that belongs to it.
pub(super) fn open(
    model: &Path,
    index: &Path,
    device: DeviceChoice,
) -> Result<(Searcher, TextEncoder), CliError> {
    let searcher = Searcher::new(LoadedIndex::open(index)?);
    let model = ModelDir::open(model)?;
    searcher.check_model(&model.manifest().fingerprint)?;
    let encoder = model.question_encoder(device)?;
    Ok((searcher, encoder))
}

fn search_file(searcher: &Searcher, encoder: &TextEncoder, file: &Path, k: usize) -> Result<(), CliError> {
    let questions = read_questions(file)?;
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    let options = PipelineOptions::for_device(encoder.device_name(), None, None);
    let vectors = encode_questions(encoder, &texts, options, progress::on_stderr().as_ref())?;
    // In blocks: output begins early, and hits with their texts are not all in memory at once.
    for (questions, vectors) in questions.chunks(256).zip(vectors.chunks(256)) {
        let found = searcher.index().index.search_batch(vectors, k)?;
        let mut lines = String::new();
        for (question, rows) in questions.iter().zip(found) {
            let hits = rows
                .iter()
                .map(|hit| LineHit { id: &searcher.index().passage(hit.row).id, score: hit.score });
            let line = Line { id: &question.id, question: &question.text, hits: hits.collect() };
            lines.push_str(&serde_json::to_string(&line)?);
            lines.push('\n');
        }
        output::print(&lines)?;
    }
    Ok(())
}

fn row(rank: usize, hit: &Hit) -> String {
    let mut text = hit.text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    format!("{rank:>4}  {:>9.4}  {}  [{}]\n      {text}\n", hit.score, hit.title, hit.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_table_is_cut_at_a_character() {
        let hit =
            Hit { id: "3-1".into(), score: 0.5, title: "한국".into(), text: "가나다 ".repeat(100) };
        let row = row(1, &hit);
        assert!(row.starts_with("   1     0.5000  한국  [3-1]\n      가나다 가나다"), "{row}");
        assert_eq!(row.lines().nth(1).unwrap().trim_start().chars().count(), SHOWN + 1);
    }
}
