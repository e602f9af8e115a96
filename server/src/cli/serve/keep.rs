//! The index while it is served: watched, or changed and built anew, by a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cli::CliError;
use crate::cli::place::{IndexPlace, milvus_token};
use crate::http::PassageSearch;
use crate::index::milvus::MilvusIndex;
use crate::index::{Compaction, Follower, IndexError, LiveIndex, Updater};
use crate::progress::Silent;
use crate::update::PassageStore;

/// How often the directory is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time between two compactions that fail.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Threads that build a new version while searches go on: a share of the processors.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(4)
}

/// How often a cluster is asked how many passages it holds.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// An index that is kept as its directory is.
#[derive(Debug)]
pub(super) enum Kept {
    /// Others change it.
    Followed(Box<Follower>),
    /// This server does.
    Changed(Arc<Updater>),
    /// A collection of a cluster, which this server may change or not, as others may.
    Cluster { index: Arc<MilvusIndex>, to_change: bool },
}

/// The thread that keeps it.
#[derive(Debug)]
pub(super) struct Keeping {
    stop: Arc<AtomicBool>,
}

impl Kept {
    /// Opens an index, with the right to change it or without.
    pub(super) fn open(place: &IndexPlace, to_change: bool) -> Result<Self, CliError> {
        let dir = match place {
            IndexPlace::Dir(dir) => dir,
            IndexPlace::Milvus(address) => {
                let index = Arc::new(MilvusIndex::open(address, milvus_token()?.as_deref())?);
                return Ok(Self::Cluster { index, to_change });
            }
        };
        Ok(match to_change {
            true => Self::Changed(Arc::new(Updater::open(dir, "a server (dpr serve --allow-updates)")?)),
            false => Self::Followed(Box::new(Follower::open(dir)?)),
        })
    }

    /// What searches ask.
    pub(super) fn search(&self) -> Arc<dyn PassageSearch> {
        match self {
            Self::Followed(follower) => Arc::<LiveIndex>::clone(follower.live()),
            Self::Changed(updater) => Arc::<LiveIndex>::clone(updater.live()),
            Self::Cluster { index, .. } => Arc::<MilvusIndex>::clone(index),
        }
    }

    /// The index of a directory, which may hold words.
    pub(super) fn live(&self) -> Option<&Arc<LiveIndex>> {
        match self {
            Self::Followed(follower) => Some(follower.live()),
            Self::Changed(updater) => Some(updater.live()),
            Self::Cluster { .. } => None,
        }
    }

    /// The right to change it.
    pub(super) fn store(&self) -> Option<Arc<dyn PassageStore>> {
        match self {
            Self::Changed(updater) => Some(Arc::<Updater>::clone(updater)),
            Self::Cluster { index, to_change: true } => Some(Arc::<MilvusIndex>::clone(index)),
            Self::Followed(_) | Self::Cluster { .. } => None,
        }
    }

    /// Takes in what others write, or builds new versions when they are due, until it is stopped.
    pub(super) fn keep(self, when: Compaction) -> Result<Keeping, CliError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new().name("index".into()).spawn(move || match self {
            Self::Followed(follower) => follow(*follower, &stopped),
            Self::Changed(updater) => compact(&updater, when, &stopped),
            Self::Cluster { index, .. } => count(&index, &stopped),
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

fn count(index: &MilvusIndex, stop: &AtomicBool) {
    let (mut is_away, mut counted) = (false, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        if counted.elapsed() < COUNT_EVERY {
            continue;
        }
        match index.refresh() {
            Ok(count) if is_away => {
                tracing::info!("{} answers again: {count} passages", index.address());
                is_away = false;
            }
            Ok(_) => {}
            // Once, not every ten seconds.
            Err(error) if !is_away => {
                tracing::warn!("searches fail: {error}");
                is_away = true;
            }
            Err(_) => {}
        }
        counted = Instant::now();
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
