//! Failures of one try, and whether another try may do better.

use std::error::Error as _;
use std::io;

use deadpool_postgres::{PoolError, TimeoutType};
use dpr_index::Stopped;
use dpr_index::search::ServiceError;

use crate::PostgresError;

/// The failure of one try.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server or the way to it is away or busy; another try may do better.
    Away(String),
    /// The connection broke before it was used, as after the server was started again; another may do at once.
    Stale(String),
    /// The connection broke while it was used; whether the server had done the work is not known.
    Broken(String),
    /// The server refuses, and would again.
    Refused(String),
    /// The server refuses a value (SQLSTATE classes 22 and 23), and would again.
    Value(String),
    /// An error of this crate.
    Own(PostgresError),
}

impl From<PostgresError> for Failure {
    fn from(error: PostgresError) -> Self {
        Self::Own(error)
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Own(error.into())
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Self::Own(stopped.into())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let reason = said(&error);
        match (error.code().map(|code| code.code()), is_io(&error) || error.is_closed()) {
            // The server ends sessions: it is shut down, or was killed.
            (Some("57P01" | "57P02"), _) => Self::Broken(reason),
            (Some(code), _) if is_passing(code) => Self::Away(reason),
            (Some(code), _) if VALUES.contains(&class(code)) => Self::Value(reason),
            (None, true) => Self::Broken(reason),
            _ => Self::Refused(reason),
        }
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => match Self::from(error) {
                // A connection that is not made is no better at once.
                Self::Broken(reason) => Self::Away(reason),
                other => other,
            },
            PoolError::Timeout(TimeoutType::Wait) => Self::Away("all connections are in use".into()),
            PoolError::Timeout(_) => Self::Away("no connection in time".into()),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// Returns `true` for SQLSTATEs of what passes by itself: connection exceptions (08), lack of connections or memory
/// (53), locks that others hold (55P03), deadlocks and conflicts (40), a statement that took too long (57014), and a
/// server that starts (57P03).
fn is_passing(code: &str) -> bool {
    ["08", "40"].contains(&class(code))
        || ["53000", "53200", "53300", "55P03", "57014", "57P03"].contains(&code)
}

/// Returns `true` if a connection could not be made or broke; a certificate that is refused is not such an error.
fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() != io::ErrorKind::InvalidData;
        }
        source = error.source();
    }
    false
}

/// SQLSTATE classes of values that cannot be stored.
const VALUES: [&str; 2] = ["22", "23"];

/// SQLSTATE classes whose messages name tables, columns, users, settings and limits, and no value: connections (08),
/// features (0A), transactions (25, 40), prepared statements (26), authorization (28), databases (3D), schemas (3F),
/// syntax and privileges (42), resources and limits (53, 54), objects in use (55), operators (57), and the system (58).
const WITHOUT_VALUES: [&str; 14] =
    ["08", "0A", "25", "26", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58"];

/// Returns the class of a SQLSTATE, its first two characters.
fn class(code: &str) -> &str {
    code.get(..2).unwrap_or(code)
}

/// Returns what the server or the client said. Any other message than those of [`WITHOUT_VALUES`] may quote a value, as
/// that of a trigger does, so that only its code is given.
fn said(error: &tokio_postgres::Error) -> String {
    let Some(server) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        return text;
    };
    let code = server.code().code();
    if code == "23502"
        && let Some(column) = server.column()
    {
        return format!(
            "column {column} is NOT NULL and has no default, so that no rows can be added: give it one, or insert the \
             rows first (SQLSTATE {code})"
        );
    }
    match (class(code), server.constraint().or(server.column())) {
        ("22" | "23", None) => format!(
            "a value cannot be stored (SQLSTATE {code}): change the passage, or the column or constraint that refuses \
             it"
        ),
        ("22" | "23", Some(name)) => format!(
            "a value cannot be stored ({name}, SQLSTATE {code}): change the passage, or that column or constraint"
        ),
        (class, _) if WITHOUT_VALUES.contains(&class) => format!("{} (SQLSTATE {code})", server.message()),
        _ => format!("SQLSTATE {code}; the server's log has the message, which may quote a value"),
    }
}
