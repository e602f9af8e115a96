//! The index while it is served: watched, or changed and built anew, by a thread of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cli::CliError;
use crate::index::{Compaction, Follower, IndexError, LiveIndex, Updater};
use crate::progress::Silent;

/// How often the directory is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time between two compactions that fail.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Threads that build a new version while searches go on: a share of the processors.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(4)
}

/// An index that is kept as its directory is.
#[derive(Debug)]
pub(super) enum Kept {
    /// Others change it.
    Followed(Box<Follower>),
    /// This server does.
    Changed(Arc<Updater>),
}

/// The thread that keeps it.
#[derive(Debug)]
pub(super) struct Keeping {
    stop: Arc<AtomicBool>,
}

impl Kept {
    /// Opens the index in `dir`, with the right to change it or without.
    pub(super) fn open(dir: &Path, to_change: bool) -> Result<Self, IndexError> {
        Ok(match to_change {
            true => Self::Changed(Arc::new(Updater::open(dir, "a server (dpr serve --allow-updates)")?)),
            false => Self::Followed(Box::new(Follower::open(dir)?)),
        })
    }

    /// Where searches find the index.
    pub(super) fn live(&self) -> &Arc<LiveIndex> {
        match self {
            Self::Followed(follower) => follower.live(),
            Self::Changed(updater) => updater.live(),
        }
    }

    /// The right to change it.
    pub(super) fn updater(&self) -> Option<Arc<Updater>> {
        match self {
            Self::Followed(_) => None,
            Self::Changed(updater) => Some(Arc::clone(updater)),
        }
    }

    /// Takes in what others write, or builds new versions when they are due, until it is stopped.
    pub(super) fn keep(self, when: Compaction) -> Result<Keeping, CliError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new().name("index".into()).spawn(move || match self {
            Self::Followed(follower) => follow(*follower, &stopped),
            Self::Changed(updater) => compact(&updater, when, &stopped),
        })?;
        Ok(Keeping { stop })
    }
}

impl Keeping {
    /// Ends it soon. What it is building is given up, and what is in use stays.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn follow(mut follower: Follower, stop: &AtomicBool) {
    let mut told = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        match follower.refresh() {
            Ok(changed) => {
                if changed {
                    say(follower.live());
                }
                told = None;
            }
            Err(error) => {
                // Once, not every second.
                let text = error.to_string();
                if told.as_ref() != Some(&text) {
                    tracing::warn!("the index that is served stays as it was: {text}");
                }
                told = Some(text);
            }
        }
    }
}

fn compact(updater: &Updater, when: Compaction, stop: &Arc<AtomicBool>) {
    let mut failed: Option<Instant> = None;
    // A pool of its own: work of searches must not wait behind that of a build.
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(threads()).build() {
        Ok(pool) => pool,
        Err(error) => return tracing::error!("no new version will be built of updates: {error}"),
    };
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        let waits = failed.is_some_and(|at| at.elapsed() < AGAIN_AFTER);
        if waits || !when.is_due(&updater.live().snapshot()) {
            continue;
        }
        tracing::info!("building a new version of the index out of its updates");
        match pool.install(|| updater.compact(threads(), stop, &Silent)) {
            Ok(_) => {
                failed = None;
                say(updater.live());
            }
            Err(IndexError::Interrupted) => {}
            Err(error) => {
                tracing::error!("the updates stay in the log, no new version was built: {error}");
                failed = Some(Instant::now());
            }
        }
    }
}

/// Says what is in use now.
fn say(live: &LiveIndex) {
    use crate::index::VectorIndex as _;
    let snapshot = live.snapshot();
    let (number, count, changes) = (snapshot.base().number(), snapshot.len(), snapshot.changes());
    tracing::info!("the index in use: v-{number} and {changes} changes, {count} passages");
}
