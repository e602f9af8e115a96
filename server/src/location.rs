//! Where an index is, and the one place that opens it: another kind of index is one more variant here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dpr_files::Background;
use dpr_index::search::{Backend, Writer};
use dpr_index::{CompactionPolicy, IndexReader, IndexWriter, LiveIndex};
#[cfg(feature = "milvus")]
use dpr_milvus::{MilvusAddress, MilvusIndex};

use crate::error::CliError;

/// Time between two looks at a directory that another process may change.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time between two counts of a collection's passages.
#[cfg(feature = "milvus")]
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The address of an index, as `--index` takes it: a directory, or `milvus://host:port/collection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// An index directory.
    Dir(PathBuf),
    /// A collection of a Milvus cluster.
    #[cfg(feature = "milvus")]
    Milvus(MilvusAddress),
}

/// An index in use, and what keeps it up to date: dropping it ends that.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Answers searches.
    pub(crate) backend: Arc<dyn Backend>,
    /// Changes the index, where it was opened for that.
    pub(crate) writer: Option<Arc<dyn Writer>>,
    _kept_by: KeptBy,
}

/// What follows an index, or compacts it; held for what its drop ends.
#[derive(Debug)]
#[allow(dead_code, reason = "held until it is dropped")]
enum KeptBy {
    Nobody,
    Reader(IndexReader),
    Thread(Background),
}

impl Location {
    #[cfg_attr(not(feature = "milvus"), allow(dead_code, reason = "directories are opened by rows"))]
    /// Opens the index for one command: with every update that was acknowledged, and not followed from then on.
    pub(crate) fn open(&self) -> Result<Arc<dyn Backend>, CliError> {
        Ok(match self {
            Self::Dir(dir) => Arc::<LiveIndex>::clone(IndexReader::open(dir)?.live()),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => Arc::new(open_milvus(address)?),
        })
    }

    /// Opens the index for one command that changes it. `holder` is what others are told who want to write there.
    pub(crate) fn open_to_write(&self, holder: &str) -> Result<Opened, CliError> {
        Ok(match self {
            Self::Dir(dir) => Opened::of_writer(Arc::new(IndexWriter::open(dir, holder)?), KeptBy::Nobody),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => {
                Opened::of_collection(Arc::new(open_milvus(address)?), true, KeptBy::Nobody)
            }
        })
    }

    /// Opens the index for a server, and keeps it up to date: without `compaction` what others write is taken in, with it
    /// this process writes, and builds new versions when they are due.
    pub(crate) fn serve(&self, compaction: Option<CompactionPolicy>) -> Result<Opened, CliError> {
        match (self, compaction) {
            (Self::Dir(dir), None) => {
                let reader = IndexReader::open(dir)?.watch(LOOK_EVERY)?;
                let backend = Arc::<LiveIndex>::clone(reader.live());
                Ok(Opened { backend, writer: None, _kept_by: KeptBy::Reader(reader) })
            }
            (Self::Dir(dir), Some(policy)) => {
                let writer = Arc::new(IndexWriter::open(dir, "a server (dpr serve --allow-updates)")?);
                let compaction = writer.compact_in_background(policy)?;
                Ok(Opened::of_writer(writer, KeptBy::Thread(compaction)))
            }
            #[cfg(feature = "milvus")]
            (Self::Milvus(address), compaction) => {
                let index = Arc::new(open_milvus(address)?);
                let counting = index.watch(COUNT_EVERY)?;
                Ok(Opened::of_collection(index, compaction.is_some(), KeptBy::Thread(counting)))
            }
        }
    }

    /// Returns the directory, for what is done with directories alone; `what` names that in the error.
    pub(crate) fn dir(&self, what: &str) -> Result<&Path, CliError> {
        #[cfg(not(feature = "milvus"))]
        let _ = what;
        match self {
            Self::Dir(path) => Ok(path),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => Err(format!(
                "{what} is for index directories; Milvus does this for {address} itself, or with its own tools"
            )
            .into()),
        }
    }
}

impl Opened {
    fn of_writer(writer: Arc<IndexWriter>, kept_by: KeptBy) -> Self {
        let backend = Arc::<LiveIndex>::clone(writer.live());
        Self { backend, writer: Some(writer), _kept_by: kept_by }
    }

    #[cfg(feature = "milvus")]
    fn of_collection(index: Arc<MilvusIndex>, to_change: bool, kept_by: KeptBy) -> Self {
        let backend = Arc::<MilvusIndex>::clone(&index);
        Self { backend, writer: to_change.then_some(index as Arc<dyn Writer>), _kept_by: kept_by }
    }

    /// Returns the writing side of an index that was opened to be changed.
    pub(crate) fn writer(&self) -> Result<&dyn Writer, CliError> {
        self.writer.as_deref().ok_or_else(|| "the index was opened for searching only".into())
    }
}

/// Text that no index can be opened from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocationError {
    /// An address of a collection that cannot be read.
    #[cfg(feature = "milvus")]
    #[error(transparent)]
    Milvus(#[from] dpr_milvus::MilvusError),
    /// A scheme that this program does not know.
    #[error("{0} is not an index directory, and this dpr opens none by that scheme: {KNOWN}")]
    Scheme(String),
}

#[cfg(feature = "milvus")]
const KNOWN: &str = "give a directory, or milvus://HOST:PORT/COLLECTION";
#[cfg(not(feature = "milvus"))]
const KNOWN: &str = "give a directory (for milvus:// build it with the feature `milvus`)";

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        #[cfg(feature = "milvus")]
        if MilvusAddress::is_meant(text) {
            return Ok(Self::Milvus(text.parse()?));
        }
        match text.contains("://") {
            true => Err(LocationError::Scheme(text.to_owned())),
            false => Ok(Self::Dir(text.into())),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(path) => path.display().fmt(f),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => address.fmt(f),
        }
    }
}

#[cfg(feature = "milvus")]
fn open_milvus(address: &MilvusAddress) -> Result<MilvusIndex, CliError> {
    Ok(MilvusIndex::open(address, milvus_token()?.as_deref())?)
}

/// Returns what lets this program into a cluster: `user:password` or an API key. It has no flag: a command line is seen by
/// every process of the machine.
#[cfg(feature = "milvus")]
pub(crate) fn milvus_token() -> Result<Option<String>, CliError> {
    match std::env::var("DPR_MILVUS_TOKEN") {
        Ok(token) => Ok(Some(token).filter(|token| !token.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("DPR_MILVUS_TOKEN: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_location_and_an_unknown_scheme_is_not() {
        assert_eq!("a/b".parse::<Location>().unwrap(), Location::Dir("a/b".into()));
        let error = "pgvector://host/table".parse::<Location>().unwrap_err().to_string();
        assert!(error.contains("pgvector://host/table") && error.contains("give a directory"), "{error}");
    }
}
