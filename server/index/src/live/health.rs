//! The health of an index in use: what an operator must know and no search shows.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use dpr_files::{BackgroundState, lock};

/// The health of an index in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The reason why the write-ahead log takes no more updates, if it takes none: they are refused until a new version
    /// is built, which has a log of its own, or the index is opened again. After an update that panicked no version is
    /// built, and only opening the index again helps.
    pub log_broken: Option<String>,
    /// The time since a follower last served what the directory holds, if it knows that it serves something older: a
    /// new version or the log cannot be read, or belongs to another model.
    pub stale_for: Option<Duration>,
    /// The time for which the service that holds the passages has not answered, if it did not when it was asked last.
    pub away_for: Option<Duration>,
    /// The damaged file of the index and what is wrong with it, if one was found since the index was opened: searches
    /// fail until a copy is in its place and the index is opened again.
    pub damaged: Option<String>,
    /// Compactions that failed since the index was opened.
    pub compaction_failures: u64,
    /// Bytes of the write-ahead log.
    pub log_bytes: u64,
    /// `false` if the thread that follows, compacts or counts the index has ended by itself, or fails each time.
    pub background_alive: bool,
}

impl Default for Health {
    /// An index of which nothing bad is known.
    fn default() -> Self {
        Self {
            log_broken: None,
            stale_for: None,
            away_for: None,
            damaged: None,
            compaction_failures: 0,
            log_bytes: 0,
            background_alive: true,
        }
    }
}

/// The health of an index as its reader or its writer records it.
#[derive(Debug, Default)]
pub(super) struct HealthRecord(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    log_broken: Option<String>,
    stale_since: Option<Instant>,
    compaction_failures: u64,
    log_bytes: u64,
    background: Option<Arc<BackgroundState>>,
}

impl HealthRecord {
    fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.0)
    }

    /// Records the reason why the log takes no more updates, or that it takes them.
    pub(super) fn set_log_broken(&self, reason: Option<String>) {
        self.record().log_broken = reason;
    }

    /// Records since when the index served is older than the one in the directory, or that it is not.
    pub(super) fn set_stale_since(&self, since: Option<Instant>) {
        self.record().stale_since = since;
    }

    /// Records the size of the log.
    pub(super) fn set_log_bytes(&self, bytes: u64) {
        self.record().log_bytes = bytes;
    }

    /// Counts a compaction that failed.
    pub(super) fn compaction_failed(&self) {
        self.record().compaction_failures += 1;
    }

    /// Records the thread that follows or compacts the index.
    pub(super) fn set_background(&self, background: &Arc<BackgroundState>) {
        self.record().background = Some(Arc::clone(background));
    }

    /// Returns the thread that follows or compacts the index.
    pub(super) fn background(&self) -> Option<Arc<BackgroundState>> {
        self.record().background.clone()
    }

    /// Returns the health at this moment.
    pub(super) fn now(&self) -> Health {
        let record = self.record();
        Health {
            log_broken: record.log_broken.clone(),
            stale_for: record.stale_since.map(|since| since.elapsed()),
            away_for: None,
            damaged: None,
            compaction_failures: record.compaction_failures,
            log_bytes: record.log_bytes,
            background_alive: record.background.as_ref().is_none_or(|state| state.is_alive()),
        }
    }
}
