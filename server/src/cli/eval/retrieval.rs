//! `dpr eval retrieval`: how often, and how high, the right passages are ranked.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::super::rerank::{RerankArgs, Reranker};
use super::super::source::Source;
use super::super::source_args::{FusionArgs, SourceArgs};
use super::super::{CliError, output};
use super::questions::{By, QuestionArgs, Questions};
use super::result_files::{self, Ranked, StagedResults};
use crate::cli::output::counted;
use dpr_eval::{
    Accuracy, Curve, DEFAULT_KS, QrelsReport, Recall, TopK, accuracy_svg, first_hit, measure_qrels, recall,
};
use dpr_index::search::Method;
use dpr_index::{RECALL_DEPTH, VectorIndex as _};

/// The least number of passages searched for: the reciprocal rank looks at ten.
const LEAST: usize = 10;

/// Passages that result files list, and ranks that the plot shows, as the paper's Figure 1.
const WRITTEN: usize = 100;

/// Options of `dpr eval retrieval`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr eval retrieval --index bm25/ --questions nq-dev.tsv
  dpr eval retrieval --model model/ --index index/ --questions nq-dev.tsv --methods bm25,dense,hybrid --out results/
  dpr eval retrieval --model model/ --index index/ --questions queries.jsonl --qrels qrels/test.tsv
Example, what a cross-encoder makes of the first 50 passages:
  dpr eval retrieval --model model/ --index index/ --questions nq-dev.tsv --rerank reranker/ --depth 50
Example, what the graph of an HNSW index misses:
  dpr eval retrieval --model model/ --index index/ --questions squad-dev-v1.1.json --against-exact")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    questions: QuestionArgs,
    /// How to rank, side by side [default: dense with a model, else bm25]
    #[arg(long, value_name = "METHOD,...", value_delimiter = ',')]
    methods: Vec<Method>,
    /// Ranks to report [default: 1,5,20,100]
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    k: Vec<u32>,
    #[command(flatten)]
    fusion: FusionArgs,
    #[command(flatten)]
    rerank: RerankArgs,
    /// Also count the questions that any passage of an index directory answers, and measure on these alone: where few
    /// are, the figures over all questions say more of the corpus than of the ranking
    #[arg(long)]
    answerable: bool,
    /// Also compare dense search with exact search on the same vectors: recall@20 of a search for 20, whatever --k
    #[arg(long)]
    against_exact: bool,
    /// Write into this directory: metrics.json, accuracy.svg (as the paper's Figure 1), and for each METHOD
    /// METHOD.json.gz (DPR's retriever result) and METHOD.run.gz (a TREC run)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`, and the content of metrics.json.
#[derive(Debug, Serialize)]
struct Report<'a> {
    questions: usize,
    passages: usize,
    judged_by: By,
    /// Questions whose gold passage the index does not hold.
    gold_not_in_index: usize,
    /// Questions for which some passage of the corpus is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    answerable: Option<usize>,
    /// Questions of the file that the qrels do not judge, left out.
    unjudged: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index_kind: Option<String>,
    encode_seconds: f64,
    methods: Vec<Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall_against_exact: Option<Recall>,
}

#[derive(Debug, Serialize)]
struct Measured {
    method: Method,
    /// Passages that a cross-encoder re-ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    reranked: Option<usize>,
    #[serde(flatten)]
    accuracy: Accuracy,
    /// Over the questions for which some passage is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_answerable: Option<Accuracy>,
    /// Over the questions that the qrels judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    qrels: Option<QrelsReport>,
    seconds: f64,
    questions_per_second: f64,
}

impl Measured {
    fn name(&self) -> String {
        name(self.method, self.reranked)
    }
}

