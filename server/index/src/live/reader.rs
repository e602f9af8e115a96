//! The reader of an index that another process changes.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpr_files::{Background, lock};

use super::follow::{Following, Read};
use super::{LiveIndex, Snapshot};
use crate::{LoadedIndex, OpenError};

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
    pub(super) following: Arc<Mutex<Following>>,
    _watching: Option<Background>,
}

impl IndexReader {
    /// Opens the version in use in `dir` with every update that was acknowledged.
    ///
    /// # Errors
    /// As [`LoadedIndex::open`], or the log is damaged.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        Self::open_by(dir, LoadedIndex::read)
    }

    /// Opens as [`open`](Self::open) does, but verifies checksums later: of what a search reads before it answers, of
    /// the rest on a thread. Where a checksum is wrong, searches fail from then on, and
    /// [`Health::damaged`](crate::Health::damaged) names the file.
    ///
    /// A version that was built without `vectors.crc` is checked whole, as by [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open), but for damage that is found later.
    pub fn open_unchecked(dir: &Path) -> Result<Self, OpenError> {
        Self::open_by(dir, LoadedIndex::read_unchecked)
    }

    fn open_by(dir: &Path, read: Read) -> Result<Self, OpenError> {
        let following = Following::open(dir, read)?;
        let live = Arc::clone(following.live());
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
            let mut following = lock(&following);
            match following.refresh(Instant::now()) {
                Ok(changed) => {
                    if changed {
                        following.live().log_version();
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
        self.live.health.set_background(watching.state());
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

    /// Looks for updates and for a new version, puts them in use, and returns whether there were any. Cheap when
    /// there are none: two small reads. A version or a log that could not be read is read again after a pause that
    /// doubles from two seconds to five minutes, or at once when the directory names another version.
    ///
    /// # Errors
    /// As [`IndexReader::open`], and once for each version of another model, [`OpenError::OtherModel`]. What was in use
    /// stays. Within a pause, the error before it.
    pub fn refresh(&self) -> Result<bool, OpenError> {
        lock(&self.following).refresh(Instant::now())
    }
}
