//! Threads that keep something up to date until their owner lets them go.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// A thread that repeats a task until this is dropped or [stopped](Background::stop).
///
/// Neither waits for the task: one that is running sees its `stop` flag set and ends when it looks at it.
pub struct Background {
    stop: Arc<AtomicBool>,
    // Dropped to wake the thread from its pause.
    wake: Option<SyncSender<()>>,
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
        let (wake, woken) = sync_channel::<()>(0);
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while woken.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                task(&stopped);
            }
        })?;
        Ok(Self { stop, wake: Some(wake) })
    }

    /// Tells the thread to end. Returns at once; the task may run until it looks at its flag.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake = None;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("stop", &self.stop).finish_non_exhaustive()
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
        drop(background);
        // The task is dropped with its thread, and with it the sending end.
        while heard.recv_timeout(Duration::from_secs(10)).is_ok() {}
        assert!(heard.recv().is_err());
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
