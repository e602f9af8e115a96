//! `dpr index`: makes vectors searchable.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::{CliError, output, stop_on_interrupt};
use crate::data::read_passages;
use crate::index::{
    HnswParams, IndexKind, IndexManifest, IndexOptions, LoadedIndex, LoadedSparse, build_index,
    build_sparse_index, recall_against_exact,
};
use crate::progress;
use crate::sparse::{Analyzer, SparseOptions};
use crate::vectors::VectorSet;

/// Results compared when recall is measured; what the DPR paper's top-20 needs.
const RECALL_K: usize = 20;

/// Vectors asked with when recall is measured.
const RECALL_SAMPLE: usize = 200;

/// Recall under which the user is told what to do.
const RECALL_WANTED: f64 = 0.99;

/// Options of `dpr index`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr index --vectors vectors/ --out index/
  dpr index --vectors shard-0/ shard-1/ --out index/ --kind hnsw --ef-search 200
  dpr index --vectors vectors/ --out index/ --sparse english      (BM25 and TF-IDF beside the vectors)
  dpr index --passages psgs_w100.tsv --out bm25/ --sparse english (without vectors)

A running server keeps the index it has read; start it again to serve the new one. The version
before is kept in the same directory until the next build.")]
pub struct Args {
    /// Directories that `dpr encode` wrote; all shards, in any order
    #[arg(long, required_unless_present = "passages", num_args = 1.., value_name = "DIR")]
    vectors: Vec<PathBuf>,
    /// Passages to find by their words alone: TSV, BEIR jsonl or SQuAD json; needs --sparse
    #[arg(long, conflicts_with = "vectors", requires = "sparse", value_name = "FILE")]
    passages: Option<PathBuf>,
    /// Also index words, for BM25, TF-IDF and hybrid ranking: `english`, or `bigram` for Chinese, Japanese, Korean
    #[arg(long, value_name = "ANALYZER")]
    sparse: Option<Analyzer>,
    /// Threads that index words; 0 means one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
    /// The index directory; an index that is there stays in use until the new one is whole
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// `exact` compares every passage; `hnsw` walks a graph, faster from some 10,000 passages on
    #[arg(long, default_value = "exact")]
    kind: IndexKind,
    /// HNSW: links of a passage on the upper layers, 2 to 255; twice as many on the lowest
    #[arg(long, default_value_t = HnswParams::default().m, value_name = "N")]
    m: usize,
    /// HNSW: candidates kept while linking; more is slower to build and finds more
    #[arg(long, default_value_t = HnswParams::default().ef_construction, value_name = "N")]
    ef_construction: usize,
    /// HNSW: candidates kept while searching; more is slower and finds more
    #[arg(long, default_value_t = HnswParams::default().ef_search, value_name = "N")]
    ef_search: usize,
    /// Print the manifest, the time and the recall as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    manifest: &'a IndexManifest,
    bytes: u64,
    seconds: f64,
    #[serde(rename = "recall_at_20", skip_serializing_if = "Option::is_none")]
    recall: Option<f64>,
}

/// Builds the index and says what it is.
///
/// # Errors
/// Vectors that cannot be read, or whatever [`build_index`] fails with.
pub fn run(args: Args) -> Result<(), CliError> {
    let sparse = args.sparse.map(|analyzer| SparseOptions { analyzer, threads: args.threads });
    let options = IndexOptions {
        kind: args.kind,
        hnsw: HnswParams { m: args.m, ef_construction: args.ef_construction, ef_search: args.ef_search },
        sparse,
        stop: stop_on_interrupt(),
    };
    let started = Instant::now();
    let progress = progress::on_stderr();
    let manifest = match (&args.passages, sparse) {
        (Some(file), Some(sparse)) => {
            build_sparse_index(&read_passages(file)?, &args.out, sparse, &options.stop, progress.as_ref())?
        }
        _ => build_index(&VectorSet::read(&args.vectors)?, &args.out, &options, progress.as_ref())?,
    };
    let seconds = started.elapsed().as_secs_f64();

    // Opening reads every byte back: an index that is reported can be served.
    let recall = match manifest.kind {
        IndexKind::Exact => LoadedIndex::open(&args.out).map(|_| None)?,
        IndexKind::Sparse => LoadedSparse::open(&args.out).map(|_| None)?,
        IndexKind::Hnsw => {
            Some(recall_against_exact(&LoadedIndex::open(&args.out)?, RECALL_K, RECALL_SAMPLE)?)
        }
    };
    if let Some(recall) = recall.filter(|recall| *recall < RECALL_WANTED) {
        tracing::warn!(
            "recall@{RECALL_K} is {recall:.3}: raise --ef-search or --ef-construction, or use --kind exact; vectors \
             of very different lengths make a poor graph, so see whether the model's should be normalised"
        );
    }
    let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
    if args.json {
        return output::json(&Report { manifest: &manifest, bytes, seconds, recall });
    }
    let IndexManifest { count, dim, kind, phi, sparse, .. } = &manifest;
    let words = sparse.map_or_else(String::new, |sparse| format!(", {} words", sparse.analyzer));
    let vectors = if *dim == 0 { String::new() } else { format!(", {dim} dimensions, {kind}, phi {phi:.4}") };
    output::line(format_args!("{count} passages{vectors}{words}, {bytes} bytes, {seconds:.1} s"))?;
    if let Some(recall) = recall {
        output::line(format_args!(
            "recall@{RECALL_K} against exact search, on its own vectors: {recall:.4}"
        ))?;
    }
    Ok(())
}
