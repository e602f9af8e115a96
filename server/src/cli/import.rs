//! `dpr import`

use std::path::PathBuf;

use clap::ValueEnum;
use dpr_core::{Pooling, Similarity};

use super::{CliError, output};
use dpr_encode::model::{ImportOptions, import};

/// Arguments of `dpr import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, the paper's encoders:
  dpr import --question dpr-question_encoder-single-nq-base/ \\
             --passage dpr-ctx_encoder-single-nq-base/ --out model/
Example, a sentence-transformers model as one shared encoder, with 768-d vectors of the same inner products:
  dpr import --question all-MiniLM-L6-v2/ --out model/ --project 768")]
pub struct Args {
    /// Hugging Face directory of the question encoder (config.json, tokenizer.json, and model.safetensors or
    /// pytorch_model.bin, whole or in shards)
    #[arg(long, value_name = "DIR")]
    question: PathBuf,
    /// The same of the passage encoder; without it one encoder serves both
    #[arg(long, value_name = "DIR")]
    passage: Option<PathBuf>,
    /// Model directory to write
    #[arg(long, value_name = "MODEL")]
    out: PathBuf,
    /// Add a projection to this many numbers, with orthonormal rows from a fixed seed
    #[arg(long, value_name = "DIM", value_parser = clap::value_parser!(u32).range(1..=16384))]
    project: Option<u32>,
    /// How tokens become one vector [default: what the directory says, else cls]
    #[arg(long)]
    pooling: Option<PoolingArg>,
    /// Scale vectors to length 1 [default: what the directory says, else false]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    normalize: Option<bool>,
    /// Tokens a question is truncated to [default: what the directory says, else 256]
    #[arg(long, value_name = "N")]
    max_question_tokens: Option<usize>,
    /// Tokens a passage is truncated to [default: what the directory says, else 256]
    #[arg(long, value_name = "N")]
    max_passage_tokens: Option<usize>,
    /// A name for people [default: the question directory's]
    #[arg(long)]
    name: Option<String>,
    /// Replace a model directory that exists
    #[arg(long)]
    force: bool,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PoolingArg {
    Cls,
    Mean,
}

/// Runs `dpr import`.
///
/// # Errors
/// What [`import`] says.
pub fn run(args: Args) -> Result<(), CliError> {
    let options = ImportOptions {
        name: args.name,
        project: args.project.map(|dim| dim as usize),
        pooling: args.pooling.map(|pooling| match pooling {
            PoolingArg::Cls => Pooling::Cls,
            PoolingArg::Mean => Pooling::Mean,
        }),
        normalize: args.normalize,
        similarity: Similarity::Dot,
        max_question_tokens: args.max_question_tokens,
        max_passage_tokens: args.max_passage_tokens,
        space: None,
        force: args.force,
    };
    let manifest = import(&args.question, args.passage.as_deref(), &args.out, &options)?;
    if args.json {
        return output::json(&manifest);
    }
    output::line(format_args!(
        "{}: {:?} encoder{}, {} numbers a vector, {:?} pooling, {}, questions to {} tokens, passages to {}",
        args.out.display(),
        manifest.family,
        if manifest.shared { " for questions and passages" } else { "s" },
        manifest.dim,
        manifest.pooling,
        if manifest.normalize { "length 1" } else { "not normalised" },
        manifest.max_question_tokens,
        manifest.max_passage_tokens,
    ))?;
    output::line(format_args!("fingerprint {}", manifest.fingerprint))?;
    Ok(())
}
