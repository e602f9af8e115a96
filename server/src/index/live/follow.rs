//! Following what another process writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::State;
use super::{LiveIndex, Log};
use crate::index::store::Pointer;
use crate::index::version::{Version, newest};
use crate::index::{IndexDir, IndexError, LoadedIndex};

/// Keeps a [`LiveIndex`] as its directory is, without the right to change it.
#[derive(Debug)]
pub struct Follower {
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
    log: Option<Log>,
    /// Whether reading the log failed in the middle, so that the state is of no use.
    is_broken: bool,
}

impl Follower {
    /// Opens the version in use in `dir` with every update that was acknowledged.
    ///
    /// # Errors
    /// As [`LoadedIndex::open`](crate::index::LoadedIndex::open), or the log is damaged.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        let opened = newest(dir, Opened::read)?;
        let live = Arc::new(LiveIndex::new(opened.state.snapshot()));
        Ok(Self { dir: dir.to_path_buf(), live, opened, refused: None })
    }

    /// Where searches find the index.
    pub fn live(&self) -> &Arc<LiveIndex> {
        &self.live
    }

    /// Looks for updates and for a new version, and puts them in use; whether there were any. Cheap when there are
    /// none: two small reads.
    ///
    /// # Errors
    /// As [`Follower::open`], and once for each version of another model, [`IndexError::OtherModel`]. What was in use
    /// stays.
    pub fn refresh(&mut self) -> Result<bool, IndexError> {
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
            if matches!(error, IndexError::OtherModel { .. }) {
                self.refused = Some(pointer.clone());
            }
        })?;
        self.live.set(opened.state.snapshot());
        self.opened = opened;
        Ok(true)
    }
}

impl Opened {
    fn read(version: Version<'_>) -> Result<Self, IndexError> {
        let mut log = version.open_log()?;
        let pointer = version.pointer();
        let mut state = State::new(Arc::new(LoadedIndex::read(version)?));
        if let Some(log) = &mut log {
            log.read(&mut |changes| state.apply(changes))?;
        }
        Ok(Self { pointer, state, log, is_broken: false })
    }

    /// Takes up the log where the version in memory got its first, so that it need not be read again.
    fn begin_log(&mut self, dir: &Path, now: &Pointer) -> Result<(), IndexError> {
        let before = Pointer { has_log: true, ..self.pointer.clone() };
        if self.log.is_none() && *now == before {
            let path = IndexDir::new(dir).log_path(now.version);
            self.log = Some(Log::open(&path, &now.manifest_sha256, self.state.base().manifest.dim)?);
            self.pointer = before;
        }
        Ok(())
    }
}

impl Version<'_> {
    /// Refuses a version that questions of the model being served cannot be asked of.
    fn check_model(&self, dir: &Path, served: &LoadedIndex) -> Result<(), IndexError> {
        let (found, served) = (&self.manifest, &served.manifest);
        if found.model_fingerprint == served.model_fingerprint && found.dim == served.dim {
            return Ok(());
        }
        Err(IndexError::OtherModel {
            path: dir.to_path_buf(),
            found: found.model_fingerprint.clone(),
            found_dim: found.dim,
            served: served.model_fingerprint.clone(),
            served_dim: served.dim,
        })
    }
}
