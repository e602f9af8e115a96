//! Context of long work: the flag that stops it and the progress that it reports.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::progress::Progress;

/// The flag that stops a piece of long work, and the receiver of its progress reports.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Set by the caller to stop the work early.
    pub stop: &'a AtomicBool,
    /// Receives the progress of the work.
    pub progress: &'a dyn Progress,
}

impl Job<'_> {
    /// Returns whether the work is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
