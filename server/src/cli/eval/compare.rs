//! `dpr eval compare`: several systems' results side by side, and how sure their differences are.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use super::super::{CliError, output};
use super::examples::{self, Example, First, Side};
use super::result_files;
use crate::cli::output::counted;
use dpr_data::{Question, RetrieverResult, read_questions};
use dpr_eval::{
    Bootstrap, Comparison, Curve, DEFAULT_KS, LEAST_CLUSTERS, System, TopK, accuracy_svg, compare,
    compare_clusters, first_hit, top_k,
};

/// Arguments of `dpr eval compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval compare results/bm25.json.gz results/dense.json.gz results/hybrid.json.gz
Example, with names, a picture, and one rank:
  dpr eval compare BM25=a.json DPR=b.json --k 20 --plot accuracy.svg
Example, with intervals that count an article as one draw, not each of its questions:
  dpr eval compare a.json b.json --cluster article --questions squad-dev-v1.1.json
Example, with questions on which they differ:
  dpr eval compare BM25=a.json DPR=b.json --examples 5")]
pub(super) struct Args {
    /// DPR result files (json, also .gz) of the same questions; the first is what the others are compared with.
    /// NAME=FILE gives a name, else the file's name is it
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    results: Vec<String>,
    /// Ranks to compare at [default: 1,5,20,100, as far as all files list passages]
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    k: Vec<u32>,
    /// Resamples of the paired bootstrap, 1,000 or more
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    resamples: u32,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,
    /// Draw whole passages or articles, not questions: those about one are hard or easy together, so that intervals
    /// over single questions are too narrow. 20 are needed: an interval of fewer is not to be trusted
    #[arg(long, value_enum, value_name = "BY", requires = "questions")]
    cluster: Option<Cluster>,
    /// The questions with the passages they are about, for --cluster: SQuAD json, also .gz
    #[arg(long, value_name = "FILE", requires = "cluster")]
    questions: Option<PathBuf>,
    /// Also draw accuracy against k into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Also show this many questions that a system wins at the smallest rank of --k and as many that it loses, with the
    /// passages that come first (the paper's Table 7); drawn by the seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    examples: u32,
    /// Print JSON; figures from 0 to 1
    #[arg(long)]
    json: bool,
}

/// The kind of cluster by which questions are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Cluster {
    /// The passage that they are about
    Passage,
    /// The article of that passage
    Article,
}

impl Cluster {
    /// Returns what one and many are called.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Passage => ["passage", "passages"],
            Self::Article => ["article", "articles"],
        }
    }
}

/// One file's results.
struct Results {
    name: String,
    questions: Vec<String>,
    first_hits: Vec<Option<usize>>,
    /// The best passage of each question, where examples are asked for.
    firsts: Vec<First>,
    depth: usize,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    questions: usize,
    resamples: u32,
    seed: u64,
    /// The clusters that were drawn, and how many there are; single questions where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    clusters: Option<Clusters>,
    systems: Vec<Accuracies>,
    comparisons: Vec<AtRank>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    examples: Vec<Example>,
}

#[derive(Clone, Copy, Serialize)]
struct Clusters {
    by: Cluster,
    count: usize,
    /// `true` if there are fewer than [`LEAST_CLUSTERS`], so that neither interval nor p is to be trusted.
    too_few: bool,
}

#[derive(Serialize)]
struct Accuracies {
    name: String,
    top_k: Vec<TopK>,
}

#[derive(Serialize)]
struct AtRank {
    k: usize,
    #[serde(flatten)]
    found: Comparison,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let with_examples = args.examples > 0;
    let results =
        args.results.iter().map(|result| read(result, with_examples)).collect::<Result<Vec<_>, _>>()?;
    check(&results)?;
    let ks = ranks(&args.k, &results)?;
    result_files::check_plot(args.plot.as_deref())?;
    let clusters = match (args.cluster, &args.questions, results.first()) {
        (Some(by), Some(path), Some(first)) => Some((by, clusters(by, path, &first.questions)?)),
        _ => None,
    };

