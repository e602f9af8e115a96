//! A table that is searched and changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dpr_core::Embedding;
use dpr_core::model::sha256_hex;
use dpr_data::Passage;
use dpr_files::Background;
use dpr_index::CancelToken;
use dpr_index::search::{Filter, Hit, ServiceError, ServiceHealth};
use tokio_postgres::Client as Connection;

use crate::client::{Client, Limit};
use crate::comment::Described;
use crate::failure::Failure;
use crate::filter::Conditions;
use crate::params::{Param, rows};
use crate::search::{self, Search};
use crate::table::{Table, missing};
use crate::{PostgresAddress, PostgresError, graph};

/// The time that opening may take.
const OPEN: Duration = Duration::from_secs(30);

/// Rows up to which they are counted one by one; above, PostgreSQL's own estimate is taken.
const COUNTED: f64 = 1e6;

/// A table, open; shared by as many threads as there are.
///
/// Its methods wait for the server, so they must not be called on a thread that runs a tokio runtime's tasks.
#[derive(Debug)]
pub struct PostgresIndex {
    pub(crate) client: Arc<Client>,
    pub(crate) table: Table,
    described: Described,
    ef: usize,
    /// Passages, when they were last counted, with this program's changes since.
    count: AtomicUsize,
    /// Rows inserted, updated and deleted, by PostgreSQL's statistics when they were last read.
    changes: AtomicU64,
    /// Changes by this program.
    own_changes: AtomicU64,
    /// `true` if the comment of the table has changed since it was read.
    is_replaced: AtomicBool,
    pub(crate) health: ServiceHealth,
}

impl PostgresIndex {
    /// Connects to a table that [`load`](super::load) filled.
    ///
    /// # Errors
    /// [`PostgresError`]: no server, no such table, columns of other types, or a comment that names no model.
    pub fn open(address: &PostgresAddress) -> Result<Self, PostgresError> {
        let client = Client::new(address, address.pool)?;
        let opening = Limit { each: OPEN, patience: Duration::ZERO, again: true };
        let (table, has_graph) =
            client.wait(client.call("opening the table", opening, async |connection: &Connection| {
                let table = Table::find(connection, address).await?;
                let table = table.ok_or_else(|| missing(address))?;
                let has_graph = graph::is_there(connection, &table).await?;
                Ok((table, has_graph))
            }))?;
        let described = Described::parse(address, table.comment.as_deref())?;
        ServiceError::check_dim(address, described.dim, table.dim)?;
        if !has_graph {
            tracing::warn!("{address} has no index by inner product: every search compares all of its rows");
        }
        let index = Self {
            ef: address.ef_search.unwrap_or(described.hnsw.ef_search),
            client,
            table,
            described,
            count: AtomicUsize::default(),
            changes: AtomicU64::default(),
            own_changes: AtomicU64::default(),
            is_replaced: AtomicBool::default(),
            health: ServiceHealth::default(),
        };
        index.refresh()?;
        Ok(index)
    }

    /// Returns the content of the table's comment.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// The address of the table.
    pub fn address(&self) -> &PostgresAddress {
        &self.client.address
    }

    /// A text that differs for every table that differs in place or model, and changes when rows do: at once for
    /// changes by this program, and after the next [`refresh`](Self::refresh) for others, as PostgreSQL's statistics
    /// count them (`pg_stat_all_tables`), which may be some seconds late.
    pub fn version(&self) -> String {
        let (changes, own) = (self.changes.load(Ordering::Relaxed), self.own_changes.load(Ordering::Relaxed));
        sha256_hex(format!("{} {} {changes} {own}", self.address(), self.described.json()).as_bytes())
    }

    /// Passages when they were last counted; asks nobody.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Refuses a model whose vectors the table does not hold.
    ///
    /// # Errors
    /// [`ServiceError::WrongModel`], or [`ServiceError::Dimension`].
    pub fn check_model(&self, fingerprint: &str, dim: usize) -> Result<(), ServiceError> {
        self.described.check(self.address(), fingerprint, dim)
    }

    /// Notes a change by this program: rows written or deleted, and by how many passages there are more or less.
    pub(crate) fn note_change(&self, rows: usize, added: usize, removed: usize) {
        self.own_changes.fetch_add(rows as u64, Ordering::Relaxed);
        let count = |count: usize| Some((count + added).saturating_sub(removed));
        let _ = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    }

    fn searching(&self) -> Limit {
        limit_of(self.address().timeout, 1)
    }

    /// Records the thread that asks the service whether it is there ([`watch`](dpr_index::search::watch)).
    pub fn watched_by(&self, watching: &Background) {
        self.health.watched_by(watching.state());
    }

