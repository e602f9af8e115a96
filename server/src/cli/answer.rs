//! `dpr answer`: questions, answered by spans of the passages that a search finds.

use std::path::PathBuf;

use dpr_core::reader::best_answers;
use dpr_core::{Answer, EncodeError};
use dpr_data::{Passage, Question, read_questions};
use dpr_index::ScoredRow;
use dpr_index::search::Method;
use serde::Serialize;

use super::reading::{ReadArgs, Reading};
use super::search::{FilterArgs, nothing_found, typed};
use super::source::Source;
use super::source_args::{FusionArgs, SourceArgs};
use super::{CliError, flat, output};

/// Characters of a passage that are shown before an answer, and after it.
const SHOWN: usize = 160;

/// Questions of a file that are searched before their lines are printed.
const BLOCK: usize = 64;

/// Arguments of `dpr answer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr answer --model model/ --reader reader/ --index index/ \"who won super bowl 50\"
  dpr answer --model model/ --reader reader/ --index index/ --method hybrid --depth 50 --top 5 --json \"who won super bowl 50\"
  dpr answer --reader reader/ --index bm25/ --method bm25 --questions questions.txt > answers.jsonl

Answers are cut from the passages that the search finds: the best span of the passage that the
reader chooses first, then that of the next.")]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Model directory of a reader, as `dpr import --reader` wrote it
    #[arg(long, env = "DPR_READER", value_name = "DIR")]
    reader: PathBuf,
    /// How to rank; all but dense need an index built with --sparse
    #[arg(long, value_enum, default_value = "dense")]
    method: Method,
    #[command(flatten)]
    fusion: FusionArgs,
    /// Passages to read of those that the search finds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    depth: u32,
    /// Answers to print
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Answers that one passage may give
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    spans: u32,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Answer every question of a file (any that `dpr eval` takes, or one a line) and print one JSON line each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["question", "json"])]
    questions: Option<PathBuf>,
    /// The question
    #[arg(required_unless_present = "questions")]
    question: Option<String>,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    question: &'a str,
    method: Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    reader: &'a str,
    device: &'a str,
    answers: Vec<Told<'a, Found<'a>>>,
}

/// A line of `--questions`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    question: &'a str,
    answers: Vec<Told<'a, &'a str>>,
}

/// An answer, and its passage in full or by its id.
#[derive(Debug, Serialize)]
struct Told<'a, P> {
    answer: &'a str,
    /// Probability of the span within its passage, from 0 to 1.
    score: f64,
    /// Probability of the passage among those that were read, from 0 to 1.
    selection: f64,
    /// First character of the answer in the passage's text, from 0.
    start: usize,
    /// Character after the last.
    end: usize,
    passage: P,
}

/// A passage of an answer.
#[derive(Debug, Serialize)]
struct Found<'a> {
    /// Its rank in the search, from 1, and its score there.
    rank: usize,
    score: f32,
    id: &'a str,
    title: &'a str,
    text: &'a str,
}

fn told<'a, P>(answer: &'a Answer, text: &str, passage: P) -> Told<'a, P> {
    let place = answer.chars(text);
    let (start, end) = (place.start, place.end);
    Told { answer: &answer.text, score: answer.score, selection: answer.selection, start, end, passage }
}

/// The passages that a search found, and the answers in them.
struct Answered {
    rows: Vec<ScoredRow>,
    passages: Vec<Passage>,
    answers: Vec<Answer>,
}

/// Runs `dpr answer`.
///
/// # Errors
/// When the question is empty or too long for the reader, or the index was built by another model.
pub fn run(args: Args) -> Result<(), CliError> {
    let (fusion, filter) = (args.fusion.fusion()?, args.filter.filter());
    let questions = match (&args.question, &args.questions) {
        (_, Some(file)) => read_questions(file)?,
        (Some(question), None) if question.trim().is_empty() => return Err(EncodeError::Empty.into()),
        (Some(question), None) => vec![typed(question)],
        (None, None) => return Err("give a question, or --questions FILE".into()),
    };
    let reading = Reading::open(&args.reader, args.source.device(), args.read.options(args.spans as usize))?;
    let mut source = Source::open_live(args.source, &[args.method])?;
    for questions in questions.chunks(BLOCK) {
        let (vectors, _) = source.encode(questions)?;
        let ranked =
            source.rank_among(args.method, questions, &vectors, args.depth as usize, fusion, &filter)?;
        let mut lines = String::new();
        for (question, rows) in questions.iter().zip(ranked) {
            let answered = answered(&source, &reading, question, rows, args.top as usize)?;
            if args.questions.is_some() {
                lines.push_str(&serde_json::to_string(&line(question, &answered))?);
                lines.push('\n');
            } else if args.json {
                return output::json(&report(&question.text, args.method, &source, &reading, &answered));
            } else {
                return output::print(&table(args.method, &answered));
            }
        }
        output::stream(&lines)?;
    }
    Ok(())
}

