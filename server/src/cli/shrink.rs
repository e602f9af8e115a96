//! `dpr shrink`

use std::path::PathBuf;

use dpr_encode::model::{ModelDir, ShrinkOptions, shrink};

use super::vocabulary_args::VocabularyArgs;
use super::{CliError, output};

/// Arguments of `dpr shrink`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, a question encoder of 8 MB for the page, whose index stays as it is (docs/guide/training.md):
  dpr shrink --model model/ --layers 4 --units 768 --max-tokens 64 --out start/ \\
    --keep-tokens passages.tsv --most-tokens 26000
  dpr distill --teacher model/ --model start/ --questions questions.tsv --vectors vectors/ --out run/
  dpr export-web --model run/best/ --dtype q4

The model that is written has the question encoder alone, for questions and passages. Distil it before you use it: its
vectors are not those of the index.")]
pub struct Args {
    /// Model directory, as `dpr import` writes it
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: PathBuf,
    /// Model directory to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Keep N layers of the transformer, spread evenly from the first to the last [default: all]
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Keep N units of each feed-forward layer, those with the greatest weights [default: all]. A multiple of 32 suits
    /// weights in 4 bits and GPUs
    #[arg(long, value_name = "N")]
    units: Option<usize>,
    #[command(flatten)]
    vocabulary: VocabularyArgs,
    /// Tokens that a question is cut to; position embeddings behind these are left out [default: all]
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// A name for people [default: the model's]
    #[arg(long)]
    name: Option<String>,
    /// Replace a model directory that exists
    #[arg(long)]
    force: bool,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `dpr shrink`.
///
/// # Errors
/// What [`shrink`] says, and [`DataError`](dpr_data::DataError) for a file of texts that cannot be read.
pub fn run(args: Args) -> Result<(), CliError> {
    let model = ModelDir::open(&args.model)?;
    let vocabulary = args.vocabulary.of(&model)?;
    let options = ShrinkOptions {
        layers: args.layers,
        units: args.units,
        vocabulary: vocabulary.as_ref(),
        max_tokens: args.max_tokens,
        name: args.name,
        force: args.force,
    };
    let manifest = shrink(&model, &args.out, &options)?;
    if args.json {
        return output::json(&manifest);
    }
    let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
    output::line(format_args!(
        "{}: {:.1} MB; {} numbers a vector, texts to {} tokens; distil it before you use it",
        args.out.display(),
        bytes as f64 / 1e6,
        manifest.dim,
        manifest.max_question_tokens,
    ))
}