/// Returns the name of a ranking in tables and files: that of its method, and whether it was re-ranked.
fn name(method: Method, reranked: Option<usize>) -> String {
    format!("{}{}", method.name(), if reranked.is_some() { "-rerank" } else { "" })
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let set = Questions::read(&args.questions)?;
    let mut methods = match args.methods.as_slice() {
        [] if args.source.model.is_some() => vec![Method::Dense],
        [] => vec![Method::Bm25],
        given => given.to_vec(),
    };
    let mut seen = Vec::new();
    methods.retain(|method| {
        !seen.contains(method) && {
            seen.push(*method);
            true
        }
    });
    if args.against_exact && !methods.contains(&Method::Dense) {
        return Err("--against-exact compares dense search: add dense to --methods".into());
    }
    let fusion = args.fusion.fusion()?;
    let mut ks: Vec<usize> = match args.k.as_slice() {
        [] => DEFAULT_KS.to_vec(),
        given => given.iter().map(|k| *k as usize).collect(),
    };
    ks.sort_unstable();
    ks.dedup();
    let mut depth = ks.iter().copied().fold(LEAST, usize::max);
    if args.out.is_some() {
        depth = depth.max(WRITTEN);
    }
    let (index, is_service) = (args.source.index.to_string(), args.source.index.directory().is_none());
    if let Some(dir) = &args.out {
        let file = args.questions.questions.display().to_string();
        result_files::check_ids(
            &file,
            "question",
            set.questions.iter().map(|question| question.id.as_str()),
        )?;
        // Tells of a directory that cannot be written to; kept until the search has ended, a kill would leave it.
        drop(StagedResults::of(dir)?);
    }
    let reranker = args.rerank.open(args.source.device())?;
    depth = depth.max(reranker.as_ref().map_or(0, Reranker::depth));
    let mut source = Source::open(args.source, &methods)?;
    if args.against_exact && source.searcher().is_none() {
        return Err("--against-exact compares an index directory with exact search of its vectors, which a cluster keeps to itself".into());
    }
    if args.answerable && is_service {
        return Err(format!(
            "--answerable looks at every passage, and {index} hands out those that are found alone: leave it out, or \
             measure on an index directory of the same vectors"
        )
        .into());
    }
    source.take_in(set.judged_ids())?;
    if args.out.is_some() {
        let ids = source.passages().iter().map(|passage| passage.id.as_str());
        result_files::check_ids(&index, "passage", ids)?;
    }
    // What cannot be judged is said before an hour of encoding.
    drop(set.judge(source.passages())?);
    let (vectors, encode_seconds) = source.encode(&set.questions)?;

    let mut ranked = Vec::with_capacity(methods.len());
    for method in methods {
        let started = Instant::now();
        let rows = source.rank(method, &set.questions, &vectors, depth, fusion)?;
        let seconds = started.elapsed().as_secs_f64();
        let again = reranker.as_ref().map(|reranker| {
            let again = set.questions.iter().zip(&rows);
            let again =
                again.map(|(question, rows)| reranker.rerank(question, rows, |row| source.passage(row)));
            Ok::<_, CliError>((reranker.depth(), again.collect::<Result<Vec<_>, _>>()?))
        });
        ranked.push((method, None, rows, seconds));
        if let Some((depth, rows)) = again.transpose()? {
            ranked.push((method, Some(depth), rows, started.elapsed().as_secs_f64()));
        }
    }
    let judge = set.judge(source.passages())?;
    let answerable = args.answerable.then(|| judge.answerable());
    let (mut measured, mut curves, mut recall_against_exact) = (Vec::new(), Vec::new(), None);
    let staged = args.out.as_deref().map(StagedResults::of).transpose()?;
    for (method, reranked, rows, seconds) in ranked {
        let marks = judge.marks(&rows, if args.out.is_some() { WRITTEN } else { 0 })?;
        let ranks: Vec<_> = marks.iter().map(|marks| first_hit(marks.iter().copied())).collect();
        let by_qrels = |qrels| measure_qrels(&judge.by_ids(&set.questions, &rows)?, qrels, &ks);
        let qrels = set.qrels.as_ref().map(by_qrels).transpose()?;
        if let Some(searcher) =
            source.searcher().filter(|_| args.against_exact && method == Method::Dense && reranked.is_none())
        {
            // A search of its own: a graph keeps the more candidates the more passages are asked for.
            let found = searcher.snapshot().search_batch(&vectors, RECALL_DEPTH)?;
            let exact = searcher.index().exact()?.search_batch(&vectors, RECALL_DEPTH)?;
            recall_against_exact = Some(recall(&found, &exact, RECALL_DEPTH));
        }
        if let Some(staged) = &staged {
            let name = name(method, reranked);
            curves.push(Curve::from_first_hits(&name, &ranks, WRITTEN));
            let ranked =
                Ranked { questions: &set.questions, rows: &rows, passages: source.passages(), marks: &marks };
            ranked.write(staged.path(), &name, WRITTEN)?;
        }
        let questions_per_second = rate(set.questions.len(), seconds);
        let accuracy = Accuracy::of(&ranks, &ks);
        let of_answerable = answerable.as_ref().map(|answerable| {
            let ranks = ranks.iter().zip(answerable).filter(|(_, answerable)| **answerable);
            Accuracy::of(&ranks.map(|(rank, _)| *rank).collect::<Vec<_>>(), &ks)
        });
        measured.push(Measured {
            method,
            reranked,
            accuracy,
            of_answerable,
            qrels,
            seconds,
            questions_per_second,
        });
    }
    let report = Report {
        questions: set.questions.len(),
        passages: source.count(),
        judged_by: set.by,
        gold_not_in_index: judge.gold_not_in_index(),
        answerable: answerable.map(|answerable| answerable.iter().filter(|answerable| **answerable).count()),
        unjudged: set.unjudged,
        model: source.model(),
        device: source.device(),
        index_kind: source.kind(),
        encode_seconds,
        methods: measured,
        recall_against_exact,
    };
    if let Some(staged) = staged {
        finish(staged, &report, &curves)?;
    }
    if args.json { output::json(&report) } else { output::print(&table(&report)) }
}

