//! `dpr index --out milvus://...`: fills a collection of a Milvus cluster.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::BuildArgs;
use crate::cli::progress;
use crate::cli::{CliError, output, stop_on_interrupt};
use crate::location::milvus_token;
use dpr_index::HnswParams;
use dpr_index::vectors::VectorSet;
use dpr_milvus::{LoadOptions, MilvusAddress, Report, load};

/// What `--json` prints.
#[derive(Serialize)]
struct Filled {
    #[serde(flatten)]
    report: Report,
    seconds: f64,
}

/// Writes the vectors that are given, which may be some shards of a corpus.
pub(super) fn fill(address: &MilvusAddress, args: &BuildArgs) -> Result<(), CliError> {
    if args.passages.is_some() || args.sparse.is_some() {
        return Err(format!("{address} holds vectors, not words: leave out --sparse and --passages").into());
    }
    let hnsw = HnswParams { m: args.m, ef_construction: args.ef_construction, ef_search: args.ef_search };
    hnsw.check()?;
    let options = LoadOptions {
        hnsw,
        channels: args.channels,
        in_flight: args.in_flight.into(),
        patience: Duration::from_secs(args.patience.into()),
        token: milvus_token()?,
        stop: stop_on_interrupt(),
    };
    let vectors = VectorSet::read_shards(&args.vectors)?;
    let started = Instant::now();
    let report = load(address, &vectors, &options, progress::on_stderr().as_ref())?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return output::json(&Filled { report, seconds });
    }
    let Report { written, unchanged, count } = report;
    output::line(format_args!(
        "{address}: {written} passages written, {unchanged} were there; {count} in all, {seconds:.1} s"
    ))
}
