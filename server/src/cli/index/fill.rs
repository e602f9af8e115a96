//! `dpr index --out SERVICE`: loads vectors into a service.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::BuildArgs;
use crate::cli::{CliError, output, progress, stop_on_interrupt};
use crate::location::{Location, of_server};
use dpr_index::HnswParams;
use dpr_index::search::{LoadOptions, LoadReport};
use dpr_index::vectors::VectorSet;

/// The output of `--json`.
#[derive(Serialize)]
struct Filled {
    #[serde(flatten)]
    report: LoadReport,
    seconds: f64,
}

/// Loads the vectors that are given, which may be some shards of a corpus, into the service at `--out`.
pub(super) fn run(args: &BuildArgs) -> Result<(), CliError> {
    let address = &args.out;
    if let Location::Server(address) = address {
        return Err(of_server(address));
    }
    if args.passages.is_some() || args.sparse.is_some() {
        return Err(format!("{address} holds vectors, not words: leave out --sparse and --passages").into());
    }
    args.check_service()?;
    let hnsw = HnswParams { m: args.m, ef_construction: args.ef_construction, ef_search: args.ef_search };
    hnsw.check()?;
    let vectors = VectorSet::read_shards(&args.vectors)?;
    let options = LoadOptions {
        hnsw,
        in_flight: args.in_flight.into(),
        patience: Duration::from_secs(args.patience.into()),
        stop: stop_on_interrupt(),
    };
    let started = Instant::now();
    let report = address.load(&vectors, &options, args.channels, progress::on_stderr().as_ref())?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return output::json(&Filled { report, seconds });
    }
    let LoadReport { written, unchanged, count } = report;
    output::line(format_args!(
        "{address}: {written} passages written, {unchanged} were there; {count} in all, {seconds:.1} s"
    ))
}
