//! Work queue of the encoding pipeline, with back-pressure: only a few parts are open at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use dpr_files::lock;

use super::batches::{Batch, plan};
use super::error::EncodingError;

/// Rows tokenised in one go: small enough that all workers share even the first part.
const CHUNK: usize = 64;

/// A part that is being encoded.
pub(super) struct Part {
    /// The rows of the part in the corpus.
    pub(super) range: Range<usize>,
    inner: Mutex<PartState>,
}

#[derive(Default)]
struct PartState {
    tokens: Vec<Vec<u32>>,
    untokenised: usize,
    vectors: Vec<f32>,
    unfinished: usize,
}

/// A unit of work.
pub(super) enum Work {
    /// Tokenise these rows of the corpus.
    Tokenise(Arc<Part>, Range<usize>),
    /// Compute a batch.
    Forward(Arc<Part>, Batch),
}

/// The work queue of one run, shared by its workers.
pub(super) struct Queue<'a> {
    batch_tokens: usize,
    /// With fewer waiting batches than this the next part is tokenised first.
    low_water: usize,
    /// Parts in memory at once.
    max_open: usize,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

struct State<'a> {
    unopened: &'a [Range<usize>],
    open: usize,
    chunks: VecDeque<(Arc<Part>, Range<usize>)>,
    batches: VecDeque<(Arc<Part>, Batch)>,
    stopped: bool,
    error: Option<EncodingError>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(parts: &'a [Range<usize>], batch_tokens: usize, workers: usize) -> Self {
        let state = State {
            unopened: parts,
            open: 0,
            chunks: VecDeque::new(),
            batches: VecDeque::new(),
            stopped: false,
            error: None,
        };
        Self {
            batch_tokens,
            low_water: workers * 2,
            // One being computed, one being tokenised; more only where one has not enough batches for all.
            max_open: 2 + workers / 16,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Returns the next unit of work, or `None` when everything is done or the run is stopped. Waits while all that
    /// is left depends on the work of others. Only workers with `may_forward` are given batches.
    pub(super) fn take(&self, may_forward: bool) -> Option<Work> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped || (state.open == 0 && state.unopened.is_empty()) {
                return None;
            }
            if may_forward && state.batches.len() >= self.low_water {
                return state.forward();
            }
            if state.chunks.is_empty() && state.open < self.max_open {
                state.open_next();
            }
            if let Some((part, rows)) = state.chunks.pop_front() {
                return Some(Work::Tokenise(part, rows));
            }
            if may_forward && !state.batches.is_empty() {
                return state.forward();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stores the tokens of `rows`; after the part's last chunk its batches are made.
    pub(super) fn tokenised(&self, part: &Arc<Part>, rows: &Range<usize>, tokens: Vec<Vec<u32>>) {
        let mut inner = lock(&part.inner);
        for (row, ids) in rows.clone().zip(tokens) {
            inner.tokens[row - part.range.start] = ids;
        }
        inner.untokenised -= 1;
        if inner.untokenised > 0 {
            return;
        }
        let batches = plan(std::mem::take(&mut inner.tokens), self.batch_tokens);
        inner.unfinished = batches.len();
        drop(inner);
        lock(&self.state).batches.extend(batches.into_iter().map(|batch| (Arc::clone(part), batch)));
        self.changed.notify_all();
    }

    /// Stores a batch's `vectors`, row-major `[batch, dim]`. After the part's last batch it returns the part's
    /// vectors `[part, dim]` in corpus order; the caller hands them on and then calls [`Queue::closed`].
    pub(super) fn computed(
        &self,
        part: &Part,
        batch: &Batch,
        vectors: &[f32],
        dim: usize,
    ) -> Option<Vec<f32>> {
        let mut inner = lock(&part.inner);
        inner.vectors.resize(part.range.len() * dim, 0.0);
        for (place, vector) in batch.places.iter().zip(vectors.chunks_exact(dim)) {
            inner.vectors[place * dim..(place + 1) * dim].copy_from_slice(vector);
        }
        inner.unfinished -= 1;
        (inner.unfinished == 0).then(|| std::mem::take(&mut inner.vectors))
    }

    /// Closes a part, which makes room for another.
    pub(super) fn closed(&self) {
        lock(&self.state).open -= 1;
        self.changed.notify_all();
    }

    /// Ends the run: workers get no more work. The first error is kept.
    pub(super) fn stop(&self, error: Option<EncodingError>) {
        let mut state = lock(&self.state);
        state.stopped = true;
        if state.error.is_none() {
            state.error = error;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns whether the run was ended early, and the error that ended it.
    pub(super) fn into_outcome(self) -> (bool, Option<EncodingError>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.stopped, state.error)
    }
}

impl State<'_> {
    fn forward(&mut self) -> Option<Work> {
        self.batches.pop_front().map(|(part, batch)| Work::Forward(part, batch))
    }

    fn open_next(&mut self) {
        let Some((range, rest)) = self.unopened.split_first() else { return };
        self.unopened = rest;
        self.open += 1;
        let chunks: Vec<_> =
            range.clone().step_by(CHUNK).map(|from| from..(from + CHUNK).min(range.end)).collect();
        let inner = PartState {
            tokens: vec![Vec::new(); range.len()],
            untokenised: chunks.len(),
            ..PartState::default()
        };
        let part = Arc::new(Part { range: range.clone(), inner: Mutex::new(inner) });
        self.chunks.extend(chunks.into_iter().map(|chunk| (Arc::clone(&part), chunk)));
    }
}
