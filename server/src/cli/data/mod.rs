//! `dpr data`: corpora and training data, prepared.

#[cfg(feature = "train")]
mod cloze;
mod convert;
#[cfg(feature = "train")]
mod mine;
#[cfg(feature = "train")]
mod questions;
mod split;

use clap::Subcommand;

#[cfg(feature = "train")]
pub(super) use mine::{PositivesFrom, margin};

use super::CliError;

/// Arguments of `dpr data`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
From documents and questions to training data:
  dpr data split --input wikipedia.tsv.gz --out passages.tsv
  dpr index --passages passages.tsv --out bm25/ --sparse english
  dpr data mine --index bm25/ --questions nq-train.tsv --out train.json.gz")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Go between file formats that mean the same
    Convert(convert::Args),
    /// Cut documents into blocks of 100 words: passages
    Split(split::Args),
    /// Find positives and negatives for questions: training data
    #[cfg(feature = "train")]
    Mine(mine::Args),
    /// Make training data of passages alone: a sentence asks for the rest of its block
    #[cfg(feature = "train")]
    Ict(cloze::Args),
    /// Make questions of passages alone, by rules: for tuning and distillation
    #[cfg(feature = "train")]
    Questions(questions::Args),
}

/// Runs `dpr data`.
///
/// # Errors
/// What is wrong with the files, in words.
pub fn run(args: Args) -> Result<(), CliError> {
    match args.what {
        What::Convert(args) => convert::run(args),
        What::Split(args) => split::run(args),
        #[cfg(feature = "train")]
        What::Mine(args) => mine::run(args),
        #[cfg(feature = "train")]
        What::Ict(args) => cloze::run(args),
        #[cfg(feature = "train")]
        What::Questions(args) => questions::run(args),
    }
}
