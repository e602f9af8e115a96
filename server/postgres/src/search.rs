//! Searches: one transaction, one state of the table.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use dpr_core::Embedding;
use dpr_data::{Metadata, Passage};
use dpr_index::CancelToken;
use dpr_index::search::Hit;
use futures_util::TryStreamExt as _;
use futures_util::future::{try_join, try_join_all};
use tokio_postgres::{Client as Connection, Row};

use crate::failure::Failure;
use crate::filter::Conditions;
use crate::params::{Param, rows, stream};
use crate::table::Table;

/// Most candidates that pgvector keeps.
pub(crate) const MAX_EF: usize = 1000;

/// Most passages that pass a filter for all of them to be compared: a graph is quicker where more do.
const EXACT_ROWS: usize = 5000;

/// A search to be done.
pub(crate) struct Search<'a> {
    pub(crate) table: &'a Table,
    pub(crate) vectors: &'a [Embedding],
    pub(crate) k: usize,
    pub(crate) ef: usize,
    pub(crate) conditions: &'a Conditions,
    pub(crate) timeout: Duration,
    pub(crate) cancel: &'a CancelToken,
}

impl Search<'_> {
    /// Returns for each vector its best passages, best first, equal scores by id; `None` where no passage passes the
    /// filter.
    pub(crate) async fn run(&self, connection: &Connection) -> Result<Option<Vec<Vec<Hit>>>, Failure> {
        // A search for k keeps at least 1.5 k candidates, as far as pgvector does.
        let ef = self.ef.max(self.k.saturating_add(self.k / 2)).min(MAX_EF);
        let iterative = match self.table.extension.is_iterative() {
            true => "SET LOCAL hnsw.iterative_scan = strict_order;",
            false => "",
        };
        let settings = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {}; \
             SET LOCAL jit = off; SET LOCAL hnsw.ef_search = {ef}; {iterative}",
            self.timeout.as_millis()
        );
        // The server takes statements in the order in which they are sent, so that the next one need not wait for this.
        let begin = async { Ok::<(), Failure>(connection.batch_execute(&settings).await?) };
        let (exactly, mut found) = match self.conditions.is_filtered {
            // A graph gives up to 1,000 candidates.
            false if self.k <= MAX_EF => {
                let ((), found) = try_join(begin, self.all(connection)).await?;
                (false, found)
            }
            false => {
                begin.await?;
                self.without_graph(connection).await?;
                (true, self.all(connection).await?)
            }
            true => {
                let ((), allowed) = try_join(begin, self.allowed(connection)).await?;
                if allowed == 0 {
                    connection.batch_execute("COMMIT").await?;
                    return Ok(None);
                }
                let exactly = allowed <= EXACT_ROWS || self.k > MAX_EF;
                if exactly {
                    self.without_graph(connection).await?;
                }
                (exactly, self.all(connection).await?)
            }
        };
        if !exactly && found.iter().any(|hits| hits.len() < self.k) {
            // The walk ended before it had found k; where there are no more it costs little to look at all.
            self.without_graph(connection).await?;
            let again = self.bound();
            for (hits, vector) in found.iter_mut().zip(self.vectors).filter(|(hits, _)| hits.len() < self.k) {
                // What it replaces is no part of the answer.
                *hits = Vec::new();
                *hits = self.nearest(connection, vector, &again).await?;
            }
        }
        connection.batch_execute("COMMIT").await?;
        Ok(Some(found))
    }

    async fn all(&self, connection: &Connection) -> Result<Vec<Vec<Hit>>, Failure> {
        let bound = self.bound();
        try_join_all(self.vectors.iter().map(|vector| self.nearest(connection, vector, &bound))).await
    }

    /// Returns a token that counts what one try finds: another try, after a connection broke, begins anew.
    fn bound(&self) -> CancelToken {
        CancelToken::with_max_bytes(self.cancel.bytes_left())
    }

    /// Counts the passages that pass the filter, up to one more than are compared exactly.
    async fn allowed(&self, connection: &Connection) -> Result<usize, Failure> {
        let (name, conditions, limit) = (&self.table.name, self.conditions.where_clause(), EXACT_ROWS + 1);
        let sql =
            format!("SELECT count(*) FROM (SELECT 1 FROM {name} AS t{conditions} LIMIT {limit}) AS allowed");
        let count: i64 = match rows(connection, &sql, &self.conditions.params).await?.first() {
            Some(row) => row.try_get(0)?,
            None => 0,
        };
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Makes what follows in the transaction compare all rows. Indexes that a filter uses are read as bitmaps.
    async fn without_graph(&self, connection: &Connection) -> Result<(), Failure> {
        Ok(connection.batch_execute("SET LOCAL enable_indexscan = off").await?)
    }

    async fn nearest(
        &self,
        connection: &Connection,
        vector: &Embedding,
        bound: &CancelToken,
    ) -> Result<Vec<Hit>, Failure> {
        let Table { name, vector: column, .. } = self.table;
        let mut params = self.conditions.params.clone();
        params.push(Param::Vector(vector.as_slice().to_vec()));
        let distance = format!(
            "t.{column} OPERATOR({}.<#>) ${}::real[]::{}",
            self.table.extension.schema,
            params.len(),
            self.table.vector_type()
        );
        let sql = format!(
            "SELECT {}, -({distance}) FROM {name} AS t{} ORDER BY {distance} LIMIT {}",
            self.table.fields(),
            self.conditions.where_clause(),
            self.k
        );
        let (mut found, mut hits) = (pin!(stream(connection, &sql, &params).await?), Vec::new());
        while let Some(row) = found.try_next().await? {
            self.cancel.check()?;
            let passage = passage(&row)?;
            bound.count_found(&passage)?;
            hits.push(Hit::new(passage, row.try_get::<_, f64>(4)? as f32));
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        Ok(hits)
    }
}

/// Returns the passages with some ids, which the table's type of ids can hold.
pub(crate) async fn passages(
    connection: &Connection,
    table: &Table,
    ids: Vec<String>,
) -> Result<Vec<Passage>, Failure> {
    let sql = format!("SELECT {} FROM {} AS t WHERE {}", table.fields(), table.name, table.is_passage_in(1));
    rows(connection, &sql, &[Param::Texts(ids)]).await?.iter().map(passage).collect()
}

/// Returns the vectors of the passages with some ids, which the table's type of ids can hold.
pub(crate) async fn vectors(
    connection: &Connection,
    table: &Table,
    ids: Vec<String>,
) -> Result<HashMap<String, Vec<f32>>, Failure> {
    let Table { name, id, vector, .. } = table;
    let is_passage = table.is_passage_in(1);
    let sql = format!("SELECT t.{id}::text, t.{vector}::real[] FROM {name} AS t WHERE {is_passage}");
    let found = rows(connection, &sql, &[Param::Texts(ids)]).await?;
    found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

fn passage(row: &Row) -> Result<Passage, Failure> {
    let metadata: Option<&str> = row.try_get(3)?;
    let passage = Passage::new(
        row.try_get::<_, String>(0)?,
        row.try_get::<_, String>(1)?,
        row.try_get::<_, String>(2)?,
    );
    Ok(passage.with_metadata(metadata.map(flat).unwrap_or_default()))
}

/// Returns the strings, numbers and booleans of a JSON object; a table of the user may hold more than those.
fn flat(json: &str) -> Metadata {
    let mut metadata = Metadata::default();
    if let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(json) {
        for (name, value) in fields {
            // What is not flat, or beyond the limits of metadata, is not part of a passage.
            let Ok(value) = serde_json::from_value(value) else { continue };
            let _ = metadata.insert(name, value);
        }
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_a_user_s_own_table_is_read_where_it_is_flat() {
        let metadata = flat(
            r#"{"lang": "en", "tags": ["a"], "year": 2020, "source": {"a": 1}, "draft": false, "n": null}"#,
        );
        assert_eq!(
            serde_json::json!(metadata),
            serde_json::json!({ "draft": false, "lang": "en", "year": 2020 })
        );
        assert!(flat("[1]").is_empty() && flat("7").is_empty());
    }
}