    let bootstrap = Bootstrap { resamples: args.resamples as usize, seed: args.seed };
    let mut comparisons = Vec::new();
    for k in &ks {
        let within = |hit: &Option<usize>| hit.is_some_and(|rank| rank <= *k);
        let systems: Vec<System> = results
            .iter()
            .map(|result| System::from_hits(result.name.as_str(), result.first_hits.iter().map(within)))
            .collect();
        let found = match &clusters {
            Some((_, clusters)) => compare_clusters(&systems, clusters, bootstrap)?,
            None => compare(&systems, bootstrap)?,
        };
        comparisons.extend(found.into_iter().map(|found| AtRank { k: *k, found }));
    }
    if let Some(path) = &args.plot {
        let depth = results.iter().map(|result| result.depth).min().unwrap_or(0).min(100);
        let curves: Vec<Curve> = results
            .iter()
            .map(|result| Curve::from_first_hits(result.name.as_str(), &result.first_hits, depth))
            .collect();
        result_files::write_whole(path, accuracy_svg("Retrieval accuracy", &curves)?.as_bytes())?;
    }
    let report = Report {
        questions: results.first().map_or(0, |result| result.questions.len()),
        resamples: args.resamples,
        seed: args.seed,
        clusters: clusters.map(|(by, of_questions)| {
            let count = of_questions.iter().max().map_or(0, |greatest| greatest + 1);
            Clusters { by, count, too_few: count < LEAST_CLUSTERS }
        }),
        systems: results
            .iter()
            .map(|result| Accuracies { name: result.name.clone(), top_k: top_k(&result.first_hits, &ks) })
            .collect(),
        comparisons,
        examples: examples_of(&results, ks.first().copied().unwrap_or(1), args.examples as usize, args.seed),
    };
    if args.json { output::json(&report) } else { output::print(&table(&report)) }
}

/// Returns the number of the cluster of each of `asked`, from 0 on: that of the passage which the file at `path` says
/// it is about. One cluster is refused: every resample of it is the same.
fn clusters(by: Cluster, path: &Path, ids: &[String]) -> Result<Vec<usize>, CliError> {
    // Several articles may have the same question: their passages are taken in the order of the file.
    let mut about: HashMap<String, VecDeque<String>> = HashMap::new();
    for Question { text, gold, .. } in read_questions(path)? {
        if let Some(gold) = gold {
            about.entry(text).or_default().push_back(gold.id);
        }
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let number = |question: &String| {
        let passages = about.get_mut(question).ok_or_else(|| {
            let path = path.display();
            format!("{path} does not say which passage {question:?} is about: give the questions of the results, as SQuAD json")
        })?;
        let passage = if passages.len() > 1 { passages.pop_front() } else { passages.front().cloned() };
        let passage = passage.unwrap_or_default();
        let cluster = match by {
            Cluster::Passage => passage.as_str(),
            // SQuAD's passages are called ARTICLE-PARAGRAPH.
            Cluster::Article => passage.rsplit_once('-').map_or(passage.as_str(), |(article, _)| article),
        };
        let next = numbers.len();
        Ok(*numbers.entry(cluster.to_owned()).or_insert(next))
    };
    let of_questions = ids.iter().map(number).collect::<Result<Vec<_>, CliError>>()?;
    if numbers.len() == 1 {
        let [one, many] = by.words();
        return Err(format!(
            "{}: 1 {one} is what all questions of the results ({}) are about, so that there is nothing to draw: give \
             questions about {LEAST_CLUSTERS} {many} or more, or leave out --cluster",
            path.display(),
            ids.len()
        )
        .into());
    }
    Ok(of_questions)
}

/// Returns questions that each system wins or loses against the first one within `k`, `most` each.
fn examples_of(results: &[Results], k: usize, most: usize, seed: u64) -> Vec<Example> {
    let [baseline, others @ ..] = results else { return Vec::new() };
    let pairs = others.iter().map(|other| [side(other), side(baseline)]);
    pairs.flat_map(|pair| examples::draw(&baseline.questions, pair, k, most, seed)).collect()
}

fn side(result: &Results) -> Side<'_> {
    Side { name: &result.name, first_hits: &result.first_hits, firsts: &result.firsts }
}

fn read(argument: &str, with_examples: bool) -> Result<Results, CliError> {
    let (name, path) = result_files::named(argument);
    let (mut questions, mut first_hits, mut firsts, mut depth) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for result in result_files::read(path)? {
        let RetrieverResult { question, answers, ctxs } = result?;
        questions.push(question);
        first_hits.push(first_hit(ctxs.iter().map(|context| context.has_answer)));
        depth = depth.max(ctxs.len());
        if with_examples {
            firsts.push(First::of(ctxs.into_iter().next(), &answers));
        }
    }
    if questions.is_empty() {
        return Err(format!("{}: no questions in this file", path.display()).into());
    }
    Ok(Results { name, questions, first_hits, firsts, depth })
}

