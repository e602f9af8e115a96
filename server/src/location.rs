//! The location of an index, and the one place that opens it: another kind of index is one more variant here.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;
use dpr_files::Background;
use dpr_files::progress::{Progress, Silent};
#[cfg(any(feature = "milvus", feature = "postgres"))]
use dpr_index::search::watch;
use dpr_index::search::{Backend, LoadOptions, LoadReport, ServiceError, Writer};
use dpr_index::vectors::VectorSet;
use dpr_index::{CompactionPolicy, IndexReader, IndexWriter, LiveIndex, LoadedIndex, OpenError};
#[cfg(feature = "milvus")]
use dpr_milvus::{MilvusAddress, MilvusIndex};
#[cfg(feature = "postgres")]
use dpr_postgres::{PostgresAddress, PostgresIndex};

use crate::error::CliError;
use crate::hints::hint;

/// Time between two looks at a directory that another process may change.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time between two counts of a collection's or a table's passages.
#[cfg(any(feature = "milvus", feature = "postgres"))]
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The address of an index, as `--index` takes it: a directory, `milvus://host:port/collection`, or
/// `postgres://user@host/database?table=name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// An index directory.
    Dir(PathBuf),
    /// A server of this program, for encrypted search: `http://` or `https://`, host and port.
    Server(String),
    /// A collection of a Milvus cluster.
    #[cfg(feature = "milvus")]
    Milvus(MilvusAddress),
    /// A table of PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresAddress>),
}

/// An index in use, and what keeps it up to date: dropping it ends that.
#[derive(Debug)]
pub struct Opened {
    /// Answers searches.
    pub backend: Arc<dyn Backend>,
    /// Changes the index, where it was opened for that.
    pub writer: Option<Arc<dyn Writer>>,
    /// The index itself, where it is a directory of this machine.
    pub live: Option<Arc<LiveIndex>>,
    _kept_by: KeptBy,
}

/// The part that follows an index, or compacts it; held for what its drop ends.
#[derive(Debug)]
#[allow(dead_code, reason = "held until it is dropped")]
enum KeptBy {
    Nobody,
    Reader(IndexReader),
    Thread(Background),
}

