//! The table: its columns, as the catalogue knows them, and how statements name them.

use dpr_core::Embedding;
use dpr_index::search::ServiceError;
use postgres_protocol::escape::escape_identifier;
use tokio_postgres::Client as Connection;

use crate::columns::{IdType, is_text};
use crate::extension::Extension;
use crate::failure::Failure;
use crate::params::{Param, rows};
use crate::{PostgresAddress, PostgresError};

/// A table that was looked at and can hold passages. Names are quoted, so that they stand in statements as they are;
/// statements call the table `t`.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) oid: u32,
    /// With its schema.
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) id_type: IdType,
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    pub(crate) metadata: Option<String>,
    pub(crate) vector: String,
    /// The number of the column of vectors in the catalogue.
    pub(crate) vector_number: i32,
    pub(crate) longest: Longest,
    /// `true` if rows may have no vector; these are not passages.
    pub(crate) is_partial: bool,
    /// `true` if vectors are kept in 16 bits a number.
    pub(crate) is_half: bool,
    pub(crate) dim: usize,
    pub(crate) extension: Extension,
    pub(crate) comment: Option<String>,
}

/// The most characters of a passage's fields, where their columns have a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    pub(crate) id: Option<usize>,
    pub(crate) title: Option<usize>,
    pub(crate) text: Option<usize>,
}

/// A column as the catalogue has it.
struct Column {
    number: i32,
    name: String,
    kind: String,
    modifier: i32,
    not_null: bool,
}

impl Column {
    /// Returns the most characters of a value: N of varchar(N), whose modifier is N + 4.
    fn longest(&self) -> Option<usize> {
        usize::try_from(self.modifier - 4).ok().filter(|_| self.kind == "varchar")
    }
}

/// Returns the name of the table as statements write it.
pub(crate) fn quoted(address: &PostgresAddress) -> String {
    format!("{}.{}", escape_identifier(&address.schema), escape_identifier(&address.table))
}

