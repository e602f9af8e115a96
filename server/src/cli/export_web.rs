//! `dpr export-web`

use std::path::{Path, PathBuf};

use dpr_data::{DataError, read_questions, stream_passages};
use dpr_encode::model::{
    CrossEncoderDir, ExportReport, Language, ModelDir, ReaderDir, Vocabulary, WebFormat, WebOptions, WebPair,
    WebPairs, export_web_with,
};

use super::{CliError, output};

/// Texts that are cut into tokens at once, on all cores.
const AT_ONCE: usize = 16_384;

/// Arguments of `dpr export-web`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr export-web --model model/
  dpr export-web --model model/ --dtype f16,q8,q4
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
    /// Keep the tokens of these texts: passages or questions in any format that is read here, or text, one a line; may
    /// be given several times
    #[arg(long, value_name = "FILE")]
    keep_tokens: Vec<PathBuf>,
    /// Keep the tokens of these languages' letters: ISO 639-1 codes, as `ko,en`
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    languages: Vec<Language>,
    /// Write weights in these formats: f16, and 8 and 4 bits
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', default_values_t = WebFormat::DEFAULT)]
    dtype: Vec<WebFormat>,
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
/// What [`export_web_with`] says, and [`DataError`] for a file of texts that cannot be read.
pub fn run(args: Args) -> Result<(), CliError> {
    let model = ModelDir::open(&args.model)?;
    let model = args.dim.map_or_else(|| Ok(model.clone()), |dim| model.at_dim(dim))?;
    let chosen = !(args.keep_tokens.is_empty() && args.languages.is_empty());
    let vocabulary = chosen.then(|| vocabulary(&model, &args)).transpose()?;
    let reader = args.reader.as_deref().map(ReaderDir::open).transpose()?;
    let reranker = args.reranker.as_deref().map(CrossEncoderDir::open).transpose()?;
    let pairs = WebPairs { reader: reader.as_ref(), reranker: reranker.as_ref() };
    let options = WebOptions { vocabulary: vocabulary.as_ref(), pairs, formats: &args.dtype };
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
        output::line(format_args!(
            "{dtype:>4}  {:>6.1} MB  {}",
            file.entry.bytes as f64 / 1e6,
            args.model.join(&file.path).display()
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

/// Returns the tokens that the arguments keep.
fn vocabulary(model: &ModelDir, args: &Args) -> Result<Vocabulary, CliError> {
    let mut vocabulary = Vocabulary::of(model)?;
    vocabulary.keep_languages(&args.languages);
    for path in &args.keep_tokens {
        keep(&mut vocabulary, path)?;
    }
    Ok(vocabulary)
}

/// Keeps the tokens of a file's passages, and of its questions where it has no passages or is a JSON document, which
/// can hold both.
fn keep(vocabulary: &mut Vocabulary, path: &Path) -> Result<(), CliError> {
    let passages = keep_passages(vocabulary, path)?;
    let name = path.to_string_lossy();
    let may_hold_both = name.trim_end_matches(".gz").ends_with(".json");
    if passages.is_ok() && !may_hold_both {
        return Ok(());
    }
    match read_questions(path) {
        Ok(questions) => {
            let texts: Vec<String> = questions.into_iter().map(|question| question.text).collect();
            Ok(vocabulary.keep_texts(&texts)?)
        }
        // The error about passages names what is wrong in a file that was meant to hold them.
        Err(error) => match passages {
            Ok(()) => Ok(()),
            Err(DataError::UnknownFormat { .. }) => Err(error.into()),
            Err(passages) => Err(passages.into()),
        },
    }
}

/// Keeps the tokens of a file's passages; the inner error says that they cannot be read.
fn keep_passages(vocabulary: &mut Vocabulary, path: &Path) -> Result<Result<(), DataError>, CliError> {
    let mut passages = match stream_passages(path) {
        Ok(passages) => passages,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let mut texts = Vec::with_capacity(AT_ONCE);
        for passage in passages.by_ref().take(AT_ONCE / 2) {
            match passage {
                Ok(passage) => texts.extend([passage.title, passage.text]),
                Err(error) => return Ok(Err(error)),
            }
        }
        if texts.is_empty() {
            return Ok(Ok(()));
        }
        vocabulary.keep_texts(&texts)?;
    }
}