impl Location {
    /// Opens the index for one command: with every update that was acknowledged, and not followed from then on.
    ///
    /// # Errors
    /// A server's address, and the errors of the home.
    pub fn open(&self) -> Result<Arc<dyn Backend>, CliError> {
        Ok(match self {
            Self::Dir(dir) => Arc::<LiveIndex>::clone(IndexReader::open_unchecked(dir)?.live()),
            Self::Server(address) => return Err(of_server(address)),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => Arc::new(open_milvus(address)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Arc::new(PostgresIndex::open(address)?),
        })
    }

    /// Opens the index for one command that changes it. `holder` is what others are told who want to write there.
    ///
    /// # Errors
    /// A server's address, and the errors of the home.
    pub fn open_to_write(&self, holder: &str) -> Result<Opened, CliError> {
        Ok(match self {
            Self::Dir(dir) => {
                Opened::of_writer(Arc::new(open_writer(dir, holder, IndexWriter::open)?), KeptBy::Nobody)
            }
            Self::Server(address) => return Err(of_server(address)),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => {
                Opened::of_service(Arc::new(open_milvus(address)?), true, KeptBy::Nobody)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => {
                Opened::of_service(Arc::new(PostgresIndex::open(address)?), true, KeptBy::Nobody)
            }
        })
    }

    /// Opens the index for a server, and keeps it up to date: without `compaction` what others write is taken in,
    /// with it this process writes, and builds new versions when they are due.
    ///
    /// # Errors
    /// A server's address, and the errors of the home.
    pub fn serve(&self, compaction: Option<CompactionPolicy>) -> Result<Opened, CliError> {
        match (self, compaction) {
            (Self::Server(address), _) => Err(of_server(address)),
            (Self::Dir(dir), None) => {
                let reader = IndexReader::open_unchecked(dir)?.watch(LOOK_EVERY)?;
                let live = Arc::clone(reader.live());
                let backend = Arc::<LiveIndex>::clone(&live);
                Ok(Opened { backend, writer: None, live: Some(live), _kept_by: KeptBy::Reader(reader) })
            }
            (Self::Dir(dir), Some(policy)) => {
                let holder = "a server (dpr serve --allow-updates)";
                let writer = Arc::new(open_writer(dir, holder, IndexWriter::open_unchecked)?);
                let compaction = writer.compact_in_background(policy)?;
                Ok(Opened::of_writer(writer, KeptBy::Thread(compaction)))
            }
            #[cfg(feature = "milvus")]
            (Self::Milvus(address), compaction) => {
                let index = Arc::new(open_milvus(address)?);
                let counting = watch(&index, address.to_string(), COUNT_EVERY)?;
                index.watched_by(&counting);
                Ok(Opened::of_service(index, compaction.is_some(), KeptBy::Thread(counting)))
            }
            #[cfg(feature = "postgres")]
            (Self::Postgres(address), compaction) => {
                let index = Arc::new(PostgresIndex::open(address)?);
                let counting = watch(&index, address.to_string(), COUNT_EVERY)?;
                index.watched_by(&counting);
                Ok(Opened::of_service(index, compaction.is_some(), KeptBy::Thread(counting)))
            }
        }
    }

    /// Writes vectors and their passages into a service, from where an earlier load stopped; `channels` are those of a
    /// new collection of Milvus.
    ///
    /// # Errors
    /// An index directory, which is built instead, and the errors of the service.
    pub fn load(
        &self,
        vectors: &VectorSet,
        options: &LoadOptions,
        channels: u16,
        progress: &dyn Progress,
    ) -> Result<LoadReport, CliError> {
        #[cfg(not(feature = "milvus"))]
        let _ = channels;
        #[cfg(not(any(feature = "milvus", feature = "postgres")))]
        let _ = (vectors, options, progress);
        match self {
            Self::Dir(dir) => {
                Err(format!("{} is a directory: an index is built there", dir.display()).into())
            }
            Self::Server(address) => Err(of_server(address)),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => {
                let token = milvus_token()?;
                let options = dpr_milvus::LoadOptions { common: options.clone(), channels, token };
                Ok(dpr_milvus::load(address, vectors, &options, progress)?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Ok(dpr_postgres::load(address, vectors, options, progress)?),
        }
    }

    /// Returns the index directory, where it is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Dir(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the directory, for what is done with directories alone; `what` names that in the error.
    ///
    /// # Errors
    /// An address that is not a directory.
    pub fn dir(&self, what: &str) -> Result<&Path, CliError> {
        #[cfg(not(any(feature = "milvus", feature = "postgres")))]
        let _ = what;
        match self {
            Self::Dir(path) => Ok(path),
            Self::Server(address) => Err(of_server(address)),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => Err(format!(
                "{what} is for index directories; Milvus does this for {address} itself, or with its own tools"
            )
            .into()),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Err(format!(
                "{what} is for index directories; PostgreSQL does this for {address} itself, or with its own tools"
            )
            .into()),
        }
    }
}

/// Returns the error of a server's address where an index is wanted.
pub(crate) fn of_server(address: &str) -> CliError {
    format!(
        "{address} is a server, and this needs an index: give an index directory; a server is searched by `dpr search \
         --privacy encrypted`"
    )
    .into()
}

impl Opened {
    fn of_writer(writer: Arc<IndexWriter>, kept_by: KeptBy) -> Self {
        let live = Arc::clone(writer.live());
        let backend = Arc::<LiveIndex>::clone(&live);
        Self { backend, writer: Some(writer), live: Some(live), _kept_by: kept_by }
    }

    #[cfg(any(feature = "milvus", feature = "postgres"))]
    fn of_service<I: Backend + Writer + 'static>(index: Arc<I>, to_change: bool, kept_by: KeptBy) -> Self {
        let backend = Arc::<I>::clone(&index);
        let writer = to_change.then_some(index as Arc<dyn Writer>);
        Self { backend, writer, live: None, _kept_by: kept_by }
    }

    /// Returns the writing side of an index that was opened to be changed.
    ///
    /// # Errors
    /// An index that was opened for searching only.
    pub fn writer(&self) -> Result<&dyn Writer, CliError> {
        self.writer.as_deref().ok_or_else(|| "the index was opened for searching only".into())
    }
}

/// Text that no index can be opened from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// An address of a service that cannot be read.
    #[error("{0}")]
    Address(#[from] ServiceError),
    /// A scheme that this program does not know.
    #[error("{0} is not an index directory, and this dpr opens none by that scheme: {KNOWN}")]
    Scheme(String),
}

const KNOWN: &str = match (cfg!(feature = "milvus"), cfg!(feature = "postgres")) {
    (true, true) => {
        "give a directory, milvus://HOST:PORT/COLLECTION, or postgres://USER@HOST/DATABASE?table=NAME"
    }
    (true, false) => {
        "give a directory, or milvus://HOST:PORT/COLLECTION (for postgres:// build it with that feature)"
    }
    (false, true) => {
        "give a directory, or postgres://USER@HOST/DATABASE?table=NAME (for milvus:// build it with that feature)"
    }
    (false, false) => {
        "give a directory (for milvus:// and postgres:// build it with the features of these names)"
    }
};

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        #[cfg(feature = "milvus")]
        if MilvusAddress::is_meant(text) {
            return Ok(Self::Milvus(text.parse()?));
        }
        #[cfg(feature = "postgres")]
        if PostgresAddress::is_meant(text) {
            return Ok(Self::Postgres(Box::new(text.parse()?)));
        }
        match text.split_once("://") {
            Some(("http" | "https", host)) if is_host(host) => {
                Ok(Self::Server(text.trim_end_matches('/').to_owned()))
            }
            // What comes after the scheme may hold a password.
            Some((scheme, _)) => Err(LocationError::Scheme(format!("{scheme}://..."))),
            None => Ok(Self::Dir(text.into())),
        }
    }
}

/// Returns `true` if an address after its scheme is a host, with a port and a path or without, and no password.
fn is_host(text: &str) -> bool {
    !text.trim_end_matches('/').is_empty() && !text.contains(['@', '?', '#', ' '])
}

impl ValueParserFactory for Location {
    type Parser = LocationParser;

