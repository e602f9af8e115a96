//! `dpr eval tune-hybrid`: the weight of dense scores.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::Serialize;

use super::super::source::{Source, texts};
use super::super::source_args::SourceArgs;
use super::super::{CliError, output};
use super::questions::{QuestionArgs, Questions};
use crate::cli::progress;
use dpr_eval::{Accuracy, DEFAULT_KS, first_hit};
use dpr_index::search::{Fusion, Method, Ranker, fuse};

/// Options of `dpr eval tune-hybrid`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr eval tune-hybrid --model model/ --index index/ --questions dev.json
  dpr eval retrieval --model model/ --index index/ --questions test.json --methods hybrid --lambda LAMBDA

Tries weights from 0.1 to 100 and takes the one with the greatest MRR@10. Tune on one set of
questions, measure on another.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    questions: QuestionArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Tried {
    lambda: f32,
    #[serde(flatten)]
    accuracy: Accuracy,
}

#[derive(Debug, Serialize)]
struct Report {
    best_lambda: f32,
    tried: Vec<Tried>,
}

/// Questions ranked at a time: two thousand rows twice for each of ten thousand would fill the memory.
const BLOCK: usize = 512;

/// Weights tried, ten to a factor of ten: finer than the accuracy moves.
fn weights() -> impl Iterator<Item = f32> {
    (0..=30).map(|step| {
        let weight = 0.1 * 10f32.powf(step as f32 / 10.0);
        // Two digits are enough to type; through text, so that 0.2 is printed as 0.2.
        format!("{weight:.1e}").parse().unwrap_or(weight)
    })
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let set = Questions::read(&args.questions)?;
    let index = args.source.index.to_string();
    let source = Source::open(args.source, &[Method::Hybrid])?;
    let judge = set.judge(source.passages())?;
    let (vectors, _) = source.encode(&set.questions)?;
    let depth = DEFAULT_KS.into_iter().fold(0, usize::max);
    let weights: Vec<f32> = weights().collect();
    let mut ranks: Vec<Vec<Option<usize>>> = Vec::with_capacity(set.questions.len());
    let progress = progress::on_stderr();
    progress.start("ranking", "questions", set.questions.len() as u64);
    for (block, (questions, vectors)) in set.questions.chunks(BLOCK).zip(vectors.chunks(BLOCK)).enumerate() {
        let ranker = source.ranker();
        // As many as a search for `depth` combines.
        let rows_asked = ranker.depth.max(depth);
        let (sparse, dense) = Ranker { depth: rows_asked, ..ranker }.both(&texts(questions), vectors)?;
        let pairs = sparse.par_iter().zip(&dense).enumerate();
        ranks.par_extend(pairs.map(|(at, (sparse, dense))| {
            // The same passages come first under most weights: each is judged once.
            let mut judged = HashMap::new();
            let mut is_right =
                |row| *judged.entry(row).or_insert_with(|| judge.is_right(block * BLOCK + at, row));
            let first = |lambda: &f32| {
                let fused = fuse(sparse, dense, Fusion::Linear { lambda: *lambda }, rows_asked, depth);
                first_hit(fused.iter().map(|hit| is_right(hit.row)))
            };
            weights.iter().map(first).collect()
        }));
        progress.advance(questions.len() as u64);
    }
    progress.finish();
    let of_weight = |(at, lambda): (usize, &f32)| {
        let ranks: Vec<_> = ranks.iter().map(|ranks| ranks[at]).collect();
        Tried { lambda: *lambda, accuracy: Accuracy::of(&ranks, &DEFAULT_KS) }
    };
    let tried: Vec<Tried> = weights.iter().enumerate().map(of_weight).collect();
    // Of equals the smallest: the last of equals would be the end of the range.
    let best = tried.iter().rev().max_by(|a, b| a.accuracy.mrr_at_10.total_cmp(&b.accuracy.mrr_at_10));
    // A weight that is the best of equals, all of which are 0, would be taken for a measured one.
    if best.is_none_or(|best| best.accuracy.mrr_at_10 <= 0.0) {
        return Err(format!(
            "{}: no question (of {}) has {} among the first 10 of {index} at any weight, so that none is the best: \
             tune with questions about the passages of this index",
            args.questions.questions.display(),
            set.questions.len(),
            set.by.right_passage(),
        )
        .into());
    }
    let best_lambda = best.map_or(1.1, |best| best.lambda);
    if [weights.first(), weights.last()].contains(&Some(&best_lambda)) {
        tracing::warn!(
            "{best_lambda} is the end of what was tried: one of the two rankings hardly adds to the other here"
        );
    }
    if args.json {
        return output::json(&Report { best_lambda, tried });
    }
    let mut text = format!(
        "{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "lambda", "top-1", "top-5", "top-20", "top-100", "MRR@10"
    );
    for Tried { lambda, accuracy } in &tried {
        text.push_str(&format!("{lambda:>8}"));
        for top in &accuracy.top_k {
            text.push_str(&format!("{:>9.2}", top.accuracy * 100.0));
        }
        let mark = if *lambda == best_lambda { "  best" } else { "" };
        text.push_str(&format!("{:>9.4}{mark}\n", accuracy.mrr_at_10));
    }
    output::print(&text)
}
