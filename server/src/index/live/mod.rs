//! An index that changes while it is searched.
//!
//! What was built stays as it is. Passages that are added, replaced or deleted since go to a log beside it
//! ([`log`]) and, in memory, to a small [`delta`] that is searched exactly; what they replace is passed over. When the
//! changes are many, [`Updater::compact`] builds a new version of what is live and puts it in use.
//!
//! A search takes the [`Snapshot`] of the moment from a [`LiveIndex`] and never waits for a writer. One process, which
//! holds the directory's lock, writes through an [`Updater`]; others watch with a [`Follower`].

mod append;
mod change;
mod compact;
mod delta;
mod follow;
mod log;
mod next;
mod sector;
mod snapshot;
mod state;
mod update;
mod words;

use std::sync::{Arc, PoisonError, RwLock};

pub use change::NewPassage;
pub use compact::Compaction;
pub use follow::Follower;
pub use snapshot::Snapshot;
pub use update::{Put, Updater};

pub(super) use log::Log;

/// The place where the newest snapshot is found.
#[derive(Debug)]
pub struct LiveIndex(RwLock<Arc<Snapshot>>);

impl LiveIndex {
    /// An index that starts from a snapshot.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(RwLock::new(snapshot))
    }

    /// The index as it is now, with every change that was acknowledged.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        // The lock is held for as long as a pointer takes to copy, never while something is written or read.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, snapshot: Arc<Snapshot>) {
        let before =
            std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), snapshot);
        // The last owner of a version frees gigabytes: not while searches wait.
        drop(before);
    }
}
