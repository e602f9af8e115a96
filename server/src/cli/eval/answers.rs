//! `dpr eval answers`: exact match and F1 of predicted answers, or of those that a reader finds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{ArgAction, ValueEnum};
use rayon::prelude::*;
use serde::Serialize;

use super::super::args::DeviceArgs;
use super::super::reading::{ReadArgs, Reading};
use super::super::{CliError, output, progress};
use super::result_files;
use super::retrieved::RetrieveArgs;
use crate::cli::output::counted;
use dpr_data::{Answers, Question, RetrievedContext, RetrieverResult, read_passages, read_questions};
use dpr_eval::{
    Curve, DEFAULT_DEPTHS, DepthReport, EvalError, ReadPassage, ReadQuestion, ReadingReport, ReadingRules,
    TopK, measure_depths, measure_reading, read_predictions, reading_svg,
};

/// Arguments of `dpr eval answers`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("answers").required(true))]
#[command(after_help = "\
Example:
  dpr eval answers --questions squad-dev-v1.1.json --predictions predictions.json
Example, scored by character as KorQuAD is:
  dpr eval answers --questions korquad-dev-v1.0.json --predictions predictions.json --rules korquad
Example, what a reader answers from the first passages that a search found:
  dpr eval retrieval --model model/ --index index/ --questions nq-test.tsv --out results/
  dpr eval answers --reader reader/ --results results/dense.json.gz
Example, what it answers from the paragraph that each question was asked about:
  dpr eval answers --reader reader/ --questions squad-dev-v1.1.json
Example, what it answers from what three searches find, with a picture:
  dpr eval answers --reader reader/ --questions nq-test.tsv --retrieve bm25,dense,hybrid --model model/ --index index/ --plot em.svg
Example, several results side by side:
  dpr eval answers --reader reader/ --results BM25=results/bm25.json.gz --results dense=results/dense.json.gz")]
pub(super) struct Args {
    /// Questions with their answers: SQuAD or KorQuAD json, DPR's question tsv, CuratedTREC, whose patterns a
    /// prediction matches from its beginning, also .gz; a reader reads the paragraph of each, as SQuAD json names it
    #[arg(long, value_name = "FILE", required_unless_present = "results", conflicts_with = "results")]
    questions: Option<PathBuf>,
    /// Predicted answers: one JSON object, question id to answer text, also .gz
    #[arg(long, value_name = "FILE", group = "answers")]
    predictions: Option<PathBuf>,
    /// Model directory of a reader, whose answers are measured in place of predictions
    #[arg(long, value_name = "DIR", group = "answers")]
    reader: Option<PathBuf>,
    /// Questions with their answers and passages for the reader: a retriever result, as `dpr eval retrieval --out` and
    /// DPR write it, also .gz; may be given again. NAME=FILE gives a name, else the file's name is it
    #[arg(long, value_name = "FILE", requires = "reader", action = ArgAction::Append)]
    results: Vec<String>,
    #[command(flatten)]
    retrieve: RetrieveArgs,
    /// The answers in the results are regular expressions (CuratedTREC)
    #[arg(long, requires = "reader")]
    patterns: bool,
    /// Also draw exact match against the number of passages into this SVG file
    #[arg(long, value_name = "FILE", requires = "reader")]
    plot: Option<PathBuf>,
    /// Passages to read, side by side [default: 1,5,10,20,50,100, as far as there are passages]
    #[arg(long, visible_alias = "depth", value_name = "K,...", value_delimiter = ',', requires = "reader",
        value_parser = clap::value_parser!(u32).range(1..))]
    k: Vec<u32>,
    /// Only the first N questions
    #[arg(long, value_name = "N", requires = "reader", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    compute: DeviceArgs,
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

/// The output of `--json` about a reader.
#[derive(Debug, Serialize)]
struct Report<'a> {
    reader: &'a str,
    device: &'a str,
    results: Vec<OfResults>,
}

/// The figures of one file.
#[derive(Debug, Serialize)]
struct OfResults {
    name: String,
    questions: usize,
    depths: Vec<DepthReport>,
    /// Mean seconds that reading all passages of a question takes, without the search.
    seconds_per_question: f64,
    passages_per_second: f64,
}

