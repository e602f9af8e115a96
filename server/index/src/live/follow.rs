//! Following a directory: the version and the log that another process writes there, taken in as they appear.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::LiveIndex;
use super::state::State;
use crate::directory::pointer::Pointer;
use crate::directory::version::{Version, newest};
use crate::wal::WalReader;
use crate::{IndexDir, LoadedIndex, OpenError};

/// The pause after the first failure to take in what the directory holds; it doubles with each further one, as every
/// attempt may read the whole index.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The state of following a directory.
#[derive(Debug)]
pub(super) struct Following {
    dir: PathBuf,
    live: Arc<LiveIndex>,
    opened: Opened,
    /// A version that does not belong to the model served, so that it is told of once.
    refused: Option<Pointer>,
    /// The last failure to take in a version or its log, until something was taken in.
    failed: Option<Failed>,
    /// The time at which the index served was last seen to be the one that the directory holds.
    caught_up: Instant,
    /// The number of times that a whole version was read since the first.
    #[cfg(test)]
    readings: usize,
}

/// A failure to take in what the directory holds, and when the next attempt is made.
#[derive(Debug)]
struct Failed {
    pointer: Pointer,
    error: OpenError,
    pause: Duration,
    again_at: Instant,
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

/// Opens a version: all of it checked, or checked when it is read.
pub(super) type Read = fn(Version<'_>) -> Result<LoadedIndex, OpenError>;

impl Following {
    /// Opens the version in use in `dir`, as `read` does, with its log.
    pub(super) fn open(dir: &Path, read: Read) -> Result<Self, OpenError> {
        let opened = newest(dir, |version| Opened::read(version, read))?;
        let live = Arc::new(LiveIndex::new(opened.state.snapshot()));
        let following = Self {
            dir: dir.to_path_buf(),
            live,
            opened,
            refused: None,
            failed: None,
            caught_up: Instant::now(),
            #[cfg(test)]
            readings: 0,
        };
        following.record_health(false);
        Ok(following)
    }

    /// Returns the place where searches find the newest snapshot.
    pub(super) fn live(&self) -> &Arc<LiveIndex> {
        &self.live
    }

    /// Takes in what the directory holds at the time `now`, unless that failed a short while before.
    pub(super) fn refresh(&mut self, now: Instant) -> Result<bool, OpenError> {
        let taken = self.take_in(now);
        let is_stale = taken.is_err() || self.refused.is_some();
        if !is_stale {
            self.caught_up = now;
        }
        self.record_health(is_stale);
        taken
    }

    fn record_health(&self, is_stale: bool) {
        self.live.health.set_stale_since(is_stale.then_some(self.caught_up));
        self.live.health.set_log_bytes(self.opened.log.as_ref().map_or(0, WalReader::bytes));
    }

    fn take_in(&mut self, now: Instant) -> Result<bool, OpenError> {
        let pointer = IndexDir::new(&self.dir).pointer()?;
        if self.refused.as_ref() == Some(&pointer) {
            return Ok(false);
        }
        let before = self.failed.take_if(|failed| failed.pointer != pointer || failed.again_at <= now);
        if let Some(failed) = &self.failed {
            return Err(failed.error.clone());
        }
        let taken = self.read(&pointer);
        match &taken {
            Ok(_) => self.refused = None,
            Err(OpenError::OtherModel { .. }) => self.refused = Some(pointer),
            Err(error) => {
                let before = before.filter(|before| before.pointer == pointer);
                let pause = before.map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
                self.failed = Some(Failed { pointer, error: error.clone(), pause, again_at: now + pause });
            }
        }
        taken
    }

    /// Reads what `pointer` names: the end of the log, or a version that is not in memory.
    fn read(&mut self, pointer: &Pointer) -> Result<bool, OpenError> {
        self.opened.begin_log(&self.dir, pointer)?;
        if *pointer == self.opened.pointer && !self.opened.is_broken {
            let Opened { log: Some(log), state, is_broken, .. } = &mut self.opened else { return Ok(false) };
            // Until it is read to its end: a failure in the middle leaves a part of what is new in the state.
            *is_broken = true;
            let has_changed = log.read(&mut |changes| state.apply(changes))?;
            *is_broken = false;
            if has_changed {
                self.live.set(state.snapshot());
            }
            return Ok(has_changed);
        }
        #[cfg(test)]
        {
            self.readings += 1;
        }
        let served = self.opened.state.base();
        let opened = newest(&self.dir, |version| {
            version.check_model(&self.dir, served)?;
            // Searches go on in the version before meanwhile.
            Opened::read(version, LoadedIndex::read)
        })?;
        self.live.arrivals.tell(opened.state.base());
        self.live.set(opened.state.snapshot());
        self.opened = opened;
        Ok(true)
    }
}

impl Opened {
    fn read(version: Version<'_>, read: Read) -> Result<Self, OpenError> {
        let mut log = version.open_log()?;
        let pointer = version.pointer();
        let mut state = State::new(Arc::new(read(version)?));
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

#[cfg(test)]
mod tests {
    use super::super::testing::{build, new};
    use super::*;
    use crate::{FileError, IndexReader, IndexWriter, VectorIndex as _};
    use fs_err as fs;

    /// Looks once a second for an hour, and returns the number of versions that were read.
    fn follow_for_an_hour(reader: &IndexReader, start: Instant) -> usize {
        let mut following = reader.following.lock().unwrap();
        let before = following.readings;
        for second in 0..3600 {
            let error = following.refresh(start + Duration::from_secs(second)).unwrap_err();
            assert!(
                matches!(error, OpenError::File(FileError::Corrupt { .. } | FileError::Checksum { .. })),
                "{error}"
            );
        }
        following.readings - before
    }

    #[test]
    fn a_damaged_log_is_not_read_again_every_second_and_is_taken_in_once_it_is_whole() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        let reader = IndexReader::open(root.path()).unwrap();
        assert_eq!(reader.live().health().stale_for, None);
        writer.put(vec![new("a", 1), new("b", 2)]).unwrap();
        let log = root.path().join("updates-1.log");
        let whole = fs::read(&log).unwrap();
        let mut damaged = whole.clone();
        damaged[1600] ^= 1;
        fs::write(&log, damaged).unwrap();

        let start = Instant::now();
        let readings = follow_for_an_hour(&reader, start);
        assert!((5..=25).contains(&readings), "{readings} readings");
        assert_eq!(reader.live().snapshot().len(), 20, "what was in use stays");
        assert!(reader.live().health().stale_for.is_some());

        fs::write(&log, whole).unwrap();
        let mut following = reader.following.lock().unwrap();
        let after = start + Duration::from_secs(3600) + LONGEST_PAUSE;
        assert!(following.refresh(after).unwrap());
        drop(following);
        let health = reader.live().health();
        assert_eq!((reader.live().snapshot().len(), health.stale_for), (22, None));
        assert_eq!(health.log_bytes, fs::metadata(&log).unwrap().len());
    }

    #[test]
    fn a_damaged_version_is_not_read_again_every_second_and_the_next_one_is_at_once() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let reader = IndexReader::open(root.path()).unwrap();
        build(root.path(), 30);
        let vectors = root.path().join("v-2/vectors.f32");
        let mut bytes = fs::read(&vectors).unwrap();
        bytes[5] ^= 1;
        fs::remove_file(&vectors).unwrap();
        fs::write(&vectors, bytes).unwrap();
        let start = Instant::now();
        let readings = follow_for_an_hour(&reader, start);
        assert!((5..=25).contains(&readings), "{readings} readings");

        build(root.path(), 40);
        let mut following = reader.following.lock().unwrap();
        assert!(following.refresh(start + Duration::from_secs(3600)).unwrap());
        drop(following);
        assert_eq!((reader.live().snapshot().len(), reader.live().health().stale_for), (40, None));
    }
}