fn check(results: &[Results]) -> Result<(), CliError> {
    let [first, ..] = results else { return Ok(()) };
    let mut names = HashSet::new();
    if let Some(result) = results.iter().find(|result| !names.insert(result.name.as_str())) {
        let name = &result.name;
        return Err(
            format!("two files are called {name}: name them, as OLD=old/{name} NEW=new/{name}").into()
        );
    }
    for result in results {
        if let Some(number) = first.questions.iter().zip(&result.questions).position(|(a, b)| a != b) {
            return Err(format!(
                "question {} is {:?} in {} and {:?} in {}: compare results of the same questions in the same order",
                number + 1, first.questions[number], first.name, result.questions[number], result.name
            )
            .into());
        }
    }
    Ok(())
}

/// Returns the ranks to compare at, ascending: those asked for, else those of the default ones that every file lists
/// passages for.
fn ranks(asked: &[u32], results: &[Results]) -> Result<Vec<usize>, CliError> {
    let mut ks = match asked {
        [] => DEFAULT_KS.to_vec(),
        asked => asked.iter().map(|k| *k as usize).collect(),
    };
    ks.sort_unstable();
    ks.dedup();
    let Some(Results { name, depth, .. }) = results.iter().min_by_key(|result| result.depth) else {
        return Ok(ks);
    };
    let untold = ks.split_off(ks.partition_point(|k| k <= depth));
    let Some(most) = untold.last() else { return Ok(ks) };
    let listed = counted(*depth, "passage a question", "passages a question");
    if !asked.is_empty() {
        return Err(format!(
            "{name} lists at most {listed}, so top-{most} cannot be told: pass smaller ranks with --k"
        )
        .into());
    }
    if ks.is_empty() {
        return Err(
            format!("{name} lists no passages, so no rank can be told: give results of a search").into()
        );
    }
    let untold: Vec<String> = untold.iter().map(|k| format!("top-{k}")).collect();
    let untold = untold.join(", ");
    tracing::warn!(
        "{name} lists at most {listed}, so ranks beyond cannot be told and are left out: {untold}"
    );
    Ok(ks)
}

fn table(report: &Report) -> String {
    let width = report.systems.iter().map(|system| system.name.chars().count()).max().unwrap_or(0).max(6);
    let mut lines = vec![counted(report.questions, "question", "questions"), String::new()];
    let head = |top: &TopK| format!(" {:>9}", format!("top-{}", top.k));
    let row = |top: &TopK| {
        // Width of the figure: that of the head without the two spaces and the percent sign.
        let figure = head(top).len() - 3;
        format!(" {:>figure$.2} %", top.accuracy * 100.0)
    };
    let heads = |first: &Accuracies| first.top_k.iter().map(head).collect::<String>();
    lines.extend(report.systems.first().map(|first| format!("{:width$}{}", "", heads(first))));
    for system in &report.systems {
        let row: String = system.top_k.iter().map(row).collect();
        lines.push(format!("{:width$}{row}", system.name));
    }
    lines.push(String::new());
    if let Some(Clusters { by, count, too_few: true }) = report.clusters {
        let [one, many] = by.words();
        lines.push(format!(
            "WARNING: an interval of {} is not to be trusted, nor is its p: at least {LEAST_CLUSTERS} are needed; give \
             questions about more {many}",
            counted(count, one, many)
        ));
    }
    for AtRank { k, found } in &report.comparisons {
        let Comparison { name, baseline, difference, low, high, p, wins, losses } = found;
        lines.push(format!(
            "top-{k}: {name} - {baseline} {:+.2} points, 95% from {:+.2} to {:+.2}, p = {p:.4} ({}, {losses} lost)",
            difference * 100.0, low * 100.0, high * 100.0, counted(*wins, "question won", "questions won")
        ));
    }
    let drawn = report.clusters.map_or_else(String::new, |Clusters { by, count, .. }| {
        let [_, many] = by.words();
        format!(" of whole {many} ({count})")
    });
    lines.push(format!("Paired bootstrap{drawn}, {} resamples, seed {}.", report.resamples, report.seed));
    lines.extend(report.examples.iter().flat_map(|example| [String::new(), example.to_string()]));
    lines.push(String::new());
    lines.join("\n")
}
