//! The marker of a compaction that has begun: a file that stays where a process is killed in the middle of one.
//!
//! Its one line is the number of compactions in a row that began and did not end, a space, and the seconds since 1970
//! at which the last one began. A compaction that is killed for the memory it takes would otherwise begin again with
//! the next process, and the next.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fs_err as fs;

use crate::FileError;
use crate::directory::pointer::COMPACTING;
use dpr_files::{atomic, plain};

/// The pause after the first compaction that failed or was killed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// The most bytes of a marker that are read.
const MOST: u64 = 512;

/// Returns the pause after so many failures in a row.
pub(super) fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doubled) => FIRST_PAUSE.saturating_mul(1 << doubled.min(20)).min(LONGEST_PAUSE),
    }
}

/// A compaction under way; dropping it removes the marker.
#[derive(Debug)]
pub(super) struct Marker {
    path: PathBuf,
}

/// Compactions that were killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Killed {
    times: u32,
    begun: SystemTime,
}

impl Marker {
    /// Marks the beginning of a compaction of the index in `dir`.
    pub(super) fn begin(dir: &Path, now: SystemTime) -> Result<Self, FileError> {
        let times = read(dir).map_or(0, |killed| killed.times).saturating_add(1);
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let path = dir.join(COMPACTING);
        atomic::write_file(&path, |out| writeln!(out, "{times} {seconds}")).map_err(FileError::write)?;
        Ok(Self { path })
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(
                "the marker of a compaction stays, and the next automatic one waits without need: {error}"
            );
        }
    }
}

/// Returns the time that an automatic compaction has to wait for, because others were killed.
pub(super) fn wait(dir: &Path, now: SystemTime) -> Option<Duration> {
    let killed = read(dir)?;
    // A clock that was set back must not add to the pause.
    let since = now.duration_since(killed.begun).unwrap_or_default();
    pause(killed.times).checked_sub(since).filter(|wait| !wait.is_zero())
}

/// Reads the marker; `None` when there is none, or nothing can be made of it.
fn read(dir: &Path) -> Option<Killed> {
    let text = plain::read_text(&dir.join(COMPACTING), MOST).ok()?;
    let (times, seconds) = text.trim_end().split_once(' ')?;
    let begun = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
    Some(Killed { times: times.parse().ok()?, begun })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_compaction_that_ends_leaves_no_marker_and_none_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        assert_eq!(wait(dir.path(), now), None);
        drop(Marker::begin(dir.path(), now).unwrap());
        assert_eq!(wait(dir.path(), now), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn after_kills_the_next_one_waits_twice_as_long_each_time_up_to_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for minutes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440] {
            std::mem::forget(Marker::begin(dir.path(), now).unwrap());
            assert_eq!(wait(dir.path(), now), Some(minutes * MINUTE));
            assert_eq!(wait(dir.path(), now + minutes * MINUTE - MINUTE / 2), Some(MINUTE / 2));
            assert_eq!(wait(dir.path(), now + minutes * MINUTE), None);
            assert_eq!(
                wait(dir.path(), now - 5 * MINUTE),
                Some(minutes * MINUTE),
                "a clock that was set back"
            );
        }
        drop(Marker::begin(dir.path(), now).unwrap());
        assert_eq!(wait(dir.path(), now), None, "one that ended");
    }

    #[test]
    fn a_marker_of_anything_else_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "1", "x 5\n", "1 x\n", "-1 5\n", "1 18446744073709551615\n", "99999999999 5\n"] {
            fs::write(dir.path().join(COMPACTING), text).unwrap();
            assert_eq!(wait(dir.path(), SystemTime::now()), None, "{text:?}");
        }
    }
}
