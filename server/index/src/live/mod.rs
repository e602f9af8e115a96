//! An index that changes while it is searched.
//!
//! The version that was built stays as it is. Passages that are added, replaced or deleted since go to a write-ahead
//! log beside it ([`wal`](crate::wal)) and, in memory, to a small [`delta`] (a memtable) that is searched exactly; what
//! they replace is hidden by tombstones. When the changes are many, compaction ([`IndexWriter::compact`]) builds a new
//! version of what is live and puts it in use.
//!
//! A search takes the [`Snapshot`] of the moment from a [`LiveIndex`] and never waits for a writer. One process, which
//! holds the directory's lock, writes through an [`IndexWriter`]; others follow with an [`IndexReader`].

mod catch_up;
mod commit;
mod compact;
mod delta;
mod follow;
mod health;
mod marker;
mod policy;
mod preparation;
mod reader;
mod snapshot;
mod state;
#[cfg(test)]
mod testing;
mod words;
mod writer;

use std::sync::{Arc, RwLock};

use dpr_files::{BackgroundState, read_lock, write_lock};

use crate::{LoadedIndex, VectorIndex as _};

pub use crate::wal::record::NewPassage;
pub use commit::Put;
pub use health::Health;
pub use policy::{CompactionPolicy, DeltaLimit};
pub use preparation::PreparationError;
pub use reader::IndexReader;
pub use snapshot::Snapshot;
pub use writer::IndexWriter;

/// The place where the newest snapshot is found, and the health of the index.
#[derive(Debug)]
pub struct LiveIndex {
    newest: RwLock<Arc<Snapshot>>,
    health: health::HealthRecord,
    arrivals: preparation::Arrivals,
}

impl LiveIndex {
    /// Starts from a snapshot.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            newest: RwLock::new(snapshot),
            health: health::HealthRecord::default(),
            arrivals: preparation::Arrivals::default(),
        }
    }

    /// Sets a callback for each version that takes the place of the one in use, just before it does: files that belong
    /// to the version can be opened in time. The version waits for the callback; searches and updates go on meanwhile.
    /// There is one callback: returns `false`, and changes nothing, where there is one already.
    pub fn on_version(&self, arrive: impl Fn(&LoadedIndex) + Send + Sync + 'static) -> bool {
        self.arrivals.set(arrive)
    }

    /// Returns the index as it is now, with every change that was acknowledged.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        // The lock is held for as long as a pointer takes to copy, never while something is written or read.
        Arc::clone(&read_lock(&self.newest))
    }

    /// Returns the health of the index, as its reader or its writer knows it.
    pub fn health(&self) -> Health {
        let damaged = self.snapshot().base().damage().map(|error| error.to_string());
        Health { damaged, ..self.health.now() }
    }

    /// Returns the state of the thread that follows or compacts the index, if one was started.
    pub fn background(&self) -> Option<Arc<BackgroundState>> {
        self.health.background()
    }

    /// Logs which version is in use.
    fn log_version(&self) {
        let snapshot = self.snapshot();
        let (number, count, changes) = (snapshot.base().number(), snapshot.len(), snapshot.changes());
        tracing::info!("the index in use: v-{number} and {changes} changes, {count} passages");
    }

    fn set(&self, snapshot: Arc<Snapshot>) {
        let before = std::mem::replace(&mut *write_lock(&self.newest), snapshot);
        // The last owner of a version frees gigabytes: not while searches wait.
        drop(before);
    }
}
