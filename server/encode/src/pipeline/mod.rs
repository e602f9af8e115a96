//! Encoding pipeline: workers that turn texts into tokens and tokens into vectors, part by part.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpr_core::Embedding;

use super::error::EncodingError;
use super::queue::{Part, Queue, Work};
use super::rows::Rows;
use dpr_files::Job;
use dpr_index::vectors::VectorsError;

/// Threads and batches of a run.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOptions {
    /// Most tokens in a batch, counted as if padded to its longest row.
    pub batch_tokens: usize,
    /// Worker threads.
    pub threads: usize,
    /// The number of worker threads that compute batches; the others only tokenise ahead. One for a device that is
    /// itself parallel (a GPU), all for the CPU kernels.
    pub forward_threads: usize,
}

impl PipelineOptions {
    /// Returns the options that suit a device, whose `name` is that of [`dpr_core::TextEncoder::device_name`].
    pub fn for_device(name: &str, batch_tokens: Option<usize>, threads: Option<usize>) -> Self {
        let threads = threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
            .max(1);
        // CPU kernels are fastest while a batch's activations stay in the core's cache; a GPU wants to be full.
        let (default_tokens, forward_threads) = match name {
            "cpu" => (1024, threads),
            "flex" => (2048, 1),
            _ => (8192, 1),
        };
        Self { batch_tokens: batch_tokens.unwrap_or(default_tokens), threads, forward_threads }
    }
}

/// Function that takes a finished part: its rows, and their vectors `[part, dim]`, row-major.
pub type WritePart<'a> = dyn Fn(&Range<usize>, &[f32]) -> Result<(), VectorsError> + Sync + 'a;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Rows encoded and handed on.
    pub rows: usize,
    /// Tokens of these rows, special ones included.
    pub tokens: usize,
    /// Rows that fill the encoder's limit of tokens: they are as long as it, or longer, and text beyond the limit is not
    /// in their vectors.
    pub truncated: usize,
}

/// Encodes the rows of `parts` and hands each finished part to `write` as `[part, dim]`, row-major, in the
/// order of the rows. Parts are handed on as they end, from any worker's thread.
///
/// The run stops early when `job` is stopped; parts that were handed on are kept.
///
/// # Errors
/// The first [`EncodingError`] of any worker; [`EncodingError::Stopped`] counts the rows of `parts` only.
pub fn encode_rows(
    rows: &dyn Rows,
    parts: &[Range<usize>],
    options: PipelineOptions,
    job: Job<'_>,
    write: &WritePart<'_>,
) -> Result<Encoded, EncodingError> {
    let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
    let total = parts.iter().map(ExactSizeIterator::len).sum();
    let run = Run {
        rows,
        queue: Queue::new(&parts, options.batch_tokens.max(1), options.threads.max(1)),
        write,
        job,
        handed_on: AtomicUsize::new(0),
        tokens: AtomicUsize::new(0),
        truncated: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        for worker in 0..options.threads.max(1) {
            let (run, may_forward) = (&run, worker < options.forward_threads.max(1));
            scope.spawn(move || run.work(may_forward));
        }
    });
    let done = run.handed_on.into_inner();
    match run.queue.into_outcome() {
        (_, Some(error)) => Err(error),
        (true, None) => Err(EncodingError::Stopped { done, total }),
        (false, None) => {
            Ok(Encoded { rows: done, tokens: run.tokens.into_inner(), truncated: run.truncated.into_inner() })
        }
    }
}

struct Run<'a> {
    rows: &'a dyn Rows,
    queue: Queue<'a>,
    write: &'a WritePart<'a>,
    job: Job<'a>,
    handed_on: AtomicUsize,
    tokens: AtomicUsize,
    truncated: AtomicUsize,
}

impl Run<'_> {
    fn work(&self, may_forward: bool) {
        let _guard = StopOnPanic(&self.queue);
        while let Some(work) = self.queue.take(may_forward) {
            if self.job.is_stopped() {
                return self.queue.stop(None);
            }
            let outcome = match work {
                Work::Tokenise(part, range) => self.tokenise(&range).map(|tokens| {
                    self.queue.tokenised(&part, &range, tokens);
                }),
                Work::Forward(part, batch) => self.forward(&part, &batch),
            };
            if let Err(error) = outcome {
                return self.queue.stop(Some(error));
            }
        }
    }

    fn tokenise(&self, range: &Range<usize>) -> Result<Vec<Vec<u32>>, EncodingError> {
        range
            .clone()
            .map(|row| {
                let ids = self
                    .rows
                    .tokens(row)
                    .map_err(|source| EncodingError::Text { row: self.rows.name(row), source })?;
                self.tokens.fetch_add(ids.len(), Ordering::Relaxed);
                self.truncated.fetch_add(usize::from(ids.len() >= self.rows.max_tokens()), Ordering::Relaxed);
                Ok(ids)
            })
            .collect()
    }

    fn forward(&self, part: &Part, batch: &super::batches::Batch) -> Result<(), EncodingError> {
        let dim = self.rows.dim();
        let name = |place: usize| self.rows.name(part.range.start + place);
        let vectors = self.rows.forward(&batch.rows).map_err(|source| EncodingError::Batch {
            first: name(batch.places[0]),
            rows: batch.rows.len(),
            tokens: batch.rows.iter().map(Vec::len).max().unwrap_or_default(),
            source,
        })?;
        let mut given = vectors.chunks(dim);
        for place in &batch.places {
            Embedding::check(given.next().unwrap_or_default(), dim)
                .map_err(|source| EncodingError::Vector { row: name(*place), source })?;
        }
        if let Some(whole) = self.queue.computed(part, batch, &vectors, dim) {
            (self.write)(&part.range, &whole)?;
            self.handed_on.fetch_add(part.range.len(), Ordering::Relaxed);
            self.queue.closed();
        }
        self.job.progress.advance(batch.rows.len() as u64);
        Ok(())
    }
}

/// Stops the queue when a worker panics. Without this guard, workers that wait for the work of the panicked one would
/// wait for ever.
struct StopOnPanic<'a, 'b>(&'a Queue<'b>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(None);
        }
    }
}

#[cfg(test)]
mod tests;
