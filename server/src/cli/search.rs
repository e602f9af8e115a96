//! `dpr search`: questions on the command line, for operators and scripts.

use std::path::PathBuf;
use std::sync::Arc;

use dpr_core::{Embedding, EncodeError};
use serde::Serialize;

use super::encrypted::Encrypted;
use super::local::{Buckets, HostView, Local};
use super::privacy::{Privacy, PrivacyArgs};
use super::rerank::{RerankArgs, Reranker};
use super::source::Source;
use super::source_args::{FusionArgs, SourceArgs};
use super::{CliError, flat, output};
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
  dpr search --model model/ --index index/ --method hybrid --lambda 20 \"who won super bowl 50\"
  dpr search --model model/ --index index/ --rerank reranker/ --depth 50 \"who won super bowl 50\"
  dpr search --model model/ --index index/ --privacy blurred --blur blur/ \"who won super bowl 50\"
  dpr search --model model/ --index site/dpr/dpr-static.json --privacy local \"who won super bowl 50\"
  dpr search --model model/ --index site/dpr/dpr-static.json --privacy bucket --device-key key \"who won super bowl 50\"
  dpr search --model model/ --server https://search.example.org --privacy encrypted --k 5 \"who won super bowl 50\"")]
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
    rerank: RerankArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    privacy: PrivacyArgs,
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
#[derive(Debug, Default, clap::Args)]
pub(super) struct FilterArgs {
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
    pub(super) fn filter(self) -> Filter {
        let Self { filter: condition, titles, ids } = self;
        Filter { ids: ids.into_iter().collect(), titles: titles.into_iter().collect(), condition }
    }
}

fn condition(json: &str) -> Result<Condition, String> {
    serde_json::from_str(json).map_err(|error| match error.is_data() {
        true => error.to_string(),
        false => format!(
            "it is not JSON ({error}): give a condition such as {{\"field\": \"lang\", \"eq\": \"en\"}}, in quotes of \
             the shell"
        ),
    })
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    question: &'a str,
    method: Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    hits: &'a [Hit],
    /// The data that the host of a site may see, of a search by buckets.
    #[serde(skip_serializing_if = "Option::is_none")]
    privacy: Option<&'a HostView>,
}

/// A line of `--questions`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    question: &'a str,
    hits: Vec<LineHit>,
    /// The buckets that the question needs, of a search by buckets.
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<Vec<u32>>,
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
pub fn run(mut args: Args) -> Result<(), CliError> {
    if args.k == 0 {
        return Err(QueryError::K.into());
    }
    let (fusion, filter) = (args.fusion.fusion()?, std::mem::take(&mut args.filter).filter());
    let questions = match (&args.question, &args.questions) {
        (_, Some(file)) => read_questions(file)?,
        (Some(question), None) if question.trim().is_empty() => return Err(EncodeError::Empty.into()),
        (Some(question), None) => vec![typed(question)],
        (None, None) => return Err("give a question, or --questions FILE".into()),
    };
    match args.privacy.mode()? {
        Privacy::Plain => {}
        Privacy::Blurred => {
            check_private(args.method, &filter, &args.rerank)?;
            let (is_one, as_json) = (args.question.is_some(), args.json);
            let search = PrivateSearch { privacy: args.privacy, k: args.k, is_one, as_json };
            return search.run(args.source, &questions);
        }
        Privacy::Local => {
            check_private(args.method, &filter, &args.rerank)?;
            let site = Local::open(&args.source)?;
            return search_singly(&args, &questions, site.model(), |question| {
                Ok((site.search(question, args.k)?, None))
            });
        }
        Privacy::Bucket => {
            check_private(args.method, &filter, &args.rerank)?;
            let mut site = Buckets::open(&args.source, &args.privacy)?;
            let model = site.model().to_owned();
            return search_singly(&args, &questions, &model, |question| {
                let (hits, seen) = site.search(question, args.k)?;
                Ok((hits, Some(seen)))
            });
        }
        Privacy::Encrypted => {
            check_private(args.method, &filter, &args.rerank)?;
            let (location, model) = (&args.source.index, args.source.model.as_deref());
            let on = (args.source.device(), args.source.precision());
            let mut server = Encrypted::open(location, model, on, &args.privacy, args.k)?;
            let model = server.model().to_owned();
            let search = |question: &Question| {
                let found = server.search(std::slice::from_ref(question), args.k)?.pop();
                Ok((found.unwrap_or_default(), None))
            };
            return search_singly(&args, &questions, &model, search);
        }
    }
    let reranker = args.rerank.open(args.source.device())?;
    let mut source = Source::open_live(args.source, &[args.method])?;
    let (vectors, _) = source.encode(&questions)?;
    let ranking = Ranking { method: args.method, fusion, filter, k: args.k, reranker };
    if args.question.is_none() {
        return search_file(&mut source, &ranking, &questions, &vectors);
    }
    let rows = ranking.rank(&mut source, &questions, &vectors)?.pop().unwrap_or_default();
    let hit =
        |hit: &ScoredRow| -> Result<Hit, CliError> { Ok(Hit::new(source.passage(hit.row)?, hit.score)) };
    let hits = rows.iter().map(hit).collect::<Result<Vec<Hit>, _>>()?;
    say(&source, args.json, args.method, &questions[0], &hits)
}

