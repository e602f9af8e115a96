//! `dpr index --out SERVICE`: loads vectors into a service.

use std::fmt::Display;
use std::time::Instant;

use serde::Serialize;

use super::BuildArgs;
use crate::cli::{CliError, output};
use dpr_index::HnswParams;
use dpr_index::search::LoadReport;
use dpr_index::vectors::VectorSet;

/// The output of `--json`.
#[derive(Serialize)]
struct Filled {
    #[serde(flatten)]
    report: LoadReport,
    seconds: f64,
}

/// Loads the vectors that are given, which may be some shards of a corpus, into the service at `address`.
pub(super) fn fill<E: Into<CliError>>(
    address: &impl Display,
    args: &BuildArgs,
    load: impl FnOnce(HnswParams, &VectorSet) -> Result<LoadReport, E>,
) -> Result<(), CliError> {
    if args.passages.is_some() || args.sparse.is_some() {
        return Err(format!("{address} holds vectors, not words: leave out --sparse and --passages").into());
    }
    let hnsw = HnswParams { m: args.m, ef_construction: args.ef_construction, ef_search: args.ef_search };
    hnsw.check()?;
    let vectors = VectorSet::read_shards(&args.vectors)?;
    let started = Instant::now();
    let report = load(hnsw, &vectors).map_err(Into::into)?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return output::json(&Filled { report, seconds });
    }
    let LoadReport { written, unchanged, count } = report;
    output::line(format_args!(
        "{address}: {written} passages written, {unchanged} were there; {count} in all, {seconds:.1} s"
    ))
}
