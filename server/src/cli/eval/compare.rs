//! `dpr eval compare`: several systems' results side by side, and how sure their differences are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::{CliError, output};
use super::result_files;
use dpr_data::{RetrieverResult, read_results};
use dpr_eval::{Bootstrap, Comparison, Curve, System, TopK, accuracy_svg, compare, first_hit, top_k};

/// Arguments of `dpr eval compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval compare results/bm25.json.gz results/dense.json.gz results/hybrid.json.gz
Example, with names, a picture, and one rank:
  dpr eval compare BM25=a.json DPR=b.json --k 20 --plot accuracy.svg")]
pub(super) struct Args {
    /// DPR result files (json, also .gz) of the same questions; the first is what the others are compared with.
    /// NAME=FILE gives a name, else the file's name is it
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    results: Vec<String>,
    /// Ranks to compare at
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "1,5,20,100",
          value_parser = clap::value_parser!(u32).range(1..))]
    k: Vec<u32>,
    /// Resamples of the paired bootstrap, 1,000 or more
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    resamples: u32,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,
    /// Also draw accuracy against k into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON; figures from 0 to 1
    #[arg(long)]
    json: bool,
}

/// One file's results.
struct Results {
    name: String,
    questions: Vec<String>,
    first_hits: Vec<Option<usize>>,
    depth: usize,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    questions: usize,
    resamples: u32,
    seed: u64,
    systems: Vec<Accuracies>,
    comparisons: Vec<AtRank>,
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
    let mut ks: Vec<usize> = args.k.iter().map(|k| *k as usize).collect();
    ks.sort_unstable();
    ks.dedup();
    let results = args.results.iter().map(|result| read(result)).collect::<Result<Vec<_>, _>>()?;
    check(&results, &ks)?;
    if let Some(path) =
        args.plot.as_ref().filter(|path| path.extension().is_none_or(|ending| ending != "svg"))
    {
        return Err(format!("{}: plots are SVG: give a name that ends in .svg", path.display()).into());
    }

    let bootstrap = Bootstrap { resamples: args.resamples as usize, seed: args.seed };
    let mut comparisons = Vec::new();
    for k in &ks {
        let within = |hit: &Option<usize>| hit.is_some_and(|rank| rank <= *k);
        let systems: Vec<System> = results
            .iter()
            .map(|result| System::from_hits(result.name.as_str(), result.first_hits.iter().map(within)))
            .collect();
        comparisons.extend(compare(&systems, bootstrap)?.into_iter().map(|found| AtRank { k: *k, found }));
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
        systems: results
            .iter()
            .map(|result| Accuracies { name: result.name.clone(), top_k: top_k(&result.first_hits, &ks) })
            .collect(),
        comparisons,
    };
    if args.json { output::json(&report) } else { output::print(&table(&report)) }
}

fn read(argument: &str) -> Result<Results, CliError> {
    // A path that exists is a path, whatever signs it holds.
    let named = argument.split_once('=').filter(|_| !Path::new(argument).exists());
    let (name, path) = match named {
        Some((name, path)) => (name.to_owned(), Path::new(path)),
        None => {
            let path = Path::new(argument);
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path)
        }
    };
    let (mut questions, mut first_hits, mut depth) = (Vec::new(), Vec::new(), 0);
    for result in read_results(path)? {
        let RetrieverResult { question, ctxs, .. } = result?;
        questions.push(question);
        first_hits.push(first_hit(ctxs.iter().map(|context| context.has_answer)));
        depth = depth.max(ctxs.len());
    }
    if questions.is_empty() {
        return Err(format!("{}: no questions in this file", path.display()).into());
    }
    Ok(Results { name, questions, first_hits, depth })
}

fn check(results: &[Results], ks: &[usize]) -> Result<(), CliError> {
    let [first, ..] = results else { return Ok(()) };
    let mut names = HashSet::new();
    if let Some(result) = results.iter().find(|result| !names.insert(result.name.as_str())) {
        let name = &result.name;
        return Err(
            format!("two files are called {name}: name them, as OLD=old/{name} NEW=new/{name}").into()
        );
    }
    let most = ks.last().copied().unwrap_or(0);
    for result in results {
        if let Some(number) = first.questions.iter().zip(&result.questions).position(|(a, b)| a != b) {
            return Err(format!(
                "question {} is {:?} in {} and {:?} in {}: compare results of the same questions in the same order",
                number + 1, first.questions[number], first.name, result.questions[number], result.name
            )
            .into());
        }
        if result.depth < most {
            return Err(format!(
                "{} lists at most {} passages a question, so top-{most} cannot be told: pass smaller ranks with --k",
                result.name, result.depth
            )
            .into());
        }
    }
    Ok(())
}

fn table(report: &Report) -> String {
    let width = report.systems.iter().map(|system| system.name.chars().count()).max().unwrap_or(0).max(6);
    let mut lines = vec![format!("{} questions", report.questions), String::new()];
    let ranks =
        |top: &[TopK]| top.iter().map(|top| format!(" {:>9}", format!("top-{}", top.k))).collect::<String>();
    lines.extend(report.systems.first().map(|first| format!("{:width$}{}", "", ranks(&first.top_k))));
    for system in &report.systems {
        let row: String =
            system.top_k.iter().map(|top| format!(" {:>7.2} %", top.accuracy * 100.0)).collect();
        lines.push(format!("{:width$}{row}", system.name));
    }
    lines.push(String::new());
    for AtRank { k, found } in &report.comparisons {
        let Comparison { name, baseline, difference, low, high, p, wins, losses } = found;
        lines.push(format!(
            "top-{k}: {name} - {baseline} {:+.2} points, 95% from {:+.2} to {:+.2}, p = {p:.4} ({wins} questions won, {losses} lost)",
            difference * 100.0, low * 100.0, high * 100.0
        ));
    }
    lines.push(format!("Paired bootstrap, {} resamples, seed {}.", report.resamples, report.seed));
    lines.push(String::new());
    lines.join("\n")
}
