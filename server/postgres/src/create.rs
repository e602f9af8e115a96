//! Making a table, and naming the model in a comment.

use dpr_index::HnswParams;
use dpr_index::search::ServiceError;
use postgres_protocol::escape::escape_literal;
use tokio_postgres::Client as Connection;

use crate::comment::Described;
use crate::extension::Extension;
use crate::failure::Failure;
use crate::graph::{LOCK, check_dim};
use crate::params::{Param, rows};
use crate::table::{Table, missing, quoted, vector_type};
use crate::{PostgresAddress, PostgresError};

/// Returns the table of an address and what its comment says. A table that is missing is made; one of the user
/// without a comment, and without vectors, gets it.
pub(crate) async fn table_for(
    connection: &Connection,
    address: &PostgresAddress,
    model: &str,
    dim: usize,
    hnsw: HnswParams,
) -> Result<(Table, Described), Failure> {
    connection.batch_execute("BEGIN").await?;
    // Loads of other shards may begin at the same moment.
    let lock = [Param::Int(LOCK), Param::Text(quoted(address))];
    rows(connection, "SELECT pg_catalog.pg_advisory_xact_lock($1, pg_catalog.hashtext($2))", &lock).await?;
    let table = match Table::find(connection, address).await? {
        Some(table) => table,
        None => {
            make(connection, address, &Described::new(model, dim, hnsw, true)).await?;
            let made = Table::find(connection, address).await?;
            made.ok_or_else(|| missing(address))?
        }
    };
    ServiceError::check_dim(address, table.dim, dim)?;
    let described = match &table.comment {
        Some(comment) => Described::parse(address, Some(comment))?,
        None => claim(connection, address, &table, &Described::new(model, dim, hnsw, false)).await?,
    };
    described.check(address, model, dim)?;
    connection.batch_execute("COMMIT").await?;
    Ok((table, described))
}

async fn make(
    connection: &Connection,
    address: &PostgresAddress,
    described: &Described,
) -> Result<(), Failure> {
    use postgres_protocol::escape::escape_identifier as quote;
    if let Err(Failure::Own(PostgresError::NoExtension { .. })) = Extension::find(connection, address).await {
        connection.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await?;
    }
    let extension = Extension::find(connection, address).await?;
    let (name, columns) = (quoted(address), &address.columns);
    let title = quote(columns.title.as_deref().unwrap_or("title"));
    let metadata = quote(columns.metadata.as_deref().unwrap_or("metadata"));
    let [id, text, vector] = [&columns.id, &columns.text, &columns.vector].map(|name| quote(name));
    let is_half = address.half.unwrap_or(false);
    check_dim(described.dim, is_half)?;
    let kind = vector_type(&extension, is_half, described.dim);
    connection
        .batch_execute(&format!(
            "CREATE TABLE {name} ({id} text PRIMARY KEY, {title} text NOT NULL DEFAULT '', {text} text NOT NULL, \
             {metadata} jsonb NOT NULL DEFAULT '{{}}', {vector} {kind} NOT NULL)"
        ))
        .await?;
    comment(connection, &name, described).await
}

/// Writes the comment of a table that has none, unless it holds vectors: of which model, only the user can say.
async fn claim(
    connection: &Connection,
    address: &PostgresAddress,
    table: &Table,
    described: &Described,
) -> Result<Described, Failure> {
    let (name, vector) = (&table.name, &table.vector);
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM {name} AS t WHERE t.{vector} IS NOT NULL LIMIT 1000) AS filled"
    );
    let count: i64 = match rows(connection, &sql, &[]).await?.first() {
        Some(row) => row.try_get(0)?,
        None => 0,
    };
    if count > 0 {
        return Err(PostgresError::Unclaimed {
            address: address.to_string(),
            count: usize::try_from(count).unwrap_or_default(),
            table: name.clone(),
            comment: escape_literal(&described.json()).trim().to_owned(),
        }
        .into());
    }
    comment(connection, name, described).await?;
    Ok(described.clone())
}

async fn comment(connection: &Connection, name: &str, described: &Described) -> Result<(), Failure> {
    let text = escape_literal(&described.json());
    Ok(connection.batch_execute(&format!("COMMENT ON TABLE {name} IS {text}")).await?)
}
