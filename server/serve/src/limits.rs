//! Limits on what one request, and all of them together, may ask of the server.

use std::time::Duration;

/// The bounds of the HTTP interface. Every one is an option of `dpr serve`.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Passages a search returns when the body has no `k`.
    pub default_k: usize,
    /// The largest `k`.
    pub max_k: usize,
    /// Vectors one batch may hold.
    pub max_batch: usize,
    /// Bytes of a request body.
    pub max_body: usize,
    /// Bytes of bodies that all requests may hold together, read or waiting; at least `max_body`.
    pub max_bodies: usize,
    /// Bytes of a search's answer, uncompressed.
    pub max_answer: usize,
    /// Bytes of answers, as they are sent, that all clients together may not have read yet; at least `max_answer`.
    pub max_answers: usize,
    /// Passages that one update may add.
    pub max_passages: usize,
    /// Ids that one update may delete.
    pub max_ids: usize,
    /// Searches that run at once; each takes a thread.
    pub concurrency: usize,
    /// Searches that wait for a thread; the next one is told 429 at once.
    pub queue: usize,
    /// From the first byte of a search request to its answer.
    pub timeout: Duration,
}

impl Limits {
    /// Passages one response may hold, over all vectors of a batch: ten single searches at their limit.
    pub fn max_hits(&self) -> usize {
        self.max_k.saturating_mul(10)
    }

    /// Returns the default of `max_answers`: four answers of `max_answer` bytes.
    pub fn answers(max_answer: usize) -> usize {
        max_answer.saturating_mul(4)
    }

    /// Returns the default of `max_bodies`: 64 bodies of `max_body` bytes.
    pub fn bodies(max_body: usize) -> usize {
        max_body.saturating_mul(64)
    }
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            default_k: 10,
            max_k: 1000,
            max_batch: 64,
            // 64 vectors of 768 numbers as JavaScript prints them come to 1.1 MB.
            max_body: 2 << 20,
            max_bodies: Self::bodies(2 << 20),
            max_answer: 64 << 20,
            max_answers: Self::answers(64 << 20),
            max_passages: 1000,
            max_ids: 10_000,
            concurrency: threads,
            queue: 16 * threads,
            timeout: Duration::from_secs(10),
        }
    }
}
