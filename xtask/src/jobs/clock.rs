//! The clock of a task, and how times are printed.

use std::time::{Duration, Instant};

/// Tells the time since the task began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    /// Returns the time at which it began.
    pub(crate) fn start(self) -> Instant {
        self.0
    }

    /// Prints a line with the time in front.
    pub(crate) fn line(self, text: &str) {
        println!("[{:>5}] {text}", minutes(self.0.elapsed()));
    }
}

/// `3:12`.
pub(crate) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