    fn value_parser() -> LocationParser {
        LocationParser
    }
}

/// Reads a location from the command line. Its error does not repeat the text, which may hold a password.
#[derive(Clone, Debug)]
pub struct LocationParser;

impl TypedValueParser for LocationParser {
    type Value = Location;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Location, clap::Error> {
        let refused = |why: &dyn fmt::Display| {
            let argument = argument.map_or_else(String::new, |argument| format!(" for '{argument}'"));
            clap::Error::raw(ErrorKind::ValueValidation, format!("invalid value{argument}: {why}\n"))
                .with_cmd(command)
        };
        // A directory's name may be any bytes.
        let Some(text) = value.to_str() else { return Ok(Location::Dir(value.into())) };
        match text {
            "" => Err(refused(&"it is empty")),
            text => text.parse().map_err(|error: LocationError| match hint(&error) {
                None => refused(&error),
                Some(hint) => refused(&format_args!("{error}: {hint}")),
            }),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(path) => path.display().fmt(f),
            Self::Server(address) => f.write_str(address),
            #[cfg(feature = "milvus")]
            Self::Milvus(address) => address.fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

/// Opens an index directory for changes: where a version has private tables, the next one gets some before it is put in
/// use. `holder` is what others are told who want to write there; `open` checks all files now, or when they are read.
///
/// # Errors
/// As [`IndexWriter::open`].
pub(crate) fn open_writer(
    dir: &Path,
    holder: &str,
    open: fn(&Path, &str) -> Result<IndexWriter, OpenError>,
) -> Result<IndexWriter, OpenError> {
    let index = dir.to_path_buf();
    let prepare = move |version: &LoadedIndex, stop: &Arc<AtomicBool>| {
        let built = dpr_private::build_as_before(version, &index, stop, &Silent);
        match built.map_err(|error| format!("its private tables could not be built: {error}"))? {
            None => {}
            Some(built) => {
                tracing::info!("private tables of the next version: {}", built.path.display());
                for warning in built.warnings() {
                    tracing::warn!("{warning}");
                }
            }
        }
        Ok(())
    };
    Ok(open(dir, holder)?.with_preparation(prepare))
}

#[cfg(feature = "milvus")]
fn open_milvus(address: &MilvusAddress) -> Result<MilvusIndex, CliError> {
    Ok(MilvusIndex::open(address, milvus_token()?.as_deref())?)
}

/// Returns what lets this program into a cluster: `user:password` or an API key. It has no flag: a command line is
/// seen by every process of the machine.
#[cfg(feature = "milvus")]
fn milvus_token() -> Result<Option<String>, CliError> {
    match std::env::var("DPR_MILVUS_TOKEN") {
        Ok(token) => Ok(Some(token).filter(|token| !token.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        // Its own text shows the value.
        Err(std::env::VarError::NotUnicode(_)) => {
            Err("DPR_MILVUS_TOKEN is not UTF-8: give user:password or an API key".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_location_and_an_unknown_scheme_is_not() {
        assert_eq!("a/b".parse::<Location>().unwrap(), Location::Dir("a/b".into()));
        let server = "https://search.example.org/".parse::<Location>().unwrap();
        assert_eq!(server, Location::Server("https://search.example.org".into()));
        for wrong in ["https://", "http://user:secret@host", "https://host?q=1"] {
            let error = wrong.parse::<Location>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let error = "pgvector://u:secret@host/table".parse::<Location>().unwrap_err().to_string();
        assert!(error.contains("pgvector://") && error.contains("give a directory"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
