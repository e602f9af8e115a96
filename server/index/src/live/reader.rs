//! The reader of an index that another process changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dpr_files::Background;

use super::state::State;
use super::{LiveIndex, Snapshot, WalReader};
use crate::directory::pointer::Pointer;
use crate::directory::version::{Version, newest};
use crate::{IndexDir, LoadedIndex, OpenError};

/// An index directory opened for searching, which takes in what another process writes there.
///
/// [`open`](Self::open) reads it once, [`watch`](Self::watch) keeps it up to date from then on; without it the caller
/// asks with [`refresh`](Self::refresh). Searches take a [`Snapshot`] and never wait for either.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let reader = dpr_index::IndexReader::open("index/".as_ref())?.watch(Duration::from_secs(1))?;
/// let snapshot = reader.snapshot();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IndexReader {
    live: Arc<LiveIndex>,
    following: Arc<Mutex<Following>>,
    _watching: Option<Background>,
}

/// The state of following a directory.
#[derive(Debug)]
struct Following {
    dir: PathBuf,
    live: Arc<LiveIndex>,
    opened: Opened,
    /// A version that does not belong to the model served, so that it is told of once.
    refused: Option<Pointer>,
}

/// A version in memory, and how far its log is read.
#[derive(Debug)]
struct Opened {
    pointer: Pointer,
    state: State,
    log: Option<WalReader>,
    /// `true` once reading the log failed in the middle, so that the state is unusable.
    is_broken: bool,
}

impl IndexReader {
    /// Opens the version in use in `dir` with every update that was acknowledged.
    ///
    /// # Errors
    /// As [`LoadedIndex::open`](crate::LoadedIndex::open), or the log is damaged.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let opened = newest(dir, Opened::read)?;
        let live = Arc::new(LiveIndex::new(opened.state.snapshot()));
        let following = Following { dir: dir.to_path_buf(), live: Arc::clone(&live), opened, refused: None };
        Ok(Self { live, following: Arc::new(Mutex::new(following)), _watching: None })
    }

    /// Looks for changes every so often, on a thread that ends with this reader. A change that cannot be taken in is
    /// logged once, and searches go on with what was in use.
    ///
    /// # Errors
    /// An I/O error when the system starts no thread.
    pub fn watch(mut self, every: Duration) -> std::io::Result<Self> {
        let (following, mut told) = (Arc::clone(&self.following), None);
        let watching = Background::every("index", every, move |_| {
            let mut following = following.lock().unwrap_or_else(PoisonError::into_inner);
            match following.refresh() {
                Ok(changed) => {
                    if changed {
                        following.live.log_version();
                    }
                    told = None;
                }
                Err(error) => {
                    // Once, not at every look.
                    let text = error.to_string();
                    if told.as_ref() != Some(&text) {
                        tracing::warn!("the index that is served stays as it was: {text}");
                    }
                    told = Some(text);
                }
            }
        })?;
        self._watching = Some(watching);
        Ok(self)
    }

    /// Returns the place where searches find the newest snapshot.
    pub fn live(&self) -> &Arc<LiveIndex> {
        &self.live
    }

    /// Returns the index as it is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.live.snapshot()
    }

    /// Looks for updates and for a new version, puts them in use, and returns whether there were any. Cheap when there
    /// are none: two small reads.
    ///
    /// # Errors
    /// As [`IndexReader::open`], and once for each version of another model, [`OpenError::OtherModel`]. What was in use
    /// stays.
    pub fn refresh(&self) -> Result<bool, OpenError> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner).refresh()
    }
}

impl Following {
    fn refresh(&mut self) -> Result<bool, OpenError> {
        let pointer = IndexDir::new(&self.dir).pointer()?;
        if self.refused.as_ref() == Some(&pointer) {
            return Ok(false);
        }
        self.opened.begin_log(&self.dir, &pointer)?;
        if pointer == self.opened.pointer && !self.opened.is_broken {
            let Opened { log: Some(log), state, is_broken, .. } = &mut self.opened else { return Ok(false) };
            let read = log.read(&mut |changes| state.apply(changes));
            *is_broken = read.is_err();
            if read? {
                self.live.set(state.snapshot());
                return Ok(true);
            }
            return Ok(false);
        }
        let served = self.opened.state.base();
        let opened = newest(&self.dir, |version| {
            version.check_model(&self.dir, served)?;
            Opened::read(version)
        });
        let opened = opened.inspect_err(|error| {
            if matches!(error, OpenError::OtherModel { .. }) {
                self.refused = Some(pointer.clone());
            }
        })?;
        self.live.set(opened.state.snapshot());
        self.opened = opened;
        Ok(true)
    }
}

impl Opened {
    fn read(version: Version<'_>) -> Result<Self, OpenError> {
        let mut log = version.open_log()?;
        let pointer = version.pointer();
        let mut state = State::new(Arc::new(LoadedIndex::read(version)?));
        if let Some(log) = &mut log {
            log.read(&mut |changes| state.apply(changes))?;
        }
        Ok(Self { pointer, state, log, is_broken: false })
    }

    /// Begins to follow the first log of the version in memory, so that the version need not be read again.
    fn begin_log(&mut self, dir: &Path, now: &Pointer) -> Result<(), OpenError> {
        let before = Pointer { has_log: true, ..self.pointer.clone() };
        if self.log.is_none() && *now == before {
            let path = IndexDir::new(dir).log_path(now.version);
            self.log = Some(WalReader::open(&path, &now.manifest_sha256, self.state.base().manifest.dim)?);
            self.pointer = before;
        }
        Ok(())
    }
}

impl Version<'_> {
    /// Refuses a version of another model than the one being served.
    fn check_model(&self, dir: &Path, served: &LoadedIndex) -> Result<(), OpenError> {
        let (found, served) = (&self.manifest, &served.manifest);
        if found.model_fingerprint == served.model_fingerprint && found.dim == served.dim {
            return Ok(());
        }
        Err(OpenError::OtherModel {
            path: dir.to_path_buf(),
            found: found.model_fingerprint.clone(),
            found_dim: found.dim,
            served: served.model_fingerprint.clone(),
            served_dim: served.dim,
        })
    }
}
