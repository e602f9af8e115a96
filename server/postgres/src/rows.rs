//! Passages on their way into a table: checked, in batches, copied and merged.

use std::pin::pin;

use bytes::Bytes;
use dpr_data::{Passage, Value};
use dpr_index::limits::{MAX_TEXT, MAX_TITLE};
pub(crate) use dpr_index::search::Row;
use dpr_index::{ChangeError, search};
use tokio_postgres::Client as Connection;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;

use crate::PostgresError;
use crate::failure::Failure;
use crate::params::rows as query;
use crate::table::Table;

/// Bytes of an id: an entry of a B-tree has about 2,700.
const MAX_ID: usize = 2000;

/// The greatest number of 16 bits.
const MAX_HALF: f32 = 65_504.0;

/// Bytes of vectors and texts in a batch.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Rows in a batch.
const MAX_BATCH_ROWS: usize = 1000;

/// Refuses rows that no table can hold, or that cannot be compared.
pub(crate) fn check(rows: &[Row<'_>], dim: usize) -> Result<(), PostgresError> {
    for (position, (passage, vector)) in rows.iter().enumerate() {
        let Passage { id, title, text, metadata } = passage;
        ChangeError::check_fields(position, passage)?;
        let texts = [("id", id, MAX_ID), ("title", title, MAX_TITLE), ("text", text, MAX_TEXT)];
        for (field, value, max) in texts {
            if value.len() > max {
                let why = format!("has {} bytes, a table holds up to {max}", value.len());
                return Err(refused(passage, field, why));
            }
            if value.contains('\0') {
                return Err(refused(passage, field, "holds a NUL, which PostgreSQL does not keep"));
            }
        }
        let has_nul = |(name, value): (&str, &Value)| {
            name.contains('\0') || matches!(value, Value::Text(text) if text.contains('\0'))
        };
        if metadata.iter().any(has_nul) {
            return Err(refused(passage, "metadata", "holds a NUL, which PostgreSQL does not keep"));
        }
        ChangeError::check_vector(id, vector, dim)?;
    }
    Ok(ChangeError::check_ids(rows.iter().map(|(passage, _)| passage.id.as_str()))?)
}

/// Refuses rows that this table has no columns for.
pub(crate) fn check_columns(rows: &[Row<'_>], table: &Table) -> Result<(), PostgresError> {
    for (passage, vector) in rows {
        if !table.id_type.holds(&passage.id) {
            let why = format!("cannot be kept as {}, the type of its column", table.id_type.name());
            return Err(refused(passage, "id", why));
        }
        let longest = table.longest;
        for (field, value, longest) in [
            ("id", &passage.id, longest.id),
            ("title", &passage.title, longest.title),
            ("text", &passage.text, longest.text),
        ] {
            if let Some(max) = longest
                && value.chars().count() > max
            {
                let count = value.chars().count();
                let why =
                    format!("has {count} characters, its column holds up to {max}: alter its type to text");
                return Err(refused(passage, field, why));
            }
        }
        if table.title.is_none() && !passage.title.is_empty() {
            return Err(refused(passage, "title", "would be lost, since the table has no column for it"));
        }
        if table.metadata.is_none() && !passage.metadata.is_empty() {
            return Err(refused(passage, "metadata", "would be lost, since the table has no column for it"));
        }
        let too_large = vector.iter().find(|number| number.abs() > MAX_HALF);
        if let (true, Some(number)) = (table.is_half, too_large) {
            return Err(PostgresError::Overflow { id: passage.id.clone(), number: *number });
        }
    }
    Ok(())
}

fn refused(passage: &Passage, field: &'static str, why: impl Into<String>) -> PostgresError {
    let shown = passage.id.escape_debug().to_string().chars().take(100).collect();
    PostgresError::Field { id: shown, field, why: why.into() }
}

/// Cuts rows into batches.
pub(crate) fn batches<'a, 'b>(rows: &'b [Row<'a>]) -> Vec<&'b [Row<'a>]> {
    search::batches(rows, MAX_BATCH_ROWS, MAX_BATCH_BYTES)
}

