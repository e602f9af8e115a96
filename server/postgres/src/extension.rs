//! The extension pgvector of a database.

use postgres_protocol::escape::escape_identifier;
use tokio_postgres::Client as Connection;

use crate::failure::Failure;
use crate::params::rows;
use crate::{PostgresAddress, PostgresError};

/// The oldest version with `halfvec`.
const OLDEST: (u32, u32) = (0, 7);

/// The oldest version whose graphs are searched on when a filter leaves too few passages.
const ITERATIVE: (u32, u32) = (0, 8);

/// pgvector, as a database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    /// The schema that it is in, quoted: its types and operators are named with it, whatever the search path.
    pub(crate) schema: String,
    version: (u32, u32),
}

impl Extension {
    /// Returns the extension of a database.
    pub(crate) async fn find(connection: &Connection, address: &PostgresAddress) -> Result<Self, Failure> {
        let found = rows(
            connection,
            "SELECT n.nspname::text, e.extversion FROM pg_catalog.pg_extension e \
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
            &[],
        )
        .await?;
        let missing =
            |got: &str| PostgresError::NoExtension { address: address.to_string(), got: got.to_owned() };
        let Some(row) = found.first() else { return Err(missing("none").into()) };
        let (schema, version): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let numbers = numbers(&version).filter(|version| *version >= OLDEST);
        let version = numbers.ok_or_else(|| missing(&version))?;
        Ok(Self { schema: escape_identifier(&schema), version })
    }

    #[cfg(test)]
    pub(crate) fn of_tests() -> Self {
        Self { schema: "\"public\"".into(), version: ITERATIVE }
    }

    /// Returns `true` if a search of the graph goes on until enough passages pass its filter.
    pub(crate) fn is_iterative(&self) -> bool {
        self.version >= ITERATIVE
    }
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let version = |text| numbers(text).unwrap();
        assert!(
            version("0.10.0") >= ITERATIVE && version("0.8.1") >= ITERATIVE && version("1.0") > ITERATIVE
        );
        assert!(version("0.7.4") < ITERATIVE && version("0.5.1") < OLDEST);
        assert_eq!(numbers("new"), None);
    }
}
