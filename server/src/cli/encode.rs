//! `dpr encode`: passages to vectors.

use std::path::PathBuf;
use std::time::Instant;

use dpr_core::Similarity;
use dpr_data::check_not_input;
use serde::Serialize;

use super::{CliError, output, stop_on_interrupt};
use crate::cli::args::{DeviceArgs, PrecisionArgs, ThreadsArgs};
use crate::cli::progress;
use dpr_encode::model::ModelDir;
use dpr_encode::{CorpusShard, EncodeOptions, PipelineOptions, Shard, encode_shard};
use dpr_files::Job;
use dpr_index::limits;
use dpr_index::vectors::PASSAGES;

/// Arguments of `dpr encode`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr encode --model model/ --passages psgs_w100.tsv --out vectors/
Example, on two machines, joined by `dpr index --vectors vectors-0 vectors-1 --out index/`:
  dpr encode --model model/ --passages psgs_w100.tsv --shard 0/2 --out vectors-0/
  dpr encode --model model/ --passages psgs_w100.tsv --shard 1/2 --out vectors-1/
Example, faster on a processor with AMX or AVX-512 BF16:
  dpr encode --model model/ --passages psgs_w100.tsv --precision bf16 --out vectors/
Example, 256 numbers of a vector, of a model that was trained for it:
  dpr encode --model model/ --passages psgs_w100.tsv --dim 256 --out vectors-256/

Ctrl-C stops after the batches under way and keeps the finished parts. The same command then
continues, and what it writes is what one undisturbed run would have written.")]
pub struct Args {
    /// Model directory, as `dpr import` wrote it
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: PathBuf,
    /// Passages: psgs_w100.tsv order (header `id text title`), BEIR corpus.jsonl, or SQuAD json; each also .gz
    #[arg(long, value_name = "FILE")]
    passages: PathBuf,
    /// Vectors directory to write, or to continue
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Encode only the i-th of n contiguous shares, counted from 0
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    shard: Shard,
    /// Keep the first N numbers of a vector, of a model trained for it (Matryoshka); searches take the same model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    dim: Option<u32>,
    /// Most tokens in a batch [default: 1024 on cpu, 2048 on flex, 8192 on a GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch_tokens: Option<u32>,
    #[command(flatten)]
    workers: ThreadsArgs,
    #[command(flatten)]
    compute: DeviceArgs,
    #[command(flatten)]
    numbers: PrecisionArgs,
    /// Discard the vectors that are in --out and start anew
    #[arg(long)]
    force: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    model: &'a str,
    /// Numbers in a vector.
    dim: usize,
    device: &'a str,
    precision: &'a str,
    threads: usize,
    batch_tokens: usize,
    shard: String,
    /// In the shard.
    passages: usize,
    /// Of these by earlier runs.
    kept: usize,
    /// Of these by this run; what follows counts these only.
    encoded: usize,
    tokens: usize,
    /// Passages as long as the model's limit of tokens, or longer.
    truncated: usize,
    load_seconds: f64,
    /// From the first token to the last part written; without loading and joining.
    seconds: f64,
    passages_per_second: f64,
}

/// Runs `dpr encode`.
///
/// # Errors
/// When the passages cannot be read, one is longer than an index takes, the model is damaged, the directory cannot be
/// written, or on Ctrl-C.
pub fn run(args: Args) -> Result<(), CliError> {
    check_not_input(&args.out.join(PASSAGES), &args.passages)?;
    // The corpus first: what is wrong in it shows before a model is loaded.
    let corpus = CorpusShard::read(&args.passages, args.shard)?;
    corpus.passages().iter().try_for_each(limits::check)?;
    let started = Instant::now();
    let mut model = ModelDir::open(&args.model)?;
    if let Some(dim) = args.dim {
        model = model.at_dim(dim as usize)?;
    }
    let model = model.in_precision(args.numbers.precision);
    let encoder = model.passage_encoder(args.compute.device)?;
    let (manifest, config) = (model.manifest(), encoder.config());
    if manifest.similarity == Similarity::L2 && config.l2.is_none() && !config.normalize {
        tracing::warn!(
            "{model} was trained to compare by l2, and imported by a version that ranked by inner product all the \
             same: import it again (dpr import --similarity l2 --question {model}/question_encoder …)",
            model = args.model.display()
        );
    }
    let load_seconds = started.elapsed().as_secs_f64();
    let pipeline = PipelineOptions::for_device(
        encoder.device_name(),
        args.batch_tokens.map(|tokens| tokens as usize),
        args.workers.count(),
    );
    let options = EncodeOptions { shard: args.shard, pipeline, force: args.force };
    let cancel = stop_on_interrupt();
    let progress = progress::on_stderr();
    let job = Job { stop: &cancel, progress: progress.as_ref() };
    let fingerprint = manifest.space();
    let done = encode_shard(&encoder, fingerprint, &corpus, &args.out, &options, job)?;

    let seconds = done.encoding.as_secs_f64();
    let summary = Summary {
        model: fingerprint,
        dim: manifest.dim,
        device: encoder.device_name(),
        precision: encoder.precision().name(),
        threads: pipeline.threads,
        batch_tokens: pipeline.batch_tokens,
        shard: args.shard.to_string(),
        passages: done.passages,
        kept: done.kept,
        encoded: done.encoded.rows,
        tokens: done.encoded.tokens,
        truncated: done.encoded.truncated,
        load_seconds,
        seconds,
        passages_per_second: if seconds > 0.0 { done.encoded.rows as f64 / seconds } else { 0.0 },
    };
    if args.json {
        return output::json(&summary);
    }
    let Summary { passages, kept, encoded, truncated, device, precision, .. } = summary;
    output::line(format_args!(
        "{}: vectors of {}, {encoded} of them encoded now on {device} in {precision}",
        args.out.display(),
        output::counted(passages, "passage", "passages")
    ))?;
    if encoded > 0 {
        output::line(format_args!(
            "{seconds:.1} s, {:.1} passages/s, loading {load_seconds:.1} s",
            summary.passages_per_second
        ))?;
    }
    if kept > 0 {
        output::line(format_args!("of an earlier run: {}", output::counted(kept, "passage", "passages")))?;
    }
    if truncated > 0 {
        let limit = encoder.max_tokens();
        output::line(format_args!(
            "as long as the model's {limit} tokens, or longer: {}; text beyond {limit} tokens is not in the vectors",
            output::counted(truncated, "passage", "passages")
        ))?;
    }
    Ok(())
}
