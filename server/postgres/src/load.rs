//! Filling a table, from where an earlier load stopped.

use std::time::Duration;

use dpr_files::progress::Progress;
use dpr_index::search::{LoadOptions, LoadReport, ServiceError};
use dpr_index::vectors::VectorSet;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio_postgres::Client as Connection;

use crate::client::{Client, Limit};
use crate::create::table_for;
use crate::index::count;
use crate::rows::{self, Row};
use crate::{PostgresAddress, PostgresError, graph};

/// The time that one batch may take: another load that builds the graph makes it wait.
const BATCH: Duration = Duration::from_secs(3600);

/// The time that the building of a graph may take.
const GRAPH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Writes `vectors` and their passages into a table, which is made where it is missing, and builds its HNSW graph.
///
/// Passages go in by batches, each in a transaction: copied in binary form and merged. One that is there with the same
/// title, text, metadata and vector is not written again, so that a load that was killed goes on when it is run again.
/// Loads of different shards may run at once. In a table of the user, passages without metadata leave it as it is.
///
/// # Errors
/// [`PostgresError`]: no server, a table of another model or without the columns, rows that it cannot hold, or a server
/// that was away for longer than `patience`.
pub fn load(
    address: &PostgresAddress,
    vectors: &VectorSet,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadReport, PostgresError> {
    graph::check(options.hnsw)?;
    let rows: Vec<Row<'_>> = vectors.passages.iter().zip(vectors.rows.chunks(vectors.dim.max(1))).collect();
    rows::check(&rows, vectors.dim)?;
    let client = Client::new(address, options.in_flight.max(1) + 1)?;
    client.wait(fill(&client, vectors, &rows, options, progress))
}

async fn fill(
    client: &Client,
    vectors: &VectorSet,
    rows: &[Row<'_>],
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadReport, PostgresError> {
    let (model, dim, address) = (&vectors.model_fingerprint, vectors.dim, &client.address);
    let once = Limit { each: Duration::from_secs(60), patience: address.connect_timeout, again: true };
    let (table, described) = client
        .call("looking for the table", once, async |connection: &Connection| {
            table_for(connection, address, model, dim, options.hnsw).await
        })
        .await?;
    graph::check_dim(dim, table.is_half)?;
    rows::check_columns(rows, &table)?;

    let limit = Limit { each: BATCH, patience: options.patience, again: true };
    progress.start("writing", "passages", rows.len() as u64);
    let (table, keep_metadata) = (&table, !described.table_made);
    let write = async |batch: &[Row<'_>]| {
        options.check_stop()?;
        let written = client
            .call("writing passages", limit, async |connection: &Connection| {
                connection
                    .batch_execute("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL jit = off")
                    .await?;
                let written = rows::write(connection, table, batch, keep_metadata).await?;
                connection.batch_execute("COMMIT").await?;
                Ok(written)
            })
            .await?;
        progress.advance(batch.len() as u64);
        Ok::<_, PostgresError>(written)
    };
    let written = stream::iter(rows::batches(rows))
        .map(write)
        .buffer_unordered(options.in_flight.max(1))
        .try_fold(0, async |sum, written| Ok(sum + written))
        .await;
    progress.finish();
    let written = written?;

    let limit = Limit { each: GRAPH, ..limit };
    graph::build(client, table, described.hnsw, described.table_made, limit, progress, &options.stop).await?;
    let count = client
        .call("counting the passages", limit, async |connection: &Connection| count(connection, table).await)
        .await?;
    ServiceError::check_count(address, rows.len(), count)?;
    Ok(LoadReport { written, unchanged: rows.len() - written, count })
}
