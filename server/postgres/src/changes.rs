//! Changes of a table, each in one transaction.

use std::collections::HashSet;
use std::time::Duration;

use dpr_index::{ChangeError, NewPassage, Put};
use tokio_postgres::Client as Connection;

use crate::client::Limit;
use crate::failure::Failure;
use crate::params::{Param, rows as query};
use crate::rows::{self, Row};
use crate::table::Table;
use crate::{PostgresError, PostgresIndex};

/// The time that a change may take, and for which it is tried.
const CHANGE: Duration = Duration::from_secs(30);

impl PostgresIndex {
    /// Adds passages, or puts them in the place of those that have their ids, in one transaction. When it returns, it
    /// is committed. In a table of the user, passages without metadata leave it as it is, and a row that had no vector
    /// counts as added.
    ///
    /// # Errors
    /// [`PostgresError`]. Passages that cannot be stored are refused before any is written.
    pub fn put(&self, passages: &[NewPassage]) -> Result<Put, PostgresError> {
        let rows: Vec<Row<'_>> = passages.iter().map(|new| (&new.passage, new.vector.as_slice())).collect();
        rows::check(&rows, self.table.dim)?;
        rows::check_columns(&rows, &self.table)?;
        self.check_replaced()?;
        let table = &self.table;
        let ids: Vec<String> = passages.iter().map(|new| new.passage.id.clone()).collect();
        let limit = Limit { each: CHANGE, patience: CHANGE, again: true };
        let work = async |connection: &Connection| {
            begin(connection).await?;
            let replaced = lock(connection, table, &ids).await?.len();
            for batch in rows::batches(&rows) {
                rows::write(connection, table, batch, !self.described().table_made).await?;
                // The temporary table of the batch would last until the commit.
                connection.batch_execute("DROP TABLE pg_temp.dpr_batch").await?;
            }
            connection.batch_execute("COMMIT").await?;
            Ok(replaced)
        };
        let replaced = self.client.wait(self.client.call("writing passages", limit, work))?;
        let added = passages.len() - replaced;
        self.note_change(passages.len(), added, 0);
        Ok(Put { added, replaced })
    }

    /// Deletes the rows of passages by their ids, in one transaction, and returns their number.
    ///
    /// # Errors
    /// [`PostgresError`]; [`ChangeError::UnknownIds`] when some are not there, and then none is deleted.
    pub fn delete(&self, ids: &[String]) -> Result<usize, PostgresError> {
        ChangeError::check_ids(ids.iter().map(String::as_str))?;
        let table = &self.table;
        let held: Vec<String> = ids.iter().filter(|id| table.id_type.holds(id)).cloned().collect();
        // Done twice, the second time would find none of them.
        let limit = Limit { each: CHANGE, patience: Duration::ZERO, again: false };
        let work = async |connection: &Connection| {
            begin(connection).await?;
            let there = lock(connection, table, &held).await?;
            if there.len() == ids.len() {
                let sql = format!("DELETE FROM {} AS t WHERE {}", table.name, table.is_passage_in(1));
                query(connection, &sql, &[Param::Texts(held.clone())]).await?;
            }
            connection.batch_execute("COMMIT").await?;
            Ok(there)
        };
        let there = self.client.wait(self.client.call("deleting passages", limit, work))?;
        ChangeError::check_known(ids, |id| there.contains(id))?;
        self.note_change(ids.len(), 0, ids.len());
        Ok(ids.len())
    }
}

async fn begin(connection: &Connection) -> Result<(), Failure> {
    let timeout = CHANGE.as_millis();
    Ok(connection
        .batch_execute(&format!("BEGIN; SET LOCAL statement_timeout = {timeout}; SET LOCAL jit = off"))
        .await?)
}

/// Locks the rows with these ids, and returns the ids of those that are passages.
async fn lock(connection: &Connection, table: &Table, ids: &[String]) -> Result<HashSet<String>, Failure> {
    let is_passage = table.has_vector().unwrap_or_else(|| "TRUE".to_owned());
    let Table { name, id, .. } = table;
    let has_id = table.has_id_in(1);
    // Rows without a vector are locked too, so that none becomes a passage before the transaction ends.
    let sql = format!(
        "SELECT t.{id}::text, {is_passage} FROM {name} AS t WHERE {has_id} ORDER BY t.{id} FOR UPDATE"
    );
    let mut passages = HashSet::new();
    for row in query(connection, &sql, &[Param::Texts(ids.to_vec())]).await? {
        if row.try_get(1)? {
            passages.insert(row.try_get(0)?);
        }
    }
    Ok(passages)
}