/// Questions of one file with what was found.
struct RetrievedQuestions {
    name: String,
    questions: Vec<RetrieverResult>,
    /// `true` if the accepted answers are regular expressions, as CuratedTREC's.
    are_patterns: bool,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let rules = match args.rules {
        Rules::Squad => ReadingRules::Squad,
        Rules::Korquad => ReadingRules::KorQuad,
    };
    if let Some(reader) = &args.reader {
        return run_reader(reader, rules, &args);
    }
    // The command line's parser requires both files where --reader is not given.
    let (Some(questions), Some(predictions)) = (&args.questions, &args.predictions) else {
        return Err("give --questions and --predictions, or --reader and --results".into());
    };
    let questions = read_questions(questions)?;
    let predictions = read_predictions(predictions)?;
    let report = measure_reading(&questions, &predictions, rules)?;
    if args.json { output::json(&report) } else { output::print(&table(&report)) }
}

fn run_reader(reader: &Path, rules: ReadingRules, args: &Args) -> Result<(), CliError> {
    result_files::check_plot(args.plot.as_deref())?;
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    let retrieved = args.results.iter().map(|argument| {
        let (name, path) = result_files::named(argument);
        let questions = result_files::read(path)?.take(limit).collect::<Result<Vec<_>, _>>()?;
        Ok(RetrievedQuestions { name, questions, are_patterns: args.patterns })
    });
    let mut retrieved = retrieved.collect::<Result<Vec<_>, CliError>>()?;
    match &args.questions {
        Some(path) if args.retrieve.is_given() => {
            let [.., most] = DEFAULT_DEPTHS;
            let depth = args.k.iter().max().map_or(most, |depth| *depth as usize);
            let found = args.retrieve.search(path, limit, depth, args.compute.device)?;
            let are_patterns = found.are_patterns || args.patterns;
            retrieved.extend(found.by_method.into_iter().map(|(name, questions)| RetrievedQuestions {
                name: name.to_owned(),
                questions,
                are_patterns,
            }));
        }
        Some(path) => {
            let questions = with_gold(path, limit)?;
            retrieved.push(RetrievedQuestions {
                name: "gold paragraph".into(),
                questions,
                are_patterns: args.patterns,
            });
        }
        None => {}
    }
    let all = || retrieved.iter().flat_map(|retrieved| &retrieved.questions);
    let longest = all().map(|retrieved| retrieved.ctxs.len()).max().unwrap_or(0);
    let mut depths: Vec<usize> = match args.k.as_slice() {
        [] => DEFAULT_DEPTHS.iter().map(|depth| *depth.min(&longest.max(1))).collect(),
        given => given.iter().map(|k| *k as usize).collect(),
    };
    depths.sort_unstable();
    depths.dedup();
    // Questions without answers are refused before the passages are read, which can take an hour.
    for RetrievedQuestions { questions, are_patterns, .. } in &retrieved {
        let unread = |retrieved: &RetrieverResult| question(retrieved, Vec::new(), *are_patterns);
        measure_depths(&questions.iter().map(unread).collect::<Vec<_>>(), &[], rules)?;
    }
    let reading = Reading::open(reader, args.compute.device, args.read.options(1))?;
    let results = retrieved.iter().map(|retrieved| measured(&reading, retrieved, &depths, rules));
    let results = results.collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &args.plot {
        let curve = |results: &OfResults| {
            let point = |row: &DepthReport| TopK { k: row.depth, accuracy: row.exact_match };
            Curve { name: results.name.clone(), points: results.depths.iter().map(point).collect() }
        };
        let curves: Vec<Curve> = results.iter().map(curve).collect();
        result_files::write_whole(path, reading_svg("Answers", &curves)?.as_bytes())?;
    }
    let report = Report { reader: reading.fingerprint(), device: reading.device(), results };
    if args.json { output::json(&report) } else { output::print(&depth_table(&report)) }
}

/// Returns the first `limit` questions of a file, each with the paragraph that it was asked about.
fn with_gold(path: &Path, limit: usize) -> Result<Vec<RetrieverResult>, CliError> {
    let questions = read_questions(path)?;
    if let Some(question) = questions.iter().find(|question| question.gold.is_none()) {
        return Err(EvalError::NoGold { id: question.id.clone() }.into());
    }
    let titles: HashMap<String, String> =
        read_passages(path)?.into_iter().map(|passage| (passage.id, passage.title)).collect();
    let result = |question: Question| RetrieverResult {
        ctxs: question
            .gold
            .into_iter()
            .map(|gold| RetrievedContext {
                title: titles.get(&gold.id).cloned().unwrap_or_default(),
                text: gold.text.to_string(),
                id: gold.id,
                score: 0.0,
                has_answer: true,
            })
            .collect(),
        question: question.text,
        answers: question.answers.as_slice().to_vec(),
    };
    Ok(questions.into_iter().take(limit).map(result).collect())
}