/// Prints the hits of one question.
fn say(
    source: &Source,
    as_json: bool,
    method: Method,
    question: &Question,
    hits: &[Hit],
) -> Result<(), CliError> {
    if as_json {
        let (question, model, device) = (question.text.as_str(), &source.model(), source.device());
        return output::json(&Answer {
            question,
            method,
            model: model.as_deref(),
            device,
            hits,
            privacy: None,
        });
    }
    if hits.is_empty() {
        return output::line(format_args!("{}", nothing_found(method)));
    }
    print_table(hits)
}

/// Returns why a search has no hits.
pub(super) fn nothing_found(method: Method) -> &'static str {
    match method {
        Method::Bm25 | Method::Tfidf => {
            "no passage shares a word with the question, apart from stop words, of those that the index holds and the \
             filter lets through"
        }
        Method::Dense | Method::Hybrid => "the index holds no passages, or none that the filter lets through",
    }
}

fn print_table(hits: &[Hit]) -> Result<(), CliError> {
    let mut table = String::new();
    for (rank, hit) in hits.iter().enumerate() {
        table.push_str(&row(rank + 1, hit));
    }
    output::print(&table)
}

/// A search that shows the index less than the questions' vectors.
struct PrivateSearch {
    privacy: PrivacyArgs,
    k: usize,
    /// One question was typed.
    is_one: bool,
    as_json: bool,
}

impl PrivateSearch {
    /// Searches for the questions and prints what is found.
    fn run(&self, source: SourceArgs, questions: &[Question]) -> Result<(), CliError> {
        let backend = source.index.open()?;
        let search = self.privacy.open(backend.as_ref())?;
        let source = Source::of_backend(source, &[Method::Dense], Arc::clone(&backend))?;
        for questions in questions.chunks(BLOCK) {
            let (vectors, _) = source.encode(questions)?;
            let mut lines = String::new();
            for (question, vector) in questions.iter().zip(&vectors) {
                let tokens = source.question_tokens(&question.text)?;
                let hits = search.search(backend.as_ref(), vector, &tokens, self.k)?;
                if self.is_one {
                    return say(&source, self.as_json, Method::Dense, question, &hits);
                }
                let hits = hits.into_iter().map(|hit| LineHit { id: hit.id, score: hit.score }).collect();
                let line = Line { id: &question.id, question: &question.text, hits, buckets: None };
                lines.push_str(&serde_json::to_string(&line)?);
                lines.push('\n');
            }
            output::stream(&lines)?;
        }
        Ok(())
    }
}

/// Refuses what would tell the index more than a private search does, and what its candidates cannot be ranked by:
/// there is no plainer search in its place.
fn check_private(method: Method, filter: &Filter, rerank: &RerankArgs) -> Result<(), CliError> {
    if method != Method::Dense {
        let method = method.name();
        return Err(format!(
            "--privacy ranks by vectors: leave out --method {method}, which needs the words"
        )
        .into());
    }
    if !filter.is_empty() {
        return Err(
            "--privacy takes no --filter, --title or --id: they tell what the question is about".into()
        );
    }
    match rerank.is_asked() {
        true => Err("--privacy takes no --rerank yet: leave it out".into()),
        false => Ok(()),
    }
}

