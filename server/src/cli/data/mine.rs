//! `dpr data mine`

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::super::source::Source;
use super::super::source_args::SourceArgs;
use super::super::{CliError, output, stop_on_interrupt};
use crate::cli::args::at_least_one;
use crate::cli::progress;
use dpr_data::{check_not_input, read_questions};
use dpr_encode::model::CrossEncoderDir;
use dpr_files::Job;
use dpr_index::search::{Method, SearchError};
use dpr_train::mine::{
    Denoiser, HardNegatives, MineOptions, MineReport, Pool, Positives, check_questions, mine,
};

/// Arguments of `dpr data mine`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr data mine --index bm25/ --questions nq-train.tsv --out train.json.gz
  dpr data mine --index bm25/ --questions squad-train-v1.1.json --positives gold --out train.json.gz
  dpr data mine --index index/ --model model/ --questions nq-train.tsv --hard dense --out train.json.gz
  dpr data mine --index bm25/ --questions nq-train.tsv --denoise reranker/ --out train.json.gz

Positives are the best BM25 passage of the first 100 with an answer (distant supervision),
or the gold paragraph, found again among the blocks of the corpus. A question without one is
dropped. A run that was stopped goes on when the same command is given again.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Questions with their answers: SQuAD or WebQuestions json, DPR's question tsv, CuratedTREC; also .gz
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,
    /// DPR training json to write; gzip-compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where positives come from
    #[arg(long, value_enum, default_value_t = PositivesFrom::Distant)]
    positives: PositivesFrom,
    /// Where hard negatives come from; dense needs --model and an index with vectors and words
    #[arg(long, value_enum, default_value_t = Hard::Bm25)]
    hard: Hard,
    /// Passages looked at for each question
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    depth: usize,
    /// Hard negatives to keep, at most
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = at_most_10_000)]
    hard_negatives: usize,
    /// Leave out hard negatives that a cross-encoder scores as high as the positive, which may be answers in other
    /// words: its model directory, as `dpr import --cross-encoder` or `dpr train --task reranker` wrote it
    #[arg(long, value_name = "DIR")]
    denoise: Option<PathBuf>,
    /// With --denoise: the score that a hard negative must be below the positive's, 0 or above
    #[arg(long, value_name = "M", default_value_t = 0.0, requires = "denoise", allow_negative_numbers = true,
        value_parser = margin)]
    denoise_margin: f32,
    /// Random negatives
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = at_most_10_000)]
    random_negatives: usize,
    /// Decides the random negatives
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,
    /// Name of the data set, put into every item
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Only the first N questions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

/// The source of positives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum PositivesFrom {
    /// The best BM25 passage with an answer
    Distant,
    /// The paragraph the question was asked about
    Gold,
}

impl fmt::Display for PositivesFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Distant => "distant",
            Self::Gold => "gold",
        })
    }
}

impl From<PositivesFrom> for Positives {
    fn from(positives: PositivesFrom) -> Self {
        match positives {
            PositivesFrom::Distant => Self::Distant,
            PositivesFrom::Gold => Self::Gold,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hard {
    /// The best BM25 passages without an answer
    Bm25,
    /// The best passages of a dense index without an answer
    Dense,
}

fn at_most_10_000(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 0..=10_000) => Ok(number),
        Ok(_) => Err("at most 10000".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads a margin of denoising.
pub(in crate::cli) fn margin(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(margin) if margin >= 0.0 && margin.is_finite() => Ok(margin),
        Ok(_) => Err("0 or above".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let mut questions = read_questions(&args.questions)?;
    if let Some(limit) = args.limit {
        questions.truncate(limit as usize);
    }
    check_not_input(&args.out, &args.questions)?;
    dpr_files::atomic::check_output(&args.out)?;
    let positives = Positives::from(args.positives);
    // Said before a model is opened and questions are encoded.
    check_questions(&questions, positives)?;
    let (hard_from, methods) = match args.hard {
        Hard::Bm25 => (HardNegatives::Bm25, [Method::Bm25]),
        Hard::Dense => (HardNegatives::Dense, [Method::Hybrid]),
    };
    let scoring = args.source.ranking.bm25();
    let reranker = args.denoise.as_deref().map(CrossEncoderDir::open).transpose()?;
    let device = args.source.device();
    let model = reranker.as_ref().map(|reranker| reranker.cross_encoder(device)).transpose()?;
    let source = Source::open(args.source, &methods)?;
    let options = MineOptions {
        dataset: args.dataset,
        positives,
        depth: args.depth,
        hard_from,
        hard_negatives: args.hard_negatives,
        random_negatives: args.random_negatives,
        scoring,
        seed: args.seed,
    };
    let (vectors, _) = source.encode(&questions)?;
    // From here on there is something to keep.
    let stop = stop_on_interrupt();
    let ranker = source.ranker();
    let pool = Pool {
        passages: source.passages(),
        version: source.version(),
        words: source.words()?.ok_or(SearchError::NoSparse)?,
        vectors: ranker.vectors.map(|index| (index, vectors.as_slice())),
        denoiser: reranker.as_ref().zip(model.as_ref()).map(|(reranker, model)| Denoiser {
            model,
            fingerprint: &reranker.manifest().fingerprint,
            margin: args.denoise_margin,
        }),
    };
    let progress = progress::on_stderr();
    let job = Job { stop: &stop, progress: progress.as_ref() };
    let report = mine(&questions, pool, &args.out, &options, job)?;
    if args.json {
        return output::json(&report);
    }
    let MineReport {
        questions,
        kept,
        dropped,
        denoised,
        without_hard_negative,
        short_of_random_negatives,
        invalid_patterns,
        empty_answers,
    } = report;
    output::line(format_args!(
        "{kept} of {questions} questions kept ({:.1} %), {dropped} without a positive dropped: {}",
        kept as f64 * 100.0 / questions.max(1) as f64,
        args.out.display()
    ))?;
    for (count, what) in [
        (
            denoised,
            "passages are not hard negatives, since the cross-encoder scores them as high as the positive",
        ),
        (without_hard_negative, "have no hard negative"),
        (short_of_random_negatives, "have fewer random negatives than asked for"),
        (empty_answers, "answers hold no letter, digit or sign and are left out"),
        (invalid_patterns, "answers are not valid regular expressions, so that no passage matches them"),
    ] {
        if count > 0 {
            output::line(format_args!("{count} {what}"))?;
        }
    }
    Ok(())
}
