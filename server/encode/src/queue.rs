//! What there is to do, and who does it next.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::batches::{Batch, plan};
use super::error::EncodingError;

/// Rows tokenised in one go: small enough that all workers share even the first part.
const CHUNK: usize = 64;

/// A part under way.
pub(super) struct Part {
    /// Its rows in the corpus.
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

/// One thing to do.
pub(super) enum Work {
    /// Tokenise these rows of the corpus.
    Tokenise(Arc<Part>, Range<usize>),
    /// Compute a batch.
    Forward(Arc<Part>, Batch),
}

/// The work of one run; shared by its workers.
pub(super) struct Queue<'a> {
    batch_tokens: usize,
    /// Fewer waiting batches than this, and the next part is tokenised first.
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

    /// The next thing to do, waited for when all there is depends on what others are doing; `None` when
    /// everything is done or stopped. Only workers with `may_forward` are given batches.
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

    /// Takes the tokens of `rows`; the part's last chunk makes its batches.
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

    /// Takes a batch's `vectors`, row-major `[batch, dim]`; the part's last batch gives back the part's vectors
    /// `[part, dim]` in corpus order, to be handed on and then [`Queue::closed`].
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

    /// A part is done and room for another.
    pub(super) fn closed(&self) {
        lock(&self.state).open -= 1;
        self.changed.notify_all();
    }

    /// Ends the run: workers get no more work. The first error given is kept.
    pub(super) fn stop(&self, error: Option<EncodingError>) {
        let mut state = lock(&self.state);
        state.stopped = true;
        if state.error.is_none() {
            state.error = error;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the run was ended early, and by what error.
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

/// A worker that panics stops the run (see the pipeline), so what it left half-done is never used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