/// Searches for one question after another and prints what is found, and what was shown of a question that was typed.
fn search_singly(
    args: &Args,
    questions: &[Question],
    model: &str,
    mut search: impl FnMut(&Question) -> Result<(Vec<Hit>, Option<HostView>), CliError>,
) -> Result<(), CliError> {
    for question in questions {
        let (hits, seen) = search(question)?;
        if args.question.is_some() {
            if args.json {
                return output::json(&Answer {
                    question: &question.text,
                    method: args.method,
                    model: Some(model),
                    device: None,
                    hits: &hits,
                    privacy: seen.as_ref(),
                });
            }
            if hits.is_empty() {
                output::line(format_args!("{}", nothing_found(args.method)))?;
            }
            print_table(&hits)?;
            return seen.map_or(Ok(()), |seen| print_host_view(&seen));
        }
        let hits = hits.into_iter().map(|hit| LineHit { id: hit.id, score: hit.score }).collect();
        let buckets = seen.map(|seen| seen.buckets);
        let line = Line { id: &question.id, question: &question.text, hits, buckets };
        output::stream(&format!("{}\n", serde_json::to_string(&line)?))?;
    }
    Ok(())
}

/// Prints what the host of a site may see of a question.
fn print_host_view(HostView { sees, buckets, .. }: &HostView) -> Result<(), CliError> {
    let numbers: Vec<String> = buckets.iter().map(u32::to_string).collect();
    output::line(format_args!("\nThe host of the files sees {sees}. They are: {}", numbers.join(", ")))
}

/// A question from the command line, as it was typed.
pub(super) fn typed(text: &str) -> Question {
    Question { id: "1".into(), text: normalise_question(text), answers: Answers::default(), gold: None }
}

/// Options of ranking questions.
struct Ranking {
    method: Method,
    fusion: Fusion,
    filter: Filter,
    k: usize,
    reranker: Option<Reranker>,
}

impl Ranking {
    fn rank(
        &self,
        source: &mut Source,
        questions: &[Question],
        vectors: &[Embedding],
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        let depth = self.reranker.as_ref().map_or(0, Reranker::depth).max(self.k);
        let ranked = source.rank_among(self.method, questions, vectors, depth, self.fusion, &self.filter)?;
        let Some(reranker) = &self.reranker else { return Ok(ranked) };
        let again = questions.iter().zip(&ranked).map(|(question, rows)| {
            let mut rows = reranker.rerank(question, rows, |row| source.passage(row))?;
            rows.truncate(self.k);
            Ok(rows)
        });
        again.collect()
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
            let line = Line { id: &question.id, question: &question.text, hits, buckets: None };
            lines.push_str(&serde_json::to_string(&line)?);
            lines.push('\n');
        }
        output::stream(&lines)?;
    }
    Ok(())
}

fn row(rank: usize, hit: &Hit) -> String {
    let mut text = flat(&hit.text);
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    format!("{rank:>4}  {:>9.4}  {}  [{}]\n      {text}\n", hit.score, flat(&hit.title), flat(&hit.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_data::Passage;

    #[test]
    fn a_filter_that_is_no_json_is_told_the_form_of_one() {
        for json in ["nonsense", "", "{\"field\": \"lang\","] {
            let error = condition(json).unwrap_err();
            assert!(
                error.starts_with("it is not JSON (") && error.contains(r#"{"field": "lang", "eq": "en"}"#),
                "{error}"
            );
        }
        // What is JSON is told its own fault.
        let error = condition(r#"{"field": "lang", "is": 1}"#).unwrap_err();
        assert!(error.contains("there is no operator `is`") && !error.contains("not JSON"), "{error}");
    }

    #[test]
    fn a_row_of_the_table_is_cut_at_a_character() {
        let hit = Hit::new(Passage::new("3-1", "한국", "가나다 ".repeat(100)), 0.5);
        let row = row(1, &hit);
        assert!(row.starts_with("   1     0.5000  한국  [3-1]\n      가나다 가나다"), "{row}");
        assert_eq!(row.lines().nth(1).unwrap().trim_start().chars().count(), SHOWN + 1);
    }
}
