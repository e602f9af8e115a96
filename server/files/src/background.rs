//! Threads that keep something up to date until their owner lets them go.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::lock;

/// A thread that repeats a task until this is dropped or [stopped](Background::stop).
///
/// Neither waits for the task: one that is running sees its `stop` flag set and ends when it looks at it, which
/// [`BackgroundState::wait_for_end`] waits for. A task that panics is counted and repeated after the next pause; one
/// that panics three times in a row is told to be dead.
pub struct Background {
    stop: Arc<AtomicBool>,
    state: Arc<BackgroundState>,
    // Dropped to wake the thread from its pause.
    wake: Option<SyncSender<()>>,
}

/// The state of a [`Background`] thread, for whoever watches it.
#[derive(Debug, Default)]
pub struct BackgroundState {
    ended_by_itself: AtomicBool,
    panics: AtomicU64,
    /// Panics since a run that ended well.
    in_a_row: AtomicU64,
    has_ended: Mutex<bool>,
    end: Condvar,
}

/// Runs that panic one after the other, after which a task counts as dead: it does nothing any more.
const DEAD: u64 = 3;

impl BackgroundState {
    /// Returns `true` unless the thread ended without being told to, or its last three runs panicked.
    pub fn is_alive(&self) -> bool {
        !self.ended_by_itself.load(Ordering::Relaxed) && self.in_a_row.load(Ordering::Relaxed) < DEAD
    }

    /// Returns the number of times that the task panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Waits for the end of the thread, no longer than `at_most`, and returns `true` if it has ended: its task, and
    /// what that held, is gone.
    pub fn wait_for_end(&self, at_most: Duration) -> bool {
        let waited = self.end.wait_timeout_while(lock(&self.has_ended), at_most, |has_ended| !*has_ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Background {
    /// Starts a thread called `name` that runs `task` every `pause`, the first time after one pause. `task` gets the
    /// flag that is set when it should end.
    ///
    /// # Errors
    /// An I/O error when the system starts no thread.
    pub fn every(
        name: &str,
        pause: Duration,
        mut task: impl FnMut(&Arc<AtomicBool>) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let state = Arc::<BackgroundState>::default();
        let (wake, woken) = sync_channel::<()>(0);
        let end = End { stop: Arc::clone(&stop), state: Arc::clone(&state) };
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while woken.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // The task's own locks are poisoned by a panic, which is how it learns that its state may be torn.
                if catch_unwind(AssertUnwindSafe(|| task(&end.stop))).is_err() {
                    end.state.panics.fetch_add(1, Ordering::Relaxed);
                    end.state.in_a_row.fetch_add(1, Ordering::Relaxed);
                } else {
                    end.state.in_a_row.store(0, Ordering::Relaxed);
                }
            }
            // Before the end is told of: what the task holds is gone by then.
            drop(task);
            drop(end);
        })?;
        Ok(Self { stop, state, wake: Some(wake) })
    }

    /// Tells the thread to end. Returns at once; the task may run until it looks at its flag.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake = None;
    }

    /// Returns the state of the thread, which may be kept for longer than this.
    pub fn state(&self) -> &Arc<BackgroundState> {
        &self.state
    }
}

/// Dropped at the end of the thread, however it ends.
struct End {
    stop: Arc<AtomicBool>,
    state: Arc<BackgroundState>,
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.stop.load(Ordering::Relaxed) {
            self.state.ended_by_itself.store(true, Ordering::Relaxed);
        }
        *lock(&self.state.has_ended) = true;
        self.state.end.notify_all();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("stop", &self.stop)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_task_is_repeated_until_its_owner_is_dropped() {
        let (told, heard) = channel();
        let task = move |stop: &Arc<AtomicBool>| {
            let _ = told.send(stop.load(Ordering::Relaxed));
        };
        let background = Background::every("test", Duration::from_millis(1), task).unwrap();
        assert!(!heard.recv().unwrap());
        heard.recv().unwrap();
        let state = Arc::clone(background.state());
        drop(background);
        // The task is dropped with its thread, and with it the sending end.
        while heard.recv_timeout(Duration::from_secs(10)).is_ok() {}
        assert!(heard.recv().is_err());
        assert!(state.is_alive(), "it ended because it was told to");
    }

    #[test]
    fn the_end_of_a_task_that_was_told_to_stop_can_be_waited_for() {
        let (begun, has_begun) = channel();
        let (let_go, held) = channel::<()>();
        let background = Background::every("test", Duration::from_millis(1), move |stop| {
            let _ = begun.send(());
            // A step that is not cut short, and then a look at the flag.
            let _ = held.recv();
            assert!(stop.load(Ordering::Relaxed));
        })
        .unwrap();
        has_begun.recv_timeout(Duration::from_secs(10)).unwrap();
        let state = Arc::clone(background.state());
        drop(background);
        assert!(!state.wait_for_end(Duration::ZERO));
        let_go.send(()).unwrap();
        assert!(state.wait_for_end(Duration::from_secs(10)));
        assert_eq!((state.is_alive(), state.panics()), (true, 0));
        assert!(let_go.send(()).is_err(), "the task is gone");
    }

    #[test]
    fn a_task_that_panics_is_counted_and_repeated() {
        let (told, heard) = channel();
        let mut round = 0;
        let background = Background::every("test", Duration::from_millis(1), move |_| {
            round += 1;
            if round <= 2 {
                panic!("a panic on purpose");
            }
            let _ = told.send(round);
        })
        .unwrap();
        assert_eq!(heard.recv_timeout(Duration::from_secs(10)), Ok(3));
        assert_eq!((background.state().panics(), background.state().is_alive()), (2, true));
    }

    #[test]
    fn a_task_that_panics_each_time_is_told_to_be_dead_until_it_ends_well() {
        let (told, heard) = channel();
        // It ends well from then on: a single good run between two that panic could go unseen.
        let is_healed = Arc::new(AtomicBool::new(false));
        let heal = Arc::clone(&is_healed);
        let background = Background::every("test", Duration::from_millis(1), move |_| {
            let _ = told.send(());
            assert!(is_healed.load(Ordering::Relaxed), "a panic on purpose");
        })
        .unwrap();
        let state = Arc::clone(background.state());
        let until = |alive: bool| {
            while state.is_alive() != alive {
                heard.recv_timeout(Duration::from_secs(10)).expect("the task is repeated");
            }
        };
        until(false);
        assert!(state.panics() >= 3);
        heal.store(true, Ordering::Relaxed);
        until(true);
    }

    #[test]
    fn a_long_pause_ends_when_the_owner_is_dropped() {
        let (told, heard) = channel::<()>();
        let background = Background::every("test", Duration::from_secs(3600), move |_| {
            let _ = told.send(());
        })
        .unwrap();
        drop(background);
        assert!(heard.recv_timeout(Duration::from_secs(10)).is_err(), "it ran before its pause was over");
    }
}