/// Writes the figures and the curves of all methods, and publishes what was written of each.
fn finish(staged: StagedResults, report: &Report<'_>, curves: &[Curve]) -> Result<(), CliError> {
    let title = match report.judged_by {
        By::Gold => "Questions with the gold passage among the first k",
        By::Answer => "Questions with an answer among the first k passages",
        By::Qrels => "Questions with a relevant passage among the first k",
    };
    let dir = staged.path();
    result_files::write_whole(&dir.join("accuracy.svg"), accuracy_svg(title, curves)?.as_bytes())?;
    result_files::write_whole(&dir.join("metrics.json"), &serde_json::to_vec_pretty(report)?)?;
    staged.publish()
}

fn rate(questions: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { questions as f64 / seconds } else { 0.0 }
}

/// Adds the head of a column of figures at rank `k` and returns the column's width, `least` or what the head needs.
fn column(head: &mut String, what: &str, k: usize, least: usize) -> usize {
    let name = format!("{what}{k}");
    let width = least.max(name.len() + 1);
    head.push_str(&format!("{name:>width$}"));
    width
}

/// Returns accuracies in percent, in columns of these widths.
fn percent(top_k: &[TopK], widths: &[usize]) -> String {
    let figure = |(top, &width): (&TopK, &usize)| format!("{:>width$.2}", top.accuracy * 100.0);
    top_k.iter().zip(widths).map(figure).collect()
}

fn table(report: &Report<'_>) -> String {
    let what = report.judged_by.right_passage();
    let Report { questions, passages, gold_not_in_index, unjudged, encode_seconds, .. } = report;
    let mut lines = vec![format!(
        "{}, {}: share with {what} among the first k, in %",
        counted(*questions, "question", "questions"),
        counted(*passages, "passage", "passages")
    )];
    if *gold_not_in_index > 0 {
        lines.push(format!(
            "the index does not hold the gold passage of {}",
            counted(
                *gold_not_in_index,
                "question, which counts as not found",
                "questions; each counts as not found"
            )
        ));
    }
    if *unjudged > 0 {
        lines.push(counted(
            *unjudged,
            "question that the qrels do not judge is left out",
            "questions that the qrels do not judge are left out",
        ));
    }
    if let (Some(device), Some(kind)) = (report.device, &report.index_kind) {
        let rate = rate(*questions, *encode_seconds);
        lines.push(format!(
            "{kind} index, questions encoded on {device} at {rate:.1}/s ({encode_seconds:.1} s)"
        ));
    }
    let Some(first) = report.methods.first() else { return lines.join("\n") + "\n" };
    let names = report.methods.iter().map(|row| row.name().len()).fold(8, usize::max);
    let mut head = format!("{:<names$}", "method");
    let tops: Vec<usize> =
        first.accuracy.top_k.iter().map(|top| column(&mut head, "top-", top.k, 9)).collect();
    head.push_str(&format!("{:>9}", "MRR@10"));
    let mut recalls = Vec::new();
    if let Some(qrels) = &first.qrels {
        head.push_str(&format!("{:>9}", "nDCG@10"));
        recalls.extend(qrels.recall.iter().map(|recall| column(&mut head, "recall@", recall.k, 12)));
    }
    lines.push(format!("{head}{:>13}", "questions/s"));
    for measured in &report.methods {
        let Measured { accuracy, qrels, questions_per_second, .. } = measured;
        let mut line = format!("{:<names$}{}", measured.name(), percent(&accuracy.top_k, &tops));
        let reciprocal = qrels.as_ref().map_or(accuracy.mrr_at_10, |qrels| qrels.mrr_at_10);
        line.push_str(&format!("{reciprocal:>9.4}"));
        if let Some(qrels) = qrels {
            line.push_str(&format!("{:>9.4}", qrels.ndcg_at_10));
            for (recall, &width) in qrels.recall.iter().zip(&recalls) {
                line.push_str(&format!("{:>width$.4}", recall.recall));
            }
        }
        lines.push(format!("{line}{questions_per_second:>13.0}"));
    }
    if let Some(answerable) = report.answerable {
        let share = answerable as f64 * 100.0 / (*questions).max(1) as f64;
        let of_these = counted(answerable, "question", "questions");
        lines.push(format!("of the {of_these} ({share:.1} %) for which the corpus holds {what}:"));
        for measured in &report.methods {
            let of_these = measured.of_answerable.as_ref().map_or(&[][..], |accuracy| &accuracy.top_k);
            lines.push(format!("{:<names$}{}", measured.name(), percent(of_these, &tops)));
        }
    }
    if let Some(recall) = &report.recall_against_exact {
        lines.push(format!(
            "recall@{} {:.4} against exact search ({:.2} % of the questions have all, the worst {:.2})",
            recall.k,
            recall.mean,
            recall.perfect * 100.0,
            recall.worst
        ));
    }
    lines.join("\n") + "\n"
}
