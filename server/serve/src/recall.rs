//! A sample of the searches that a graph answers, each repeated exactly, so that operators see how much is found.
//!
//! Answers never wait for it: one thread of its own repeats searches, it is handed one at a time and only where it is
//! idle, seldom, and never while searches wait. A question's vector is held until its search has been repeated, and
//! nowhere else.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpr_core::Embedding;
use prometheus_client::metrics::counter::Counter;

use super::gate::SearchGate;
use dpr_data::Passage;
use dpr_index::search::{Backend, Description, Filter, Hit, SearchError, Searcher};
use dpr_index::{
    CancelToken, Health, IndexKind, QueryError, RECALL_DEPTH, Snapshot, VectorIndex as _, rows_found,
};

/// Counters of sampling.
#[derive(Clone, Default)]
pub(super) struct RecallCounts {
    /// Passages that exact search finds.
    pub(super) wanted: Counter,
    /// Those of them that were in the answer.
    pub(super) found: Counter,
}

/// A search that was answered.
struct Sample {
    snapshot: Arc<Snapshot>,
    vector: Embedding,
    k: usize,
    /// Of the best hits, best first.
    scores: Vec<f32>,
}

/// A backend of which some searches are repeated.
pub(super) struct Sampled {
    backend: Arc<dyn Backend>,
    gate: SearchGate,
    every: Duration,
    /// The time at which the next search is taken.
    next: Mutex<Instant>,
    idle: SyncSender<Sample>,
}

impl Sampled {
    /// Repeats a search of `backend` every so often, unless searches wait at `gate`. The thread ends with this.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(
        backend: Arc<dyn Backend>,
        gate: SearchGate,
        every: Duration,
        counts: RecallCounts,
    ) -> std::io::Result<Self> {
        let (sampled, samples) = Self::new(backend, gate, every);
        // One thread: the others are for answers.
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(std::io::Error::other)?;
        let work = move || {
            for sample in samples {
                // Nothing of a sample outlives it, so that a panic tears nothing.
                match catch_unwind(AssertUnwindSafe(|| alone.install(|| sample.repeat()))) {
                    Ok(Ok((found, wanted))) => {
                        counts.found.inc_by(found);
                        counts.wanted.inc_by(wanted);
                    }
                    Ok(Err(error)) => {
                        tracing::warn!("a search could not be repeated to measure recall: {error}");
                    }
                    Err(_) => tracing::error!("a search panicked when it was repeated to measure recall"),
                }
            }
        };
        std::thread::Builder::new().name("recall".into()).spawn(work)?;
        Ok(sampled)
    }

    /// Returns the sampler and the end of its channel at which samples arrive. The channel holds none: a sample that
    /// is taken while the thread repeats another one is dropped.
    fn new(backend: Arc<dyn Backend>, gate: SearchGate, every: Duration) -> (Self, Receiver<Sample>) {
        let (idle, samples) = sync_channel(0);
        (Self { backend, gate, every, next: Mutex::new(Instant::now()), idle }, samples)
    }

    /// Takes an answer, if it is time to.
    fn offer(&self, snapshot: &Arc<Snapshot>, vector: &Embedding, k: usize, hits: &[Hit]) {
        if snapshot.kind() != IndexKind::Hnsw || self.gate.has_waiting() {
            return;
        }
        // Another search that looks at the clock takes its turn.
        let Ok(mut next) = self.next.try_lock() else { return };
        let now = Instant::now();
        if now < *next {
            return;
        }
        let k = k.min(RECALL_DEPTH);
        let scores = hits.iter().take(k).map(|hit| hit.score).collect();
        let sample = Sample { snapshot: Arc::clone(snapshot), vector: vector.clone(), k, scores };
        if self.idle.try_send(sample).is_ok() {
            *next = now + self.every;
        }
    }
}

impl Backend for Sampled {
    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        let Some(snapshot) = self.backend.snapshot() else {
            return self.backend.search_until(vectors, k, filter, cancel);
        };
        let searcher = Searcher::of(Arc::clone(&snapshot));
        let found = searcher.search_batch_until(vectors, k, filter, cancel)?;
        if let ([vector], [hits], None) = (vectors, found.as_slice(), filter) {
            self.offer(&snapshot, vector, k, hits);
        }
        Ok(found)
    }

    fn search_with_vectors(
        &self,
        vector: &Embedding,
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<(Hit, Vec<f32>)>, SearchError> {
        self.backend.search_with_vectors(vector, k, cancel)
    }

    fn vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, SearchError> {
        self.backend.vectors(ids)
    }

    fn cost(&self, vectors: usize, k: usize, filter: Option<&Filter>) -> u64 {
        self.backend.cost(vectors, k, filter)
    }

    fn describe(&self) -> Description {
        self.backend.describe()
    }

    fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, SearchError> {
        self.backend.passages(ids)
    }

    fn refresh(&self) -> Result<(), SearchError> {
        self.backend.refresh()
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.backend.snapshot()
    }

    fn health(&self) -> Health {
        self.backend.health()
    }
}

