//! `dpr index --out milvus://...`: fills a collection of a Milvus cluster.

use std::time::Duration;

use super::BuildArgs;
use super::fill::fill;
use crate::cli::progress;
use crate::cli::{CliError, stop_on_interrupt};
use crate::location::milvus_token;
use dpr_milvus::{LoadOptions, MilvusAddress, load};

/// Loads the vectors into the collection.
pub(super) fn run(address: &MilvusAddress, args: &BuildArgs) -> Result<(), CliError> {
    let token = milvus_token()?;
    fill(address, args, |hnsw, vectors| {
        let options = LoadOptions {
            hnsw,
            channels: args.channels,
            in_flight: args.in_flight.into(),
            patience: Duration::from_secs(args.patience.into()),
            token,
            stop: stop_on_interrupt(),
        };
        load(address, vectors, &options, progress::on_stderr().as_ref())
    })
}
