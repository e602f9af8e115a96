//! Items shared by backends that keep passages in a service.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpr_data::Passage;
use dpr_files::Background;
use serde::Serialize;

use super::{Backend, ServiceError};
use crate::HnswParams;

/// The options of loading passages into a service.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The parameters of the graphs; a collection or a table that is there keeps its own.
    pub hnsw: HnswParams,
    /// Batches in flight at once, not yet acknowledged.
    pub in_flight: usize,
    /// The time for which a batch is tried while the service is away, or limits the rate.
    pub patience: Duration,
    /// Set from another thread or a signal handler to give up; what was acknowledged stays.
    pub stop: Arc<AtomicBool>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            hnsw: HnswParams::default(),
            in_flight: 4,
            patience: Duration::from_secs(300),
            stop: Arc::default(),
        }
    }
}

impl LoadOptions {
    /// Ends a load that was told to stop.
    ///
    /// # Errors
    /// [`ServiceError::Interrupted`].
    pub fn check_stop(&self) -> Result<(), ServiceError> {
        if self.stop.load(Ordering::Relaxed) { Err(ServiceError::Interrupted) } else { Ok(()) }
    }
}

/// The result of loading passages into a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoadReport {
    /// Passages written.
    pub written: usize,
    /// Passages that were there as they are.
    pub unchanged: usize,
    /// Passages in the service afterwards; more than those two when it holds others.
    pub count: usize,
}

/// A passage and its vector, `[dim]`.
pub type Row<'a> = (&'a Passage, &'a [f32]);

/// Cuts rows into batches of at most `max_rows` rows and `max_bytes` bytes of texts, metadata and vectors, in order. A
/// row that is larger alone is a batch by itself.
pub fn batches<'a, 'b>(rows: &'b [Row<'a>], max_rows: usize, max_bytes: usize) -> Vec<&'b [Row<'a>]> {
    let size = |(passage, vector): &Row<'_>| passage.bytes() + size_of_val(*vector);
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, row) in rows.iter().enumerate() {
        if at > start && (bytes + size(row) > max_bytes || at - start == max_rows) {
            batches.push(&rows[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size(row);
    }
    batches.push(&rows[start..]);
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Calls [`Backend::refresh`] every so often on a thread of its own, and logs once when the service at `address` stops
/// answering and once when it answers again. The thread ends when the returned value is dropped, or the backend.
///
/// # Errors
/// An I/O error when the system starts no thread.
pub fn watch<B: Backend + 'static>(
    backend: &Arc<B>,
    address: String,
    every: Duration,
) -> io::Result<Background> {
    let (kind, backend, mut is_away) = (backend.describe().kind, Arc::downgrade(backend), false);
    Background::every(&kind, every, move |_| {
        let Some(backend) = backend.upgrade() else { return };
        match backend.refresh() {
            Ok(()) if is_away => {
                tracing::info!("{address} answers again: {} passages", backend.describe().count);
                is_away = false;
            }
            Ok(()) => {}
            Err(error) if !is_away => {
                tracing::warn!("searches fail: {error}");
                is_away = true;
            }
            Err(_) => {}
        }
    })
}