impl Table {
    /// Looks for the table of an address; `None` if it is not there.
    pub(crate) async fn find(
        connection: &Connection,
        address: &PostgresAddress,
    ) -> Result<Option<Self>, Failure> {
        let names = [Param::Text(address.schema.clone()), Param::Text(address.table.clone())];
        let found = rows(
            connection,
            "SELECT c.oid, c.relkind::text, pg_catalog.obj_description(c.oid, 'pg_class') \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = $1 AND c.relname = $2",
            &names,
        )
        .await?;
        let Some(row) = found.first() else { return Ok(None) };
        let (oid, kind, comment): (u32, String, Option<String>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let refused = |why: String| PostgresError::Shape { address: address.to_string(), why };
        if !["r", "p"].contains(&kind.as_str()) {
            return Err(refused("it is not a table".into()).into());
        }
        let columns = columns(connection, oid).await?;
        let extension = Extension::find(connection, address).await?;
        let table = Self::of(address, oid, comment, &columns, extension).map_err(refused)?;
        if !is_unique(connection, oid, &address.columns.id).await? {
            let why = format!("its column {} is not unique: make it the primary key", table.id);
            return Err(refused(why).into());
        }
        Ok(Some(table))
    }

    fn of(
        address: &PostgresAddress,
        oid: u32,
        comment: Option<String>,
        columns: &[Column],
        extension: Extension,
    ) -> Result<Self, String> {
        let named = &address.columns;
        let find = |name: &str| columns.iter().find(|column| column.name == name);
        let must = |name: &str, what: &str| {
            find(name).ok_or_else(|| {
                format!("it has no column {} for the {what}: name it in the address", escape_identifier(name))
            })
        };
        let of_type = |column: &Column, is_right: bool, expected: &str| match is_right {
            true => Ok(escape_identifier(&column.name)),
            false => {
                let (name, kind) = (escape_identifier(&column.name), &column.kind);
                Err(format!("its column {name} is {kind}, must be {expected}"))
            }
        };
        // A column that the address does not name may be missing.
        let optional =
            |given: &Option<String>, role: &str, is_right: fn(&str) -> bool, expected: &str| match given {
                Some(name) => {
                    let column = must(name, role)?;
                    of_type(column, is_right(&column.kind), expected).map(Some)
                }
                None => Ok(find(role)
                    .filter(|column| is_right(&column.kind))
                    .map(|column| escape_identifier(&column.name))),
            };
        let id = must(&named.id, "id")?;
        let id_type = IdType::of(&id.kind);
        let text = must(&named.text, "text")?;
        let vector = must(&named.vector, "vector")?;
        let is_half = vector.kind == "halfvec";
        let is_vector = is_half || vector.kind == "vector";
        let vector_name = of_type(vector, is_vector, "vector or halfvec")?;
        let dim = usize::try_from(vector.modifier).ok().filter(|dim| *dim > 0).ok_or_else(|| {
            let (name, kind) = (&vector_name, &vector.kind);
            format!("its column {name} has no length: alter its type to {kind}(NUMBERS IN A VECTOR)")
        })?;
        if address.half.is_some_and(|half| half != is_half) {
            return Err(format!(
                "its column {vector_name} is {}, the address asks for another type",
                vector.kind
            ));
        }
        let title = named.title.as_deref().unwrap_or("title");
        let longest =
            Longest { id: id.longest(), title: find(title).and_then(Column::longest), text: text.longest() };
        Ok(Self {
            oid,
            name: quoted(address),
            id: of_type(id, id_type.is_some(), "text, varchar, smallint, integer, bigint or uuid")?,
            id_type: id_type.unwrap_or(IdType::Text),
            title: optional(&named.title, "title", is_text, "text or varchar")?,
            text: of_type(text, is_text(&text.kind), "text or varchar")?,
            metadata: optional(&named.metadata, "metadata", |kind| kind == "jsonb", "jsonb")?,
            vector: vector_name,
            vector_number: vector.number,
            longest,
            is_partial: !vector.not_null,
            is_half,
            dim,
            extension,
            comment,
        })
    }

    /// Returns the type of the vectors, as a cast names it.
    pub(crate) fn vector_type(&self) -> String {
        vector_type(&self.extension, self.is_half, self.dim)
    }

    /// Returns the fields of a passage, as a statement selects them: id, title, text and metadata, all of them texts.
    pub(crate) fn fields(&self) -> String {
        let text = |column: &str| format!("coalesce(t.{column}::text, '')");
        let title = self.title.as_deref().map_or_else(|| "''::text".to_owned(), text);
        let metadata =
            self.metadata.as_ref().map_or_else(|| "NULL::text".to_owned(), |name| format!("t.{name}::text"));
        format!("t.{}::text, {title}, {}, {metadata}", self.id, text(&self.text))
    }

    /// Returns the condition that a row has one of the ids that are bound to a parameter.
    pub(crate) fn has_id_in(&self, parameter: usize) -> String {
        match self.id_type {
            IdType::Text => format!("t.{} = ANY(${parameter}::text[])", self.id),
            other => format!("t.{} = ANY(${parameter}::text[]::{}[])", self.id, other.name()),
        }
    }

    /// Returns the condition that a row is a passage with one of the ids that are bound to a parameter.
    pub(crate) fn is_passage_in(&self, parameter: usize) -> String {
        let has_vector = self.has_vector().map_or_else(String::new, |condition| format!(" AND {condition}"));
        self.has_id_in(parameter) + &has_vector
    }

    /// Returns the condition that a row has a vector, where there are others.
    pub(crate) fn has_vector(&self) -> Option<String> {
        self.is_partial.then(|| format!("t.{} IS NOT NULL", self.vector))
    }

    /// Refuses a vector of another length than the column's.
    pub(crate) fn check(&self, address: &PostgresAddress, vector: &Embedding) -> Result<(), ServiceError> {
        ServiceError::check_dim(address, self.dim, vector.dim())
    }
}

/// Returns the error of a table that is not there.
pub(crate) fn missing(address: &PostgresAddress) -> ServiceError {
    ServiceError::Missing { address: address.to_string(), what: "table" }
}

/// Returns the type of vectors, as a cast or a new table names it.
pub(crate) fn vector_type(extension: &Extension, is_half: bool, dim: usize) -> String {
    format!("{}.{}({dim})", extension.schema, if is_half { "halfvec" } else { "vector" })
}

async fn columns(connection: &Connection, oid: u32) -> Result<Vec<Column>, Failure> {
    let found = rows(
        connection,
        "SELECT a.attname::text, t.typname::text, a.atttypmod, a.attnotnull, a.attnum::int4 \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped",
        &[Param::Oid(oid)],
    )
    .await?;
    let column = |row: &tokio_postgres::Row| {
        Ok(Column {
            name: row.try_get(0)?,
            kind: row.try_get(1)?,
            modifier: row.try_get(2)?,
            not_null: row.try_get(3)?,
            number: row.try_get(4)?,
        })
    };
    found.iter().map(column).collect()
}

/// Returns `true` if a column alone is unique at all times.
async fn is_unique(connection: &Connection, oid: u32, column: &str) -> Result<bool, Failure> {
    let found = rows(
        connection,
        "SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a \
         ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
         WHERE i.indrelid = $1 AND a.attname = $2 AND i.indnkeyatts = 1 AND i.indisunique AND i.indimmediate \
         AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL",
        &[Param::Oid(oid), Param::Text(column.to_owned())],
    )
    .await?;
    Ok(!found.is_empty())
}
