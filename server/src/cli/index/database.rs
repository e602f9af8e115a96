//! `dpr index --out postgres://...`: fills a table of PostgreSQL.

use std::time::Duration;

use super::BuildArgs;
use super::fill::fill;
use crate::cli::progress;
use crate::cli::{CliError, stop_on_interrupt};
use dpr_postgres::{LoadOptions, PostgresAddress, load};

/// Loads the vectors into the table.
pub(super) fn run(address: &PostgresAddress, args: &BuildArgs) -> Result<(), CliError> {
    fill(address, args, |hnsw, vectors| {
        let options = LoadOptions {
            hnsw,
            in_flight: args.in_flight.into(),
            patience: Duration::from_secs(args.patience.into()),
            stop: stop_on_interrupt(),
        };
        load(address, vectors, &options, progress::on_stderr().as_ref())
    })
}
