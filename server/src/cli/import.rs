//! `dpr import`

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use dpr_core::{EncoderConfig, PairManifest, Pooling, Similarity, TitleJoin};

use super::{CliError, output};
use dpr_encode::model::{
    CrossEncoderOptions, ImportOptions, ModelDir, PASSAGE_DIR, QUESTION_DIR, ReaderOptions, import,
    import_cross_encoder, import_reader,
};

/// Arguments of `dpr import`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("model").required(true))]
#[command(after_help = "\
Example, the paper's encoders:
  dpr import --question dpr-question_encoder-single-nq-base/ \\
             --passage dpr-ctx_encoder-single-nq-base/ --out model/
Example, a sentence-transformers model as one shared encoder, with 768-d vectors of the same inner products:
  dpr import --question all-MiniLM-L6-v2/ --out model/ --project 768
Example, a model that wants its texts marked:
  dpr import --question e5-small-v2/ --out model/ --query-prompt \"query: \" --passage-prompt \"passage: \"
Example, 256 of the 768 numbers of a model trained for it:
  dpr import --question nomic-bert-base/ --out model/ --dim 256 --matryoshka
Example, a cross-encoder, which re-ranks what a search found:
  dpr import --cross-encoder ms-marco-MiniLM-L6-v2/ --out reranker/
Example, a reader, which answers a question from passages:
  dpr import --reader dpr-reader-single-nq-base/ --out reader/")]
pub struct Args {
    /// Hugging Face directory of the question encoder (config.json, tokenizer.json, and model.safetensors or
    /// pytorch_model.bin, whole or in shards)
    #[arg(long, value_name = "DIR", group = "model")]
    question: Option<PathBuf>,
    /// The same of the passage encoder; without it one encoder serves both
    #[arg(long, value_name = "DIR")]
    passage: Option<PathBuf>,
    /// The same of a cross-encoder with one label, in place of encoders: it gives a question and a passage a score
    #[arg(long, value_name = "DIR", group = "model", conflicts_with_all = ["passage", "project", "pooling", "normalize",
        "similarity", "dim", "matryoshka", "max_question_tokens", "max_passage_tokens"])]
    cross_encoder: Option<PathBuf>,
    /// The same of a reader, a DPRReader or a model for question answering (BertForQuestionAnswering …), in place of
    /// encoders: it marks the answer in passages
    #[arg(long, value_name = "DIR", group = "model", conflicts_with_all = ["passage", "project", "pooling", "normalize",
        "similarity", "dim", "matryoshka", "query_prompt", "passage_prompt", "max_question_tokens",
        "max_passage_tokens"])]
    reader: Option<PathBuf>,
    /// Model directory to write
    #[arg(long, value_name = "MODEL")]
    out: PathBuf,
    /// Add a projection to this many numbers, with orthonormal rows from a fixed seed: at least as many as the model's
    /// vectors have, whose inner products are then kept; fewer are worse vectors, for `dpr distill` to train
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
    /// Say that the model was trained for fewer numbers where its directory does not, for --dim here or at `dpr encode`
    #[arg(long)]
    matryoshka: bool,
    /// Text before every question, as "query: "; "" for none [default: what the directory says]
    #[arg(long, value_name = "TEXT")]
    query_prompt: Option<String>,
    /// Text before every passage, as "passage: "; "" for none [default: what the directory says]
    #[arg(long, value_name = "TEXT")]
    passage_prompt: Option<String>,
    /// How a title is joined to its text: separator, space, or a template as "title: {title|none} | text: {text}"
    /// [default: separator, the tokenizer's, as "title [SEP] text"; of a cross-encoder, space; of a reader that is not
    /// a DPRReader, "{text}", which leaves it out]
    #[arg(long, value_name = "JOIN")]
    title_join: Option<TitleJoin>,
    /// Tokens a question is truncated to [default: what the directory says, else 256]
    #[arg(long, value_name = "N")]
    max_question_tokens: Option<usize>,
    /// Tokens a passage is truncated to [default: what the directory says, else 256]
    #[arg(long, value_name = "N")]
    max_passage_tokens: Option<usize>,
    /// Tokens a question and a passage together are truncated to, of a cross-encoder [default: what the directory says,
    /// else as many as it has positions] or a reader [default: 350, or fewer where it has fewer]
    #[arg(long, value_name = "N", conflicts_with = "question")]
    max_tokens: Option<usize>,
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
/// What [`import`], [`import_cross_encoder`] or [`import_reader`] says.
pub fn run(args: Args) -> Result<(), CliError> {
    if let Some(from) = &args.cross_encoder {
        return run_cross_encoder(from, &args);
    }
    if let Some(from) = &args.reader {
        return run_reader(from, &args);
    }
    // The parser asks for one of the three.
    let question = args.question.unwrap_or_default();
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
    let manifest = import(&question, args.passage.as_deref(), &args.out, &options)?;
    if options.project.is_some() {
        let folders: &[&str] = if manifest.shared { &[QUESTION_DIR] } else { &[QUESTION_DIR, PASSAGE_DIR] };
        warn_of_narrow_projection(&args.out, folders)?;
    }
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
        "compared by {}; fingerprint {}",
        manifest.similarity.name(),
        manifest.fingerprint
    ))?;
    Ok(())
}

/// Warns of encoders of the model directory `path` whose projection has fewer numbers than the vectors before it.
fn warn_of_narrow_projection(path: &Path, folders: &[&str]) -> Result<(), CliError> {
    let model = ModelDir::open(path)?;
    for folder in folders {
        let config = EncoderConfig::from_json(&model.config(folder)?)?;
        let (dim, width) = (config.projection_dim, config.kept_width());
        // 0: there is none, since the vectors have as many numbers as were asked for.
        if (1..width).contains(&dim) {
            tracing::warn!(
                "--project is {dim}, the vectors of {folder} have {width} numbers: a projection to fewer does not keep \
                 their inner products and finds worse; give --project {width} or more, or leave it out, unless \
                 `dpr distill` trains this model next; --dim shortens the vectors of a model that was trained for it"
            );
        }
    }
    Ok(())
}

fn run_cross_encoder(from: &Path, args: &Args) -> Result<(), CliError> {
    let options = CrossEncoderOptions {
        name: args.name.clone(),
        query_prompt: args.query_prompt.clone(),
        passage_prompt: args.passage_prompt.clone(),
        title_join: args.title_join.clone(),
        max_tokens: args.max_tokens,
        force: args.force,
    };
    print_pair(&import_cross_encoder(from, &args.out, &options)?, args)
}

fn run_reader(from: &Path, args: &Args) -> Result<(), CliError> {
    let options = ReaderOptions {
        name: args.name.clone(),
        title_join: args.title_join.clone(),
        max_tokens: args.max_tokens,
        force: args.force,
    };
    print_pair(&import_reader(from, &args.out, &options)?, args)
}

fn print_pair(manifest: &PairManifest, args: &Args) -> Result<(), CliError> {
    if args.json {
        return output::json(manifest);
    }
    output::line(format_args!(
        "{}: {:?} {}, pairs to {} tokens; fingerprint {}",
        args.out.display(),
        manifest.family,
        manifest.kind.name(),
        manifest.max_tokens,
        manifest.fingerprint,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_are_printed_as_the_option_and_the_manifest_have_them() {
        for similarity in Similarity::ALL {
            let name = similarity.name();
            assert!(SimilarityArg::from_str(name, false).is_ok(), "{name}");
            assert_eq!(serde_json::to_value(similarity).unwrap(), name);
        }
    }
}