fn answered(
    source: &Source,
    reading: &Reading,
    question: &Question,
    rows: Vec<ScoredRow>,
    top: usize,
) -> Result<Answered, CliError> {
    let passages = rows.iter().map(|hit| source.passage(hit.row)).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<_> =
        passages.iter().map(|passage| (passage.title.as_str(), passage.text.as_str())).collect();
    let answers = best_answers(&reading.read(&question.text, &texts)?, top);
    Ok(Answered { rows, passages, answers })
}

fn line<'a>(question: &'a Question, answered: &'a Answered) -> Line<'a> {
    let answers = answered.answers.iter().map(|answer| {
        let passage = &answered.passages[answer.passage];
        told(answer, &passage.text, passage.id.as_str())
    });
    Line { id: &question.id, question: &question.text, answers: answers.collect() }
}

fn report<'a>(
    question: &'a str,
    method: Method,
    source: &Source,
    reading: &'a Reading,
    answered: &'a Answered,
) -> Report<'a> {
    let answers = answered.answers.iter().map(|answer| {
        let Passage { id, title, text, .. } = &answered.passages[answer.passage];
        let score = answered.rows[answer.passage].score;
        told(answer, text, Found { rank: answer.passage + 1, score, id, title, text })
    });
    let (model, reader, device) = (source.model(), reading.fingerprint(), reading.device());
    Report { question, method, model, reader, device, answers: answers.collect() }
}

fn table(method: Method, answered: &Answered) -> String {
    if answered.answers.is_empty() {
        return match answered.passages.is_empty() {
            true => format!("{}\n", nothing_found(method)),
            false => "the passages found have no text to answer from\n".to_owned(),
        };
    }
    let row = |(rank, answer): (usize, &Answer)| {
        let passage = &answered.passages[answer.passage];
        format!(
            "{:>4}  {}\n      passage {:.4}, span {:.4}  {}  [{}]\n      {}\n",
            rank + 1,
            flat(&answer.text),
            answer.selection,
            answer.score,
            flat(&passage.title),
            flat(&passage.id),
            marked(&passage.text, answer),
        )
    };
    answered.answers.iter().enumerate().map(row).collect()
}

/// Returns the text around an answer, which stands between `>>` and `<<`.
fn marked(text: &str, answer: &Answer) -> String {
    let (before, after) = (&text[..answer.bytes.start], &text[answer.bytes.end..]);
    let cut = before.char_indices().rev().nth(SHOWN - 1).filter(|(at, _)| *at > 0);
    let before = cut.map_or_else(|| before.to_owned(), |(at, _)| format!("…{}", &before[at..]));
    let cut = after.char_indices().nth(SHOWN);
    let after = cut.map_or_else(|| after.to_owned(), |(at, _)| format!("{}…", &after[..at]));
    flat(&format!("{before}>>{}<<{after}", answer.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_marked_in_what_is_shown_of_its_passage() {
        let answer = |text: &str, said: &str| {
            let from = text.find(said).unwrap();
            let bytes = from..from + said.len();
            Answer { passage: 0, text: said.into(), bytes, selection: 1.0, score: 0.5 }
        };
        let short = "The Rhine  rises\nin the Alps.";
        assert_eq!(marked(short, &answer(short, "rises\nin")), "The Rhine >>rises in<< the Alps.");
        let long = format!("{}답{}", "가".repeat(500), "나".repeat(500));
        let shown = marked(&long, &answer(&long, "답"));
        assert_eq!(shown, format!("…{}>>답<<{}…", "가".repeat(SHOWN), "나".repeat(SHOWN)));
        let exact = format!("{}답", "가".repeat(SHOWN));
        assert_eq!(marked(&exact, &answer(&exact, "답")), format!("{}>>답<<", "가".repeat(SHOWN)));
    }
}
