//! `dpr eval`: how good retrieval and reading are, measured.

mod answers;
mod compare;
mod examples;
mod privacy;
mod questions;
mod result_files;
mod retrieval;
mod retrieved;
mod run;
mod tune;

use clap::Subcommand;

use super::CliError;

/// Arguments of `dpr eval`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr eval retrieval --index index/ --questions nq-dev.tsv --methods bm25
  dpr eval retrieval --model model/ --index index/ --questions squad-dev-v1.1.json --methods bm25,dense,hybrid
  dpr eval answers --questions squad-dev-v1.1.json --predictions predictions.json")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Top-k accuracy: for how many questions the right passage, or one with the answer, is among the first k
    Retrieval(retrieval::Args),
    /// The weight of dense scores with which hybrid ranking finds most on a development set
    TuneHybrid(tune::Args),
    /// MRR, nDCG and recall of a TREC run by qrels, as trec_eval
    Run(run::Args),
    /// Exact match and F1 of predicted answers
    Answers(answers::Args),
    /// Several result files side by side, with bootstrap confidence
    Compare(compare::Args),
    /// What a server can make of questions, in each mode of search, and what each finds
    Privacy(privacy::Args),
}

/// Runs `dpr eval`.
///
/// # Errors
/// What the measured files and indexes lack, in words.
pub fn run(args: Args) -> Result<(), CliError> {
    match args.what {
        What::Retrieval(args) => retrieval::run(args),
        What::TuneHybrid(args) => tune::run(args),
        What::Run(args) => run::run(args),
        What::Answers(args) => answers::run(args),
        What::Compare(args) => compare::run(args),
        What::Privacy(args) => privacy::run(args),
    }
}
