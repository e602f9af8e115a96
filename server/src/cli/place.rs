//! Where an index is: a directory, or a collection of a Milvus cluster.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::CliError;
use crate::index::milvus::{MilvusAddress, MilvusError};

/// What `--index` takes: a directory, or `milvus://host:port/collection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IndexPlace {
    /// An index directory.
    Dir(PathBuf),
    /// A collection.
    Milvus(MilvusAddress),
}

impl IndexPlace {
    /// The directory, for what is done with directories alone; `what` that is.
    pub(super) fn dir(&self, what: &str) -> Result<&Path, CliError> {
        match self {
            Self::Dir(path) => Ok(path),
            Self::Milvus(address) => {
                Err(format!("{what} is for index directories; Milvus does this for {address} itself, or with its own tools")
                    .into())
            }
        }
    }
}

impl FromStr for IndexPlace {
    type Err = MilvusError;

    fn from_str(text: &str) -> Result<Self, MilvusError> {
        match MilvusAddress::is_meant(text) {
            true => text.parse().map(Self::Milvus),
            false => Ok(Self::Dir(text.into())),
        }
    }
}

impl fmt::Display for IndexPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(path) => path.display().fmt(f),
            Self::Milvus(address) => address.fmt(f),
        }
    }
}

/// What lets this program into a cluster: `user:password` or an API key. It has no flag: a command line is seen by every
/// process of the machine.
pub(super) fn milvus_token() -> Result<Option<String>, CliError> {
    match std::env::var("DPR_MILVUS_TOKEN") {
        Ok(token) => Ok(Some(token).filter(|token| !token.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("DPR_MILVUS_TOKEN: {error}").into()),
    }
}
