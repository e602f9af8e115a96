//! `dpr export-web`

use std::path::{Path, PathBuf};

use dpr_data::read_questions;
use dpr_encode::model::{
    CrossEncoderDir, ExportReport, ModelDir, ReaderDir, WebFormat, WebOptions, WebPair, WebPairs,
    export_web_with,
};

use super::vocabulary_args::VocabularyArgs;
use super::{CliError, output, progress};

/// Arguments of `dpr export-web`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr export-web --model model/
  dpr export-web --model model/ --dtype f16,q8,q4
  dpr export-web --model model/ --dtype q8,q4 --calibrate questions.tsv
  dpr export-web --model multilingual/ --keep-tokens passages.tsv --keep-tokens questions.txt
  dpr export-web --model multilingual/ --languages ko,en
  dpr export-web --model model/ --reader reader/

A page downloads one of the formats: q8 unless it asks for another. f32 is the model's own file, and always there. q4 is \
half of q8, with the same speed and memory once it is loaded, and finds nearly the same passages.

With --keep-tokens or --languages, the page gets a part of the vocabulary. Texts of kept tokens have the vectors that they
had; other words are cut into shorter tokens. Give the passages and the questions that you have: most of what people ask is
in their words.

With --reader or --reranker, pages mark answers and re-rank. A model that has the question encoder's embeddings, byte for byte, \
leaves them out of what a page downloads. What is not given is not in the export any more.")]
pub struct Args {
    /// Model directory, as `dpr import` writes it
    #[arg(long, value_name = "MODEL")]
    model: PathBuf,
    #[command(flatten)]
    vocabulary: VocabularyArgs,
    /// Write weights in these formats, with commas between them: f16, q8 and q4 [default: f16,q8]
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', default_values_t = WebFormat::DEFAULT, hide_default_value = true)]
    dtype: Vec<WebFormat>,
    /// Round the question encoder's layers in q4 for the questions in this file, so that what they compute changes
    /// little; 4,096 questions are read at most. May be given several times. Not for an encoder that was distilled with
    /// --dtype q4
    #[arg(long, value_name = "FILE")]
    calibrate: Vec<PathBuf>,
    /// Write the configuration of an encoder of so many numbers, of a model that was trained for it
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Also write a reader, as `dpr import --reader` makes it: pages mark the answers of questions with it
    #[arg(long, value_name = "READER")]
    reader: Option<PathBuf>,
    /// Also write a cross-encoder, as `dpr import --cross-encoder` makes it: pages re-rank passages with it, and
    /// without it with the reader
    #[arg(long, value_name = "MODEL")]
    reranker: Option<PathBuf>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `dpr export-web`.
///
/// # Errors
/// What [`export_web_with`] says, and [`DataError`](dpr_data::DataError) for a file of texts that cannot be read.
pub fn run(args: Args) -> Result<(), CliError> {
    let model = ModelDir::open(&args.model)?;
    let model = args.dim.map_or_else(|| Ok(model.clone()), |dim| model.at_dim(dim))?;
    let vocabulary = args.vocabulary.of(&model)?;
    let reader = args.reader.as_deref().map(ReaderDir::open).transpose()?;
    let reranker = args.reranker.as_deref().map(CrossEncoderDir::open).transpose()?;
    let pairs = WebPairs { reader: reader.as_ref(), reranker: reranker.as_ref() };
    if !args.calibrate.is_empty() && !args.dtype.contains(&WebFormat::Q4) {
        let formats: Vec<&str> = args.dtype.iter().map(|format| format.name()).collect();
        return Err(format!(
            "--calibrate is for weights in 4 bits, and --dtype is {}: add q4 to --dtype, or leave --calibrate out",
            formats.join(",")
        )
        .into());
    }
    let progress = progress::on_stderr();
    let mut calibration = Vec::new();
    for file in &args.calibrate {
        calibration.extend(read_questions(file)?.into_iter().map(|question| question.text));
    }
    let options = WebOptions {
        vocabulary: vocabulary.as_ref(),
        pairs,
        formats: &args.dtype,
        calibration: &calibration,
        progress: progress.as_ref(),
    };
    let ExportReport { manifest } = export_web_with(&model, &options)?;
    if args.json {
        return output::json(&manifest);
    }
    if let (Some(encoder), Some(vocabulary)) = (&manifest.encoder, &vocabulary) {
        output::line(format_args!("{} of {} tokens", encoder.tokens, vocabulary.total()))?;
        output::line(format_args!(
            "tokenizer  {:>6.1} MB  {}",
            encoder.tokenizer.entry.bytes as f64 / 1e6,
            args.model.join(&encoder.tokenizer.path).display()
        ))?;
    }
    if let Some(vocabulary) = &manifest.vocabulary {
        output::line(format_args!(
            "vocabulary {:>6.1} MB  {}",
            vocabulary.entry.bytes as f64 / 1e6,
            args.model.join(&vocabulary.path).display()
        ))?;
    }
    for (dtype, file) in &manifest.weights {
        let calibrated = file.calibrated.map(|count| format!("  (calibrated with {count} questions)"));
        output::line(format_args!(
            "{dtype:>4}  {:>6.1} MB  {}{}",
            file.entry.bytes as f64 / 1e6,
            args.model.join(&file.path).display(),
            calibrated.unwrap_or_default()
        ))?;
    }
    for pair in manifest.reader.iter().chain(&manifest.reranker) {
        print_pair(&args.model, pair)?;
    }
    Ok(())
}

/// Prints the weights of a model of pairs.
fn print_pair(model: &Path, pair: &WebPair) -> Result<(), CliError> {
    for (dtype, weights) in &pair.weights {
        let shared = match weights.shares.len() {
            0 => String::new(),
            tensors => format!("  ({tensors} tensors are the question encoder's)"),
        };
        output::line(format_args!(
            "{dtype:>4}  {:>6.1} MB  {}{shared}",
            weights.file.entry.bytes as f64 / 1e6,
            model.join(&weights.file.path).display()
        ))?;
    }
    Ok(())
}