    /// Counts the passages, one by one up to about a million rows and by PostgreSQL's estimate above that, and looks
    /// whether the table still holds vectors of the same model.
    ///
    /// # Errors
    /// [`PostgresError`] when the server does not answer; [`PostgresError::Changed`].
    pub fn refresh(&self) -> Result<usize, PostgresError> {
        let table = &self.table;
        let work = async |connection: &Connection| {
            let sql = "SELECT pg_catalog.obj_description(c.oid, 'pg_class'), c.reltuples::float8, \
                       pg_catalog.pg_stat_get_tuples_inserted(c.oid) + pg_catalog.pg_stat_get_tuples_updated(c.oid) \
                       + pg_catalog.pg_stat_get_tuples_deleted(c.oid) \
                       FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)";
            let found = rows(connection, sql, &[Param::Text(table.name.clone())]).await?;
            let Some(row) = found.first() else {
                return Err(missing(self.address()).into());
            };
            let (comment, estimate, changes): (Option<String>, f64, Option<i64>) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let count = if estimate > COUNTED { estimate as usize } else { count(connection, table).await? };
            Ok((comment, count, changes.unwrap_or_default().unsigned_abs()))
        };
        let (comment, count, changes) =
            self.client.wait(self.client.call("counting the passages", self.searching(), work))?;
        self.is_replaced.store(comment != table.comment, Ordering::Relaxed);
        self.check_replaced()?;
        self.count.store(count, Ordering::Relaxed);
        self.changes.store(changes, Ordering::Relaxed);
        Ok(count)
    }

    /// Refuses a table whose comment changed.
    pub(crate) fn check_replaced(&self) -> Result<(), PostgresError> {
        match self.is_replaced.load(Ordering::Relaxed) {
            true => Err(PostgresError::Changed { address: self.address().to_string() }),
            false => Ok(()),
        }
    }

    /// The `k` passages of greatest inner product with each vector (`[dim]`) among those that `filter` allows, best
    /// first, equal scores by id; all when there are fewer. All vectors are searched in one state of the table, with
    /// every change that was committed before. `None` when the filter allows no passage.
    ///
    /// # Errors
    /// [`PostgresError`]: a vector of another length, `k` = 0, or a server that does not answer.
    pub fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Option<Vec<Vec<Hit>>>, PostgresError> {
        self.search_until(vectors, k, filter, &CancelToken::never())
    }

    /// Searches as [`search`](Self::search) does, until `cancel` says to stop: at the next row that the server sends,
    /// also when the rows come to more bytes than it allows.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), and [`PostgresError::Stopped`].
    pub fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Option<Vec<Vec<Hit>>>, PostgresError> {
        cancel.check()?;
        if k == 0 {
            return Err(PostgresError::K);
        }
        vectors.iter().try_for_each(|vector| self.table.check(self.address(), vector))?;
        self.check_replaced()?;
        let conditions = Conditions::of(&self.table, self.address(), filter)?;
        if vectors.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (k, timeout) = (k.min(i32::MAX as usize), self.address().timeout);
        let (table, ef, conditions) = (&self.table, self.ef, &conditions);
        let search = Search { table, vectors, k, ef, conditions, timeout, cancel };
        let work = async |connection: &Connection| search.run(connection).await;
        self.client.wait(self.client.call("searching", limit_of(timeout, vectors.len()), work))
    }

    /// The passages with these ids that are there, in no order.
    ///
    /// # Errors
    /// [`PostgresError`] when the server does not answer.
    pub fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, PostgresError> {
        let ids: Vec<String> = ids.iter().filter(|id| self.table.id_type.holds(id)).cloned().collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let work =
            async |connection: &Connection| search::passages(connection, &self.table, ids.clone()).await;
        self.client.wait(self.client.call("looking passages up", self.searching(), work))
    }

    /// The vectors of the passages with these ids that are there.
    ///
    /// # Errors
    /// [`PostgresError`] when the server does not answer.
    pub fn vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, PostgresError> {
        let ids: Vec<String> = ids.iter().filter(|id| self.table.id_type.holds(id)).cloned().collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let work =
            async |connection: &Connection| search::vectors(connection, &self.table, ids.clone()).await;
        self.client.wait(self.client.call("looking vectors up", self.searching(), work))
    }
}

/// Returns the limits of so many searches, which run one after another: each may take its whole time.
fn limit_of(timeout: Duration, searches: usize) -> Limit {
    let searches = u32::try_from(searches.max(1)).unwrap_or(u32::MAX);
    // The server ends a statement first, and says so.
    let each = timeout.saturating_mul(searches).saturating_add(Duration::from_secs(2));
    Limit { each, patience: Duration::ZERO, again: true }
}

/// Counts the passages.
pub(crate) async fn count(connection: &Connection, table: &Table) -> Result<usize, Failure> {
    let condition = table.has_vector().map_or_else(String::new, |condition| format!(" WHERE {condition}"));
    let sql = format!("SELECT count(*) FROM {} AS t{condition}", table.name);
    let count: i64 = match rows(connection, &sql, &[]).await?.first() {
        Some(row) => row.try_get(0)?,
        None => 0,
    };
    Ok(usize::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_search_of_a_batch_has_the_time_of_one() {
        let seconds = |searches| limit_of(Duration::from_secs(10), searches).each.as_secs();
        assert_eq!((seconds(0), seconds(1), seconds(50)), (12, 12, 502));
        assert_eq!(limit_of(Duration::MAX, usize::MAX).each, Duration::MAX);
    }
}
