//! `dpr index private`: builds private tables of an index.

use std::path::Path;
use std::time::Instant;

use dpr_core::model::hex;
use dpr_index::IndexReader;
use dpr_private::{BuildOptions, MOST_CHANGED, Tables, build};
use serde::Serialize;

use crate::cli::{CliError, output, progress, stop_on_interrupt};
use crate::location::Location;

/// Options of `dpr index private`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr index private --index index/
  dpr serve --model model/ --index index/ --encrypted")]
pub(super) struct PrivateArgs {
    /// The index directory. The tables are put beside its version in use, and are of that version alone
    #[arg(long, env = "DPR_INDEX", hide_env_values = true, value_name = "DIR")]
    index: Location,
    /// Principal directions of the vectors that are ranked by, 32 to 256: more find more and cost more. Default: 256 up
    /// to 50,000 passages, 192 up to 3 million, then 128
    #[arg(long, value_name = "N")]
    dims: Option<usize>,
    /// Parameter set for ranking: 1, or 2, which is more cautious and sends twice as much
    #[arg(long, value_name = "SET", default_value_t = 1)]
    set: u8,
    /// Print what was built as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    path: String,
    version: String,
    passages: usize,
    dims: usize,
    columns: usize,
    rows: usize,
    /// Bytes that everybody downloads once.
    once_bytes: u64,
    rank_bytes: usize,
    /// For each column that is fetched.
    fetch_bytes: usize,
    rank_answer_bytes: usize,
    fetch_answer_bytes: usize,
    noise: f64,
    model: &'a str,
    seconds: f64,
}

/// Runs `dpr index private`.
pub(super) fn run(args: &PrivateArgs) -> Result<(), CliError> {
    let index = args.index.dir("`dpr index private`")?;
    check_changes(index)?;
    let options = BuildOptions { dims: args.dims, rank_set: args.set, stop: stop_on_interrupt() };
    let started = Instant::now();
    let built = build(index, &options, progress::on_stderr().as_ref())?;
    for warning in built.warnings() {
        tracing::warn!("{warning}");
    }
    let (path, tables) = (&built.path, &built.tables);
    let manifest = &tables.manifest;
    let version = hex(&tables.version);
    let report = Report {
        path: path.display().to_string(),
        version,
        passages: manifest.passages,
        dims: manifest.rank.dims,
        columns: manifest.text.columns,
        rows: manifest.text.rows,
        once_bytes: manifest.files.values().map(|file| file.bytes).sum(),
        rank_bytes: tables.rank.question_bytes(),
        fetch_bytes: tables.fetch.question_bytes(),
        rank_answer_bytes: tables.rank.answer_bytes(),
        fetch_answer_bytes: tables.fetch.answer_bytes(),
        noise: manifest.rank.noise,
        model: &manifest.model_fingerprint,
        seconds: started.elapsed().as_secs_f64(),
    };
    if args.json {
        return output::json(&report);
    }
    let Report { path, version, passages, dims, once_bytes, .. } = &report;
    let up = report.rank_bytes + 5 * report.fetch_bytes;
    let down = report.rank_answer_bytes + 5 * report.fetch_answer_bytes;
    output::line(format_args!(
        "{path}: {passages} passages, {dims} dims, version {version}\n  once {once_bytes} bytes; a search of 5 passages \
         sends {up} and gets {down}"
    ))
}

/// Refuses an index of which more has changed since its version in use was built than a delta tells: encrypted questions
/// to the tables would all be refused.
fn check_changes(index: &Path) -> Result<(), CliError> {
    let snapshot = IndexReader::open_unchecked(index)?.live().snapshot();
    let (added, removed) = (snapshot.added(), snapshot.removed());
    if Tables::takes(added, removed) {
        return Ok(());
    }
    let path = index.display();
    Err(format!(
        "{} passages were added or removed since the version in use of {path} was built, and encrypted search takes \
         {MOST_CHANGED}: run `dpr index compact --index {path}` first, then `dpr index private --index {path}`",
        added.saturating_add(removed)
    )
    .into())
}
