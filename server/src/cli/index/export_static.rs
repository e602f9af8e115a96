//! `dpr index export-static`: writes an index as plain files, which pages download and search by themselves.

use std::path::PathBuf;

use dpr_encode::model::ModelDir;
use dpr_index::IndexReader;
use dpr_private::site::{
    DEFAULT_BUCKET_SIZE, DEFAULT_DIMS, Exported, SiteEncoder, SiteManifest, SiteOptions, Written, export,
};
use serde::Serialize;

use crate::cli::model_of_index::model_of_index;
use crate::cli::{CliError, output, progress, stop_on_interrupt};
use crate::location::Location;

/// Options of `dpr index export-static`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr index export-static --index index/ --model model/ --out site/dpr/
  dpr index export-static --index index/ --model model/ --out site/dpr/ --pack-bytes 65536")]
pub(super) struct ExportStaticArgs {
    /// The index directory; a live one is exported as it is at this moment
    #[arg(long, env = "DPR_INDEX", hide_env_values = true, value_name = "DIR")]
    index: Location,
    /// Model directory, for which `dpr export-web` has run
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: PathBuf,
    /// The folder to write. A site that is there is updated: pages download again what has changed
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Principal directions whose coordinates are downloaded: more find more, at half a byte for each passage
    #[arg(long, value_name = "N", default_value_t = DEFAULT_DIMS)]
    dims: usize,
    /// Write the texts in packs of so many bytes too, for pages that fetch texts when they have found them. Whoever
    /// hosts the files then sees which packs are fetched; without packs, pages download all texts and the host sees
    /// nothing
    #[arg(long, value_name = "N")]
    pack_bytes: Option<usize>,
    /// Write the passages in buckets too, for pages that download neither all codes nor all texts: they fetch the buckets
    /// that a question is about, and decoys. Whoever hosts the files then sees which buckets are fetched
    #[arg(long)]
    buckets: bool,
    /// Passages of a bucket, at least: a question is hidden among those of all buckets that are fetched
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BUCKET_SIZE, requires = "buckets")]
    bucket_size: usize,
    /// Make the directions of these passages even where the site has some that fit; pages download all codes again
    #[arg(long)]
    refit: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    passages: usize,
    dims: usize,
    parts: usize,
    /// Bytes that a page downloads for the passages: directions, codes and texts.
    passage_bytes: u64,
    /// Bytes of codes among them.
    code_bytes: u64,
    /// Bytes of the question encoder, in all formats; a page downloads one.
    encoder_bytes: u64,
    kept_directions: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<Buckets>,
    #[serde(flatten)]
    written: &'a Written,
}

/// The output of `--json` about buckets.
#[derive(Serialize)]
struct Buckets {
    count: usize,
    /// The fewest and the most passages of a bucket.
    least: usize,
    most: usize,
    /// Bytes of a bucket, which all have.
    bytes: u64,
    /// Bytes that a page downloads before the first question: directions and centroids.
    once_bytes: u64,
    kept_centroids: bool,
}

pub(super) fn run(args: &ExportStaticArgs) -> Result<(), CliError> {
    let index = IndexReader::open(args.index.dir("`dpr index export-static`")?)?.snapshot();
    let built_by = &index.base().manifest;
    let given = ModelDir::open(&args.model)?;
    let of = (built_by.model_fingerprint.as_str(), built_by.dim);
    let model = model_of_index(&args.index, of, &args.model, given)?;
    let encoder = SiteEncoder::of(&model)?;
    // A model of shorter vectors than the default has no more directions than numbers.
    let dims = (args.dims != DEFAULT_DIMS).then_some(args.dims);
    let options = SiteOptions {
        dims,
        refit: args.refit,
        pack_bytes: args.pack_bytes,
        bucket_size: args.buckets.then_some(args.bucket_size),
        stop: stop_on_interrupt(),
    };
    let exported = export(&index, &encoder, &args.out, &options, progress::on_stderr().as_ref())?;
    say(args, &exported)
}

fn say(args: &ExportStaticArgs, exported: &Exported) -> Result<(), CliError> {
    let Exported { manifest, written, kept_directions, kept_centroids } = exported;
    let SiteManifest { passages, dims, parts, encoder, .. } = manifest;
    let buckets = manifest.buckets.as_ref().map(|buckets| {
        let sizes = || buckets.files.iter().map(|bucket| bucket.passages);
        Buckets {
            count: buckets.files.len(),
            least: sizes().min().unwrap_or(0),
            most: sizes().max().unwrap_or(0),
            bytes: buckets.bytes(),
            once_bytes: manifest.centroid_bytes(),
            kept_centroids: *kept_centroids,
        }
    });
    let report = Report {
        passages: *passages,
        dims: *dims,
        parts: parts.len(),
        passage_bytes: manifest.passage_bytes(),
        code_bytes: parts.iter().map(|part| part.codes.entry.bytes).sum(),
        encoder_bytes: encoder.iter().map(|file| file.entry.bytes).sum(),
        kept_directions: *kept_directions,
        buckets,
        written,
    };
    if args.json {
        return output::json(&report);
    }
    let (out, megabytes) = (args.out.display(), |bytes: u64| bytes as f64 / 1e6);
    let Written { written, written_bytes, unchanged, removed } = report.written;
    let buckets = report.buckets.map_or_else(String::new, |buckets| {
        let Buckets { count, least, most, bytes, once_bytes, .. } = buckets;
        let (each, once) = (megabytes(bytes), megabytes(once_bytes));
        format!(
            "buckets: {count} of {least} to {most} passages and {each:.2} MB each; pages that fetch them download \
             {once:.2} MB before the first question\n"
        )
    });
    output::print(&format!(
        "{out}: {passages} passages in {} parts, {dims} numbers of 4 bits each\n\
         downloads: {:.2} MB for the passages ({:.2} MB of codes); the encoder's files take {:.1} MB, of which a page \
         downloads one format\n\
         {buckets}\
         files: {written} written ({:.2} MB), {unchanged} as they were, {removed} removed\n",
        report.parts,
        megabytes(report.passage_bytes),
        megabytes(report.code_bytes),
        megabytes(report.encoder_bytes),
        megabytes(*written_bytes),
    ))
}