impl Sample {
    /// Returns how many of the passages that exact search finds the search had found, and how many these are.
    fn repeat(&self) -> Result<(u64, u64), QueryError> {
        let best = self.snapshot.search_exactly(&self.vector, self.k)?;
        let found = rows_found(&best, self.scores.iter().copied());
        Ok((found as u64, best.len() as u64))
    }
}

impl fmt::Debug for Sampled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampled").field("every", &self.every).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_data::Passage;
    use dpr_files::progress::Silent;
    use dpr_index::vectors::VectorSet;
    use dpr_index::{HnswParams, IndexOptions, LiveIndex, LoadedIndex, build_index};

    const DIM: usize = 16;

    fn vector(seed: usize) -> Vec<f32> {
        let mut random = dpr_core::random::SplitMix::new(seed as u64);
        (0..DIM).map(|_| random.normal() as f32).collect()
    }

    /// 3,000 random vectors, in a graph of which a search sees little, or without one.
    fn live(kind: IndexKind) -> Arc<LiveIndex> {
        let dir = tempfile::tempdir().unwrap();
        let passage = |row: usize| Passage::new(row.to_string(), "", "Text.");
        let rows: Vec<f32> = (0..3000).flat_map(vector).collect();
        let set = VectorSet::new("ab".repeat(32), DIM, (0..3000).map(passage).collect(), rows);
        let hnsw = HnswParams { m: 2, ef_construction: 4, ef_search: 4 };
        let options = IndexOptions { kind, hnsw, ..IndexOptions::default() };
        build_index(&set, dir.path(), &options, &Silent).unwrap();
        // Its files stay mapped when they are removed.
        let index = LoadedIndex::open(dir.path()).unwrap();
        Arc::new(LiveIndex::new(Arc::new(Snapshot::of(index))))
    }

    fn ask(index: &Sampled, number: usize) -> Vec<Hit> {
        let question = Embedding::new(vector(10_000 + number), DIM).unwrap();
        index.search(&[question], 5, None).unwrap().pop().unwrap()
    }

    /// Asks until something was counted, or often enough that it would have been: found, and wanted.
    fn counted(kind: IndexKind) -> (u64, u64) {
        let counts = RecallCounts::default();
        let gate = SearchGate::new(1, 1);
        let index = Sampled::start(live(kind), gate, Duration::ZERO, counts.clone()).unwrap();
        for number in 0..400 {
            assert_eq!(ask(&index, number).len(), 5);
            std::thread::sleep(Duration::from_millis(2));
            if counts.wanted.get() >= 200 {
                break;
            }
        }
        (counts.found.get(), counts.wanted.get())
    }

    #[test]
    fn a_graph_that_is_walked_too_little_shows_and_exact_search_is_not_repeated() {
        let (found, wanted) = counted(IndexKind::Hnsw);
        assert!(wanted >= 200 && found > 0 && found * 10 < wanted * 9, "{found} of {wanted}");
        assert_eq!(counted(IndexKind::Exact), (0, 0));
    }

    #[test]
    fn answers_do_not_wait_for_one_who_is_busy_and_others_are_not_taken() {
        let live = live(IndexKind::Hnsw);
        let gate = SearchGate::new(1, 2);
        let (index, samples) =
            Sampled::new(Arc::<LiveIndex>::clone(&live), gate.clone(), Duration::from_secs(3600));
        // Nobody takes what is offered.
        (0..20).for_each(|number| assert_eq!(ask(&index, number).len(), 5));
        assert!(samples.try_recv().is_err());
        // Once somebody does, one is taken, and the next in an hour.
        let taken = std::thread::spawn(move || {
            let first = samples.recv().unwrap();
            let more = samples.recv_timeout(Duration::from_millis(300)).is_ok();
            (first.repeat().unwrap().1, more)
        });
        // While others wait for a thread, none is.
        let waiting = [gate.enter().unwrap(), gate.enter().unwrap()];
        (0..20).for_each(|number| drop(ask(&index, number)));
        assert!(!taken.is_finished());
        drop(waiting);
        while !taken.is_finished() {
            ask(&index, 7);
        }
        assert_eq!(taken.join().unwrap(), (5, false));
    }
}
