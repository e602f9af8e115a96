//! The HNSW graph and the other indexes of a table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpr_files::progress::Progress;
use dpr_index::HnswParams;
use dpr_index::search::ServiceError;
use tokio_postgres::Client as Connection;

use crate::PostgresError;
use crate::client::{Client, Limit};
use crate::failure::Failure;
use crate::params::{Param, rows};
use crate::table::Table;

/// Time between two looks at the building of a graph.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The limits of a look at the graph.
const LOOK: Limit = Limit { each: Duration::from_secs(5), patience: Duration::ZERO, again: true };

/// Most numbers of a vector in a graph: with 32 bits each, and with 16.
const MAX_DIM: [usize; 2] = [2000, 4000];

/// Refuses parameters that pgvector does not take.
pub(crate) fn check(hnsw: HnswParams) -> Result<(), PostgresError> {
    let HnswParams { m, ef_construction, .. } = hnsw;
    let limits = [("m", m, 2, 100), ("ef_construction", ef_construction, (2 * m).max(4), 1000)];
    for (name, value, min, max) in limits {
        if !(min..=max).contains(&value) {
            return Err(PostgresError::Parameter { name, value, min, max });
        }
    }
    Ok(())
}

/// Refuses vectors that no graph holds.
pub(crate) fn check_dim(dim: usize, is_half: bool) -> Result<(), PostgresError> {
    let max = MAX_DIM[usize::from(is_half)];
    let instead = match dim {
        _ if dim <= max => return Ok(()),
        _ if dim <= MAX_DIM[1] => "as halfvec",
        _ => "in an index directory",
    };
    Err(PostgresError::TooWide { dim, max, instead })
}

/// Returns `true` if an index orders the rows by inner product with the column of vectors: a graph, or lists.
pub(crate) async fn is_there(connection: &Connection, table: &Table) -> Result<bool, Failure> {
    let class = if table.is_half { "halfvec_ip_ops" } else { "vector_ip_ops" };
    let found = rows(
        connection,
        "SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[0] \
         WHERE i.indrelid = $1 AND o.opcname = $2 AND i.indkey[0]::int4 = $3 AND i.indisvalid \
         AND i.indpred IS NULL",
        &[Param::Oid(table.oid), Param::Text(class.to_owned()), Param::Int(table.vector_number)],
    )
    .await?;
    Ok(!found.is_empty())
}

/// Builds the graph, unless it is there, and for a table that `dpr` made the indexes that filters use. Other programs
/// read the table meanwhile, and wait to write.
pub(crate) async fn build(
    client: &Client,
    table: &Table,
    hnsw: HnswParams,
    with_filters: bool,
    limit: Limit,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<(), PostgresError> {
    let schema = &table.extension.schema;
    let class = if table.is_half { "halfvec_ip_ops" } else { "vector_ip_ops" };
    let (name, vector) = (&table.name, &table.vector);
    let HnswParams { m, ef_construction, .. } = hnsw;
    let graph = format!(
        "CREATE INDEX ON {name} USING hnsw ({vector} {schema}.{class}) \
         WITH (m = {m}, ef_construction = {ef_construction})"
    );
    client
        .call("building the graph", limit, async |connection: &Connection| {
            begin(connection, table).await?;
            if !is_there(connection, table).await? {
                let told = Told { client, progress, stop };
                told.run(connection, &graph).await?;
            }
            Ok(connection.batch_execute("COMMIT").await?)
        })
        .await?;
    let mut others = Vec::new();
    if with_filters {
        // Titles may be longer than what a B-tree holds.
        others.extend(table.title.as_ref().map(|title| ("hash", title, String::new())));
        others
            .extend(table.metadata.as_ref().map(|metadata| ("gin", metadata, " jsonb_path_ops".to_owned())));
    }
    client
        .call("building the indexes of filters", limit, async |connection: &Connection| {
            begin(connection, table).await?;
            for (method, column, class) in &others {
                if !has_index(connection, table, method).await? {
                    let sql = format!("CREATE INDEX ON {name} USING {method} ({column}{class})");
                    connection.batch_execute(&sql).await?;
                }
            }
            connection.batch_execute("COMMIT").await?;
            Ok(connection.batch_execute(&format!("ANALYZE {name}")).await?)
        })
        .await
}

/// Begins a transaction that may take long, as the only one of these on this table.
async fn begin(connection: &Connection, table: &Table) -> Result<(), Failure> {
    connection.batch_execute("BEGIN; SET LOCAL statement_timeout = 0").await?;
    rows(
        connection,
        "SELECT pg_catalog.pg_advisory_xact_lock($1, pg_catalog.hashtext($2))",
        // Not the lock of loads that begin: they need not wait.
        &[Param::Int(LOCK + 1), Param::Text(table.name.clone())],
    )
    .await
    .map(drop)
}

/// The first half of the key of advisory locks; the second is the table's.
pub(crate) const LOCK: i32 = 0x6470_7200;

async fn has_index(connection: &Connection, table: &Table, method: &str) -> Result<bool, Failure> {
    let found = rows(
        connection,
        "SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         JOIN pg_catalog.pg_am a ON a.oid = c.relam \
         WHERE i.indrelid = $1 AND a.amname = $2 AND i.indisvalid",
        &[Param::Oid(table.oid), Param::Text(method.to_owned())],
    )
    .await?;
    Ok(!found.is_empty())
}

/// The building of a graph, which reports its progress and can be stopped.
struct Told<'a> {
    client: &'a Client,
    progress: &'a dyn Progress,
    stop: &'a AtomicBool,
}

