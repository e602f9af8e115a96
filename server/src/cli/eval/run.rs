//! `dpr eval run`: what trec_eval says of a TREC run, from any system.

use std::collections::HashMap;
use std::path::PathBuf;

use super::super::{CliError, output};
use crate::cli::output::counted;
use dpr_data::{read_qrels, read_scored_run};
use dpr_eval::{DEFAULT_KS, QrelsReport, check_relevant, measure_qrels, trec_order};

/// Options of `dpr eval run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval run --run results/bm25.run.gz --qrels qrels/test.tsv

As trec_eval does, passages are ordered by their scores whatever their ranks, and questions of
the qrels without a ranking count 0.")]
pub(super) struct Args {
    /// TREC run, also .gz
    #[arg(long, value_name = "FILE")]
    run: PathBuf,
    /// Judged passages, BEIR or TREC, also .gz
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// Ranks to report recall, precision, nDCG and MRR at [default: 1,5,20,100]
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    k: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let qrels = read_qrels(&args.qrels)?;
    check_relevant(&qrels).map_err(|error| format!("{}: {error}", args.qrels.display()))?;
    let mut rankings = HashMap::new();
    for query in read_scored_run(&args.run)? {
        let scored: Vec<_> = query.hits.into_iter().map(|hit| (hit.passage, hit.score)).collect();
        let order = trec_order(&query.id, &scored)?;
        rankings.insert(query.id, order);
    }
    let ks: Vec<usize> = match args.k.as_slice() {
        [] => DEFAULT_KS.to_vec(),
        given => given.iter().map(|k| *k as usize).collect(),
    };
    let report = measure_qrels(&rankings, &qrels, &ks)?;
    if args.json { output::json(&report) } else { output::print(&table(&report)) }
}

fn table(report: &QrelsReport) -> String {
    let QrelsReport { questions, without_ranking, without_qrels, mrr_at_10, ndcg_at_10, map, recall, cut } =
        report;
    let mut lines = vec![counted(*questions, "judged question", "judged questions")];
    if *without_ranking > 0 {
        lines.push(counted(
            *without_ranking,
            "of them has no ranking and counts 0",
            "of them have no ranking and count 0",
        ));
    }
    if *without_qrels > 0 {
        lines.push(counted(
            *without_qrels,
            "ranking is of a question that is not judged; it does not count",
            "rankings are of questions that are not judged; they do not count",
        ));
    }
    let mut figures = vec![
        ("MRR@10".to_owned(), *mrr_at_10),
        ("nDCG@10".to_owned(), *ndcg_at_10),
        ("MAP".to_owned(), *map),
    ];
    figures.extend(recall.iter().map(|recall| (format!("recall@{}", recall.k), recall.recall)));
    figures.extend(cut.iter().map(|cut| (format!("P@{}", cut.k), cut.precision)));
    // nDCG@10 and MRR@10 are among the figures already.
    let others = || cut.iter().filter(|cut| cut.k != 10);
    figures.extend(others().map(|cut| (format!("nDCG@{}", cut.k), cut.ndcg)));
    figures.extend(others().map(|cut| (format!("MRR@{}", cut.k), cut.mrr)));
    let width = figures.iter().map(|(name, _)| name.len()).fold(11, usize::max);
    lines.extend(figures.iter().map(|(name, figure)| format!("{name:<width$} {figure:.4}")));
    lines.join("\n") + "\n"
}