/// Reads the passages of one file and measures the answers.
fn measured(
    reading: &Reading,
    retrieved: &RetrievedQuestions,
    depths: &[usize],
    rules: ReadingRules,
) -> Result<OfResults, CliError> {
    let most = depths.last().copied().unwrap_or(0);
    let (started, progress) = (Instant::now(), progress::on_stderr());
    progress.start("reading", "questions", retrieved.questions.len() as u64);
    let read_one = |result: &RetrieverResult| -> Result<ReadQuestion, CliError> {
        let ctxs = &result.ctxs[..most.min(result.ctxs.len())];
        let texts: Vec<_> =
            ctxs.iter().map(|passage| (passage.title.as_str(), passage.text.as_str())).collect();
        let found = reading.read(&result.question, &texts)?;
        let of_passages = found.into_iter().zip(ctxs).map(|(reading, passage)| ReadPassage {
            answer: reading.spans.into_iter().next().map(|span| span.text),
            selection: reading.selection,
            has_answer: passage.has_answer,
        });
        progress.advance(1);
        Ok(question(result, of_passages.collect(), retrieved.are_patterns))
    };
    // Questions of a passage or two would leave threads idle, were they read one after another.
    let read: Vec<ReadQuestion> = match reading.runs_kernels() {
        true => retrieved.questions.par_iter().map(read_one).collect::<Result<_, _>>()?,
        false => retrieved.questions.iter().map(read_one).collect::<Result<_, _>>()?,
    };
    progress.finish();
    let seconds = started.elapsed().as_secs_f64();
    let passages: usize = read.iter().map(|question| question.passages.len()).sum();
    Ok(OfResults {
        name: retrieved.name.clone(),
        questions: read.len(),
        depths: measure_depths(&read, depths, rules)?,
        seconds_per_question: seconds / read.len() as f64,
        passages_per_second: if seconds > 0.0 { passages as f64 / seconds } else { 0.0 },
    })
}

fn question(retrieved: &RetrieverResult, passages: Vec<ReadPassage>, patterns: bool) -> ReadQuestion {
    let answers = retrieved.answers.clone();
    let answers = if patterns { Answers::Patterns(answers) } else { Answers::Texts(answers) };
    ReadQuestion { text: retrieved.question.clone(), answers, passages }
}

fn table(report: &ReadingReport) -> String {
    let ReadingReport { questions, exact_match, f1, invalid_patterns, missing, unknown, .. } = report;
    let mut lines = vec![
        counted(*questions, "question", "questions"),
        format!("EM {:6.2} %", exact_match * 100.0),
        format!("F1 {:6.2} %", f1 * 100.0),
    ];
    if *invalid_patterns > 0 {
        lines.push(counted(
            *invalid_patterns,
            "answer pattern is not a regular expression and never matches",
            "answer patterns are not regular expressions and never match",
        ));
    }
    if *missing > 0 {
        lines.push(counted(
            *missing,
            "question has no prediction; it counts 0",
            "questions have no prediction; each counts 0",
        ));
    }
    if *unknown > 0 {
        lines.push(counted(
            *unknown,
            "prediction is for no question of the set; it does not count",
            "predictions are for no question of the set; they do not count",
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn depth_table(report: &Report<'_>) -> String {
    let mut lines = Vec::new();
    for results in &report.results {
        lines.extend([
            format!(
                "{}: {}, read on {} at {:.1} passages/s ({:.3} s a question), in %",
                results.name,
                counted(results.questions, "question", "questions"),
                report.device,
                results.passages_per_second,
                results.seconds_per_question
            ),
            format!(
                "{:>8}{:>9}{:>9}{:>9}{:>11}{:>11}",
                "passages", "EM", "F1", "oracle", "retrieved", "selected"
            ),
        ]);
        lines.extend(results.depths.iter().map(|row| {
            let percent = |share: f64| share * 100.0;
            format!(
                "{:>8}{:>9.2}{:>9.2}{:>9.2}{:>11.2}{:>11.2}",
                row.depth,
                percent(row.exact_match),
                percent(row.f1),
                percent(row.oracle),
                percent(row.retrieved),
                percent(row.selection_accuracy),
            )
        }));
    }
    lines.push(
        "oracle: EM of the best choice of passages; retrieved: a passage holds an answer; selected: of those, the chosen one does\n"
            .to_owned(),
    );
    lines.join("\n")
}
