//! Scopes: the parts of the interface that keys open.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The part of the interface that a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Searches, the model and its files, the description of the index.
    Search,
    /// Changes to the index.
    Write,
    /// Counters.
    Admin,
}

impl Scope {
    /// Returns the scope as a file of keys names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that names no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a scope is `search`, `write` or `admin`")]
pub struct ScopeError;

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        [Self::Search, Self::Write, Self::Admin]
            .into_iter()
            .find(|scope| scope.name() == text)
            .ok_or(ScopeError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for scope in [Scope::Search, Scope::Write, Scope::Admin] {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert_eq!("Search".parse::<Scope>(), Err(ScopeError));
    }
}
