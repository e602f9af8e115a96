//! Values that are bound to a statement: none of them is ever a part of its text.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client as Connection, Row, RowStream};

use crate::failure::Failure;

/// A value of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Param {
    Text(String),
    Texts(Vec<String>),
    Vector(Vec<f32>),
    Oid(u32),
    Int(i32),
}

impl Param {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Vector(numbers) => (numbers, Type::FLOAT4_ARRAY),
            Self::Oid(oid) => (oid, Type::OID),
            Self::Int(number) => (number, Type::INT4),
        }
    }
}

/// Returns the rows of a statement. It is planned for these values each time, since what is best for one filter is not
/// for another.
pub(crate) async fn rows(connection: &Connection, sql: &str, params: &[Param]) -> Result<Vec<Row>, Failure> {
    let typed: Vec<_> = params.iter().map(Param::typed).collect();
    Ok(connection.query_typed(sql, &typed).await?)
}

/// Returns the rows of a statement one by one, as the server sends them.
pub(crate) async fn stream(
    connection: &Connection,
    sql: &str,
    params: &[Param],
) -> Result<RowStream, Failure> {
    Ok(connection.query_typed_raw(sql, params.iter().map(Param::typed)).await?)
}
