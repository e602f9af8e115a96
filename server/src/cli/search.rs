//! `dpr search`: questions on the command line, for operators and scripts.

use std::path::PathBuf;

use dpr_core::{Embedding, EncodeError};
use serde::Serialize;

use super::source::{FusionArgs, Source, SourceArgs};
use super::{CliError, output};
use dpr_data::{Answers, Question, normalise_question, read_questions};
use dpr_index::QueryError;
use dpr_index::ranking::ScoredRow;
use dpr_index::search::{Condition, Filter, Fusion, Hit, Method};

/// Characters of a passage that the table shows.
const SHOWN: usize = 160;

/// Questions of a file that are searched before their lines are printed.
const BLOCK: usize = 512;

/// Arguments of `dpr search`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr search --model model/ --index index/ \"who won super bowl 50\"
  dpr search --model model/ --index index/ --k 100 --questions questions.txt > hits.jsonl
  dpr search --index bm25/ --method bm25 \"who won super bowl 50\"
  dpr search --model model/ --index index/ --filter '{\"field\": \"year\", \"gte\": 2000}' \"who won super bowl 50\"
  dpr search --model model/ --index index/ --method hybrid --lambda 20 \"who won super bowl 50\"")]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// How to rank; all but dense need an index built with --sparse
    #[arg(long, value_enum, default_value = "dense")]
    method: Method,
    #[command(flatten)]
    fusion: FusionArgs,
    /// Passages to return; all that match when there are fewer
    #[arg(long, value_name = "N", default_value = "10")]
    k: usize,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Search every question of a file (any that `dpr eval` takes, or one a line) and print one JSON line each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["question", "json"])]
    questions: Option<PathBuf>,
    /// The question
    #[arg(required_unless_present = "questions")]
    question: Option<String>,
}

/// Which passages may be found.
#[derive(Debug, clap::Args)]
struct FilterArgs {
    /// Find only passages whose metadata meets a condition: {"field": "lang", "eq": "en"}; also in, gt, gte, lt, lte,
    /// and not, and, or of conditions
    #[arg(long, value_name = "JSON", value_parser = condition)]
    filter: Option<Condition>,
    /// Find only passages with this title, or one of several
    #[arg(long = "title", value_name = "TITLE")]
    titles: Vec<String>,
    /// Find only the passage with this id, or one of several
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
}

impl FilterArgs {
    fn filter(self) -> Filter {
        let Self { filter: condition, titles, ids } = self;
        Filter { ids: ids.into_iter().collect(), titles: titles.into_iter().collect(), condition }
    }
}

fn condition(json: &str) -> Result<Condition, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    question: &'a str,
    method: Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    hits: &'a [Hit],
}

/// A line of `--questions`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    question: &'a str,
    hits: Vec<LineHit>,
}

#[derive(Debug, Serialize)]
struct LineHit {
    id: String,
    score: f32,
}

/// Runs `dpr search`.
///
/// # Errors
/// When the question is empty, `k` is 0, or the index was built by another model.
pub fn run(args: Args) -> Result<(), CliError> {
    if args.k == 0 {
        return Err(QueryError::K.into());
    }
    let (fusion, filter) = (args.fusion.fusion()?, args.filter.filter());
    let questions = match (&args.question, &args.questions) {
        (_, Some(file)) => read_questions(file)?,
        (Some(question), None) if question.trim().is_empty() => return Err(EncodeError::Empty.into()),
        (Some(question), None) => vec![typed(question)],
        (None, None) => return Err("give a question, or --questions FILE".into()),
    };
    let mut source = Source::open_live(args.source, &[args.method])?;
    let (vectors, _) = source.encode(&questions)?;
    let ranking = Ranking { method: args.method, fusion, filter, k: args.k };
    if args.question.is_none() {
        return search_file(&mut source, &ranking, &questions, &vectors);
    }
    let rows = ranking.rank(&mut source, &questions, &vectors)?.pop().unwrap_or_default();
    let hit =
        |hit: &ScoredRow| -> Result<Hit, CliError> { Ok(Hit::new(source.passage(hit.row)?, hit.score)) };
    let hits = rows.iter().map(hit).collect::<Result<Vec<Hit>, _>>()?;
    if args.json {
        let (question, method) = (questions[0].text.as_str(), args.method);
        let (model, device) = (&source.model(), source.device());
        return output::json(&Answer { question, method, model: model.as_deref(), device, hits: &hits });
    }
    if hits.is_empty() {
        return output::line(format_args!("no passage shares a word with the question"));
    }
    let mut table = String::new();
    for (rank, hit) in hits.iter().enumerate() {
        table.push_str(&row(rank + 1, hit));
    }
    output::print(&table)
}

/// A question from the command line, as it was typed.
fn typed(text: &str) -> Question {
    Question { id: "1".into(), text: normalise_question(text), answers: Answers::default(), gold: None }
}

/// How questions are ranked.
struct Ranking {
    method: Method,
    fusion: Fusion,
    filter: Filter,
    k: usize,
}

impl Ranking {
    fn rank(
        &self,
        source: &mut Source,
        questions: &[Question],
        vectors: &[Embedding],
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        source.rank_among(self.method, questions, vectors, self.k, self.fusion, &self.filter)
    }
}

fn search_file(
    source: &mut Source,
    ranking: &Ranking,
    questions: &[Question],
    vectors: &[Embedding],
) -> Result<(), CliError> {
    // In blocks: output begins early, and hits with their texts are not all in memory at once.
    for (block, questions) in questions.chunks(BLOCK).enumerate() {
        let from = (block * BLOCK).min(vectors.len());
        let vectors = &vectors[from..vectors.len().min(from + BLOCK)];
        let mut lines = String::new();
        let ranked = ranking.rank(source, questions, vectors)?;
        for (question, rows) in questions.iter().zip(ranked) {
            let hits =
                rows.iter().map(|hit| Ok(LineHit { id: source.passage(hit.row)?.id, score: hit.score }));
            let hits = hits.collect::<Result<_, CliError>>()?;
            let line = Line { id: &question.id, question: &question.text, hits };
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
    use dpr_data::Passage;

    #[test]
    fn a_row_of_the_table_is_cut_at_a_character() {
        let hit = Hit::new(Passage::new("3-1", "한국", "가나다 ".repeat(100)), 0.5);
        let row = row(1, &hit);
        assert!(row.starts_with("   1     0.5000  한국  [3-1]\n      가나다 가나다"), "{row}");
        assert_eq!(row.lines().nth(1).unwrap().trim_start().chars().count(), SHOWN + 1);
    }
}
