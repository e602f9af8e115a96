//! `dpr import`

use std::path::PathBuf;

use clap::ValueEnum;
use dpr_core::{Pooling, Similarity, TitleJoin};

use super::{CliError, output};
use dpr_encode::model::{ImportOptions, import};

/// Arguments of `dpr import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, the paper's encoders:
  dpr import --question dpr-question_encoder-single-nq-base/ \\
             --passage dpr-ctx_encoder-single-nq-base/ --out model/
Example, a sentence-transformers model as one shared encoder, with 768-d vectors of the same inner products:
  dpr import --question all-MiniLM-L6-v2/ --out model/ --project 768
Example, a model that wants its texts marked:
  dpr import --question e5-small-v2/ --out model/ --query-prompt \"query: \" --passage-prompt \"passage: \"
Example, 256 of the 768 numbers of a model trained for it:
  dpr import --question nomic-bert-base/ --out model/ --dim 256 --matryoshka")]
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
    /// How tokens become one vector [default: what the directory says, else cls]; pooler is BERT's dense layer and tanh
    /// over the first token
    #[arg(long)]
    pooling: Option<PoolingArg>,
    /// Scale vectors to length 1 [default: what the directory says, else false]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    normalize: Option<bool>,
    /// How vectors are compared [default: what the directory says, else dot]; cosine scales them to length 1, l2 adds a
    /// number to them by which inner products rank as the distance does
    #[arg(long)]
    similarity: Option<SimilarityArg>,
    /// Keep the first N numbers of a vector, of a model trained for it (Matryoshka) [default: what the directory says,
    /// else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    dim: Option<u32>,
    /// Say that the model was trained for fewer numbers where its directory does not
    #[arg(long, requires = "dim")]
    matryoshka: bool,
    /// Text before every question, as "query: "; "" for none [default: what the directory says]
    #[arg(long, value_name = "TEXT")]
    query_prompt: Option<String>,
    /// Text before every passage, as "passage: "; "" for none [default: what the directory says]
    #[arg(long, value_name = "TEXT")]
    passage_prompt: Option<String>,
    /// How a title is joined to its text: separator, space, or a template as "title: {title|none} | text: {text}"
    /// [default: separator, the tokenizer's, as "title [SEP] text"]
    #[arg(long, value_name = "JOIN")]
    title_join: Option<TitleJoin>,
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
    Max,
    LastToken,
    WeightedMean,
    MeanSqrtLen,
    Pooler,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SimilarityArg {
    Dot,
    Cosine,
    L2,
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
            PoolingArg::Max => Pooling::Max,
            PoolingArg::LastToken => Pooling::LastToken,
            PoolingArg::WeightedMean => Pooling::WeightedMean,
            PoolingArg::MeanSqrtLen => Pooling::MeanSqrtLen,
            PoolingArg::Pooler => Pooling::Pooler,
        }),
        normalize: args.normalize,
        similarity: args.similarity.map(|similarity| match similarity {
            SimilarityArg::Dot => Similarity::Dot,
            SimilarityArg::Cosine => Similarity::Cosine,
            SimilarityArg::L2 => Similarity::L2,
        }),
        dim: args.dim.map(|dim| dim as usize),
        matryoshka: args.matryoshka,
        query_prompt: args.query_prompt,
        passage_prompt: args.passage_prompt,
        title_join: args.title_join,
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
    if !manifest.prompts.is_empty() {
        output::line(format_args!(
            "prompts: {:?} before questions, {:?} before passages",
            manifest.prompts.query, manifest.prompts.passage
        ))?;
    }
    output::line(format_args!(
        "compared by {:?}; fingerprint {}",
        manifest.similarity, manifest.fingerprint
    ))?;
    Ok(())
}