impl Told<'_> {
    async fn run(&self, connection: &Connection, sql: &str) -> Result<(), Failure> {
        let pid: i32 = match rows(connection, "SELECT pg_catalog.pg_backend_pid()", &[]).await?.first() {
            Some(row) => row.try_get(0)?,
            None => 0,
        };
        let built = tokio::select! {
            built = connection.batch_execute(sql) => built,
            never = self.watch(connection, pid) => match never {},
        };
        self.progress.finish();
        match built {
            Err(_) if self.stop.load(Ordering::Relaxed) => Err(ServiceError::Interrupted.into()),
            built => Ok(built?),
        }
    }

    /// Reports how far it is, and asks the server to end it when it is to stop.
    async fn watch(&self, connection: &Connection, pid: i32) -> std::convert::Infallible {
        let (mut done_before, mut is_told) = (0, false);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.stop.load(Ordering::Relaxed) {
                self.client.cancel(connection).await;
                continue;
            }
            let look = async |other: &Connection| {
                let found = rows(
                    other,
                    "SELECT blocks_done, blocks_total FROM pg_catalog.pg_stat_progress_create_index WHERE pid = $1",
                    &[Param::Int(pid)],
                )
                .await?;
                let Some(row) = found.first() else { return Ok((0, 0)) };
                Ok::<(i64, i64), Failure>((row.try_get(0)?, row.try_get(1)?))
            };
            // Whether it can be looked at is of no matter to the building.
            let Ok((done, total)) = self.client.call("looking at the graph", LOOK, look).await else {
                continue;
            };
            if total > 0 && !is_told {
                self.progress.start("building the graph", "blocks", total.unsigned_abs());
                is_told = true;
            }
            if is_told && done > done_before {
                self.progress.advance((done - done_before).unsigned_abs());
                done_before = done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_lengths_are_those_of_pgvector() {
        let of = |m, ef_construction| {
            check(HnswParams { m, ef_construction, ef_search: 1 }).map_err(|error| error.to_string())
        };
        assert_eq!(of(24, 200), Ok(()));
        assert!(of(101, 1000).unwrap_err().contains("2 to 100"));
        assert!(of(24, 40).unwrap_err().contains("48 to 1000"));
        assert!(check(HnswParams::default()).is_ok());
        assert!(check_dim(2000, false).is_ok() && check_dim(4000, true).is_ok());
        assert!(check_dim(2001, false).unwrap_err().to_string().contains("halfvec"));
        assert!(check_dim(4001, true).unwrap_err().to_string().contains("directory"));
    }
}