/// Writes rows within a transaction and returns the number of those that were not there as they are. The others are not
/// touched. Rows are written in the order of their ids, so that two writers do not wait for each other.
///
/// `keep_metadata` leaves the metadata of a row that is replaced by a passage without any.
pub(crate) async fn write(
    connection: &Connection,
    table: &Table,
    rows: &[Row<'_>],
    keep_metadata: bool,
) -> Result<usize, Failure> {
    let schema = &table.extension.schema;
    connection
        .batch_execute(&format!(
            "CREATE TEMPORARY TABLE dpr_batch \
             (id text, title text, body text, metadata text, embedding {schema}.vector) ON COMMIT DROP"
        ))
        .await?;
    let sink = connection
        .copy_in::<_, Bytes>(
            "COPY pg_temp.dpr_batch (id, title, body, metadata, embedding) FROM STDIN (FORMAT binary)",
        )
        .await?;
    // The vector's own binary form is written as bytes.
    let types = [Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::BYTEA];
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for (passage, vector) in rows {
        let Passage { id, title, text, metadata } = passage;
        let metadata = serde_json::json!(metadata).to_string();
        writer.as_mut().write(&[id, title, text, &metadata, &binary(vector)]).await?;
    }
    writer.as_mut().finish().await?;
    // Without it the planner takes the batch for large, and may read all of the table.
    connection.batch_execute("ANALYZE pg_temp.dpr_batch (id)").await?;
    let Merge { lock, update, insert } = merge(table, keep_metadata);
    let mut written = 0;
    if !query(connection, &lock, &[]).await?.is_empty() {
        written += connection.execute(&update, &[]).await?;
    }
    written += connection.execute(&insert, &[]).await?;
    Ok(usize::try_from(written).unwrap_or(usize::MAX))
}

/// Returns a vector as pgvector sends and receives it: u16 numbers, u16 0, and each number as f32, big-endian.
fn binary(vector: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + size_of_val(vector));
    // A column holds up to 16,000.
    bytes.extend((vector.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(vector.iter().flat_map(|number| number.to_be_bytes()));
    bytes
}

/// A column of the table in the statements that merge a batch, which call the table `o` and the batch `s`.
struct Merged<'a> {
    name: &'a str,
    /// Its value in a new row.
    value: String,
    /// The condition that a row of the table has that value.
    is_same: String,
    /// Its value when a row is replaced.
    replaced: String,
    /// Its value when a row is replaced that another program added meanwhile, which is `t` then.
    conflicting: String,
}

impl<'a> Merged<'a> {
    fn of(name: &'a str, value: &str, is_same: String) -> Self {
        let (value, conflicting) = (value.to_owned(), format!("EXCLUDED.{name}"));
        Self { name, replaced: value.clone(), value, is_same, conflicting }
    }

    fn of_text(name: &'a str, value: &str) -> Self {
        Self::of(name, value, format!("coalesce(o.{name}::text, '') = {value}"))
    }
}

/// The statements that take the rows of `dpr_batch` into the table, but for those that are there as they are. Rows that
/// are there are updated and not inserted, so that a table may have columns that new rows need and a passage lacks.
struct Merge {
    /// Locks the rows that differ, in the order of their ids, which an update does not keep.
    lock: String,
    /// Replaces them, and removes them from the batch, whatever a trigger makes of them.
    update: String,
    /// Adds those that are not there. A row that another program commits since the statements before, or adds at the
    /// same moment, is replaced.
    insert: String,
}

fn merge(table: &Table, keep_metadata: bool) -> Merge {
    let Table { name, id, text, vector, .. } = table;
    let id_type = table.id_type.name();
    let embedding = format!("s.embedding::{}", table.vector_type());
    let equal = format!("OPERATOR({}.=)", table.extension.schema);
    let has_vector = format!("o.{vector} {equal} {embedding}");
    let mut columns = vec![Merged::of_text(text, "s.body"), Merged::of(vector, &embedding, has_vector)];
    columns.extend(table.title.as_deref().map(|title| Merged::of_text(title, "s.title")));
    if let Some(name) = table.metadata.as_deref() {
        let is_same = format!("coalesce(o.{name}, '{{}}') = s.metadata::jsonb");
        let mut metadata = Merged::of(name, "s.metadata::jsonb", is_same);
        if keep_metadata {
            metadata.is_same = format!("(s.metadata = '{{}}' OR {})", metadata.is_same);
            metadata.replaced =
                format!("CASE WHEN s.metadata = '{{}}' THEN o.{name} ELSE s.metadata::jsonb END");
            metadata.conflicting =
                format!("CASE WHEN EXCLUDED.{name} = '{{}}'::jsonb THEN t.{name} ELSE EXCLUDED.{name} END");
        }
        columns.push(metadata);
    }
    let list =
        |part: fn(&Merged<'_>) -> String, between| columns.iter().map(part).collect::<Vec<_>>().join(between);
    let names = list(|column| column.name.to_owned(), ", ");
    let values = list(|column| column.value.clone(), ", ");
    let is_same = list(|column| column.is_same.clone(), " AND ");
    let set = list(|column| format!("{} = {}", column.name, column.replaced), ", ");
    let conflicting = list(|column| format!("{} = {}", column.name, column.conflicting), ", ");
    // A column without a value makes the condition NULL.
    let differs = format!("o.{id} = s.id::{id_type} AND ({is_same}) IS NOT TRUE");
    Merge {
        lock: format!(
            "SELECT 1 FROM {name} AS o JOIN pg_temp.dpr_batch AS s ON {differs} ORDER BY o.{id} \
             FOR NO KEY UPDATE OF o"
        ),
        update: format!(
            "WITH updated AS (UPDATE {name} AS o SET {set} FROM pg_temp.dpr_batch AS s WHERE {differs} RETURNING s.id) \
             DELETE FROM pg_temp.dpr_batch AS s USING updated WHERE s.id = updated.id"
        ),
        insert: format!(
            "INSERT INTO {name} AS t ({id}, {names}) OVERRIDING SYSTEM VALUE SELECT s.id::{id_type}, {values} \
             FROM pg_temp.dpr_batch AS s \
             WHERE NOT EXISTS (SELECT 1 FROM {name} AS o WHERE o.{id} = s.id::{id_type} AND {is_same}) \
             ORDER BY s.id \
             ON CONFLICT ({id}) DO UPDATE SET {conflicting}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_data::Metadata;

    #[test]
    fn a_vector_is_written_in_pgvector_s_binary_form() {
        assert_eq!(binary(&[1.0, -2.5]), [0, 2, 0, 0, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0]);
    }

    #[test]
    fn rows_that_no_table_holds_are_refused_by_name() {
        let good = Passage::new("1", "T", "Text.");
        let refused = |passage: Passage, vector: &[f32]| {
            check(&[(&passage, vector)], 2).map_err(|error| error.to_string()).unwrap_err()
        };
        let vector = [1.0, 2.0];
        let control = refused(Passage { id: "a\0b".into(), ..good.clone() }, &vector);
        assert!(control.contains("control character U+0000"), "{control}");
        assert!(
            refused(Passage { text: "a\0b".into(), ..good.clone() }, &vector).contains("text holds a NUL")
        );
        assert!(refused(Passage { id: "x".repeat(2001), ..good.clone() }, &vector).contains("2001"));
        let long = |bytes: usize| "x".repeat(bytes);
        let title = refused(Passage { title: long(MAX_TITLE + 1), ..good.clone() }, &vector);
        assert!(title.contains("title has 65537 bytes") && title.contains("65536"), "{title}");
        let text = refused(Passage { text: long(MAX_TEXT + 1), ..good.clone() }, &vector);
        assert!(text.contains("text has 1048577 bytes") && text.contains("1048576"), "{text}");
        let most = Passage { title: long(MAX_TITLE), text: long(MAX_TEXT), ..good.clone() };
        assert!(check(&[(&most, &vector)], 2).is_ok());
        let metadata = Metadata::new([("a", "b\0")]).unwrap();
        assert!(refused(good.clone().with_metadata(metadata), &vector).contains("metadata"));
        assert!(refused(Passage { text: " ".into(), ..good.clone() }, &vector).contains("blank text"));
        assert!(refused(good.clone(), &[f32::NAN, 1.0]).contains("not finite"));
        assert!(refused(good.clone(), &[1.0]).contains('2'));
        assert_eq!(check(&[(&good, &vector)], 2).map_err(|error| error.to_string()), Ok(()));
    }

    #[test]
    fn batches_hold_every_row_once() {
        let passages: Vec<_> =
            (0..2500).map(|at| Passage::new(at.to_string(), "", "x".repeat(at * 5))).collect();
        let vector = [0.0; 8];
        let rows: Vec<Row<'_>> = passages.iter().map(|passage| (passage, vector.as_slice())).collect();
        let batches = batches(&rows);
        assert!(batches.len() > 3 && batches.iter().all(|batch| batch.len() <= MAX_BATCH_ROWS));
        assert_eq!(batches.concat(), rows);
        assert!(super::batches(&[]).is_empty());
        let large = |at: usize| {
            let metadata = Metadata::new([("a", "x".repeat(60_000))]).unwrap();
            Passage::new(at.to_string(), "", "Text.").with_metadata(metadata)
        };
        let passages: Vec<_> = (0..200).map(large).collect();
        let rows: Vec<Row<'_>> = passages.iter().map(|passage| (passage, vector.as_slice())).collect();
        let batches = super::batches(&rows);
        assert!(batches.len() >= 3, "{} batches of 12 MB of metadata", batches.len());
        assert_eq!(batches.concat(), rows);
    }
}
