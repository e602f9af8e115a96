//! Back-pressure: so many searches run, so many wait, the next is refused at once.
//!
//! Searches are computation and run on threads of their own, never on the ones that serve sockets. A search is
//! weighed by the work that it is before it runs: one that a single thread could not end in time takes the place of
//! several, and one that all threads could not end in time is refused. A search whose client has gone or whose time
//! has run out stops at the next block of rows, and its threads are free.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;
use dpr_index::CancelToken;

/// The f32 numbers that one thread reads in a second, at most: 16 GB. A search that is refused for its cost could not
/// have ended in time on a slower machine either.
const NUMBERS_A_SECOND: f64 = 4e9;

/// The way to the search threads.
#[derive(Debug, Clone)]
pub struct SearchGate {
    /// A place inside: running or waiting.
    places: Arc<Semaphore>,
    /// A thread to run on.
    threads: Arc<Semaphore>,
    concurrency: usize,
    queue: usize,
    /// Searches that wait for threads.
    waiting: Arc<AtomicUsize>,
    /// The time that a search may take, if it is limited.
    timeout: Option<Duration>,
    /// Bytes of the passages that a search may find, if they are limited.
    max_answer: Option<usize>,
}

/// A place inside the gate; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    _held: OwnedSemaphorePermit,
}

/// A search that is ready to run.
pub(super) struct Prepared<T> {
    /// Vectors that are searched for.
    pub(super) vectors: usize,
    /// Passages that are searched.
    pub(super) rows: usize,
    /// The work of the search, as [`Backend::cost`](dpr_index::search::Backend::cost) estimates it.
    pub(super) cost: u64,
    /// Runs it, until the token says to stop.
    pub(super) run: Run<T>,
}

/// Work that goes on until the token says to stop.
pub(super) type Run<T> = Box<dyn FnOnce(&CancelToken) -> T + Send>;

/// The outcome of the first visit to a thread.
enum First<T> {
    Done(T),
    /// The search is to run on so many threads' permits.
    Heavy(Prepared<T>, u32),
}

/// Cancels a search when the future that waits for it is dropped: its client has gone, or its time has run out.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Counts a search among those that wait for threads, until it is dropped.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn begin(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SearchGate {
    /// A gate for `concurrency` running (at least one) and `queue` waiting searches.
    pub fn new(concurrency: usize, queue: usize) -> Self {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS / 2);
        let queue = queue.min(Semaphore::MAX_PERMITS / 2);
        Self {
            places: Arc::new(Semaphore::new(concurrency + queue)),
            threads: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            queue,
            waiting: Arc::default(),
            timeout: None,
            max_answer: None,
        }
    }

    /// Weighs searches by what one thread does in this time.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Stops a search whose passages come to more bytes, before it reads the others.
    #[must_use]
    pub fn with_max_answer(self, bytes: usize) -> Self {
        Self { max_answer: Some(bytes), ..self }
    }

    /// Returns whether searches wait for a thread.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes a place.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] at once when the queue is full.
    pub fn enter(&self) -> Result<Place, ApiError> {
        Arc::clone(&self.places)
            .try_acquire_owned()
            .map(|permit| Place { _held: permit })
            .map_err(|_| ApiError::Overloaded { running: self.concurrency, waiting: self.queue })
    }

    /// Waits for a thread, runs `work` on it to its end, and returns its result and the time it waited.
    ///
    /// # Errors
    /// [`ApiError::Internal`] when `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), ApiError> {
        let (result, waited, _place) = self.on_threads(1, place, work).await?;
        Ok((result, waited))
    }

    /// Waits for a thread, prepares a search on it, weighs it and runs it, there or with the permits of as many
    /// threads as it weighs. Returns its result and the time it waited. When the returned future is dropped, the
    /// search is cancelled.
    ///
    /// # Errors
    /// Those of `prepare`, [`ApiError::TooCostly`] for a search that cannot end in time, and [`ApiError::Internal`]
    /// when the search panics.
    pub(super) async fn search<T: Send + 'static>(
        &self,
        place: Place,
        prepare: impl FnOnce() -> Result<Prepared<T>, ApiError> + Send + 'static,
    ) -> Result<(T, Duration), ApiError> {
        let cancel = CancelOnDrop(self.max_answer.map_or_else(CancelToken::new, CancelToken::with_max_bytes));
        let (gate, token) = (self.clone(), cancel.0.clone());
        let first = move || -> Result<First<T>, ApiError> {
            let prepared = prepare()?;
            Ok(match gate.weigh(&prepared)? {
                ..=1 => First::Done((prepared.run)(&token)),
                threads => First::Heavy(prepared, threads),
            })
        };
        let (first, waited, place) = self.on_threads(1, place, first).await?;
        match first? {
            First::Done(result) => Ok((result, waited)),
            First::Heavy(Prepared { run, .. }, threads) => {
                let token = cancel.0.clone();
                let (result, more, _place) = self.on_threads(threads, place, move || run(&token)).await?;
                Ok((result, waited + more))
            }
        }
    }

    /// Returns the number of searches of this cost that one thread ends in time one after the other, at least 1.
    pub(super) fn fitting(&self, cost: u64) -> usize {
        let Some(timeout) = self.timeout else { return usize::MAX };
        // Saturates where the cost is 0.
        ((NUMBERS_A_SECOND * timeout.as_secs_f64() / cost as f64) as usize).max(1)
    }

    /// Returns the number of threads that end a search of this cost in time, at least 1.
    fn weigh<T>(&self, search: &Prepared<T>) -> Result<u32, ApiError> {
        let (Some(timeout), Prepared { vectors, rows, cost, .. }) = (self.timeout, search) else {
            return Ok(1);
        };
        let threads = *cost as f64 / (NUMBERS_A_SECOND * timeout.as_secs_f64());
        if threads > self.concurrency as f64 {
            let seconds = (*cost as f64 / NUMBERS_A_SECOND / self.concurrency as f64).ceil() as u64;
            return Err(ApiError::TooCostly {
                vectors: *vectors,
                rows: *rows,
                seconds,
                allowed_ms: timeout.as_millis(),
            });
        }
        // Permits are counted in u32, and there are no more than `concurrency`.
        Ok((threads.ceil() as u32).max(1))
    }

    /// Waits for the permits of so many threads and runs `work` on one. The place and the permits are held until it
    /// ends, also when nobody waits for it.
    async fn on_threads<T: Send + 'static>(
        &self,
        threads: u32,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration, Place), ApiError> {
        let start = Instant::now();
        let waits = Waits::begin(&self.waiting);
        let permits = Arc::clone(&self.threads)
            .acquire_many_owned(threads)
            .await
            .map_err(|_| ApiError::NotReady("about to stop"))?;
        drop(waits);
        let waited = start.elapsed();
        let task = tokio::task::spawn_blocking(move || {
            let _held = permits;
            (work(), place)
        });
        match task.await {
            Ok((result, place)) => Ok((result, waited, place)),
            Err(error) => {
                tracing::error!("a search thread failed: {error}");
                Err(ApiError::Internal("the search failed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    #[tokio::test]
    async fn the_place_after_the_queue_is_refused_and_comes_back() {
        let gate = SearchGate::new(1, 1);
        let first = gate.enter().unwrap();
        let _second = gate.enter().unwrap();
        assert_eq!(gate.enter().unwrap_err(), ApiError::Overloaded { running: 1, waiting: 1 });
        drop(first);
        gate.enter().unwrap();
    }

    #[tokio::test]
    async fn a_panicking_search_is_an_error_and_frees_its_place() {
        let gate = SearchGate::new(1, 0);
        let place = gate.enter().unwrap();
        let result = gate.run(place, || assert_eq!(1, 2, "no")).await;
        assert_eq!(result.unwrap_err(), ApiError::Internal("the search failed"));
        let place = gate.enter().unwrap();
        assert_eq!(gate.run(place, || 7).await.unwrap().0, 7);
    }

    /// Waits until a place is free.
    async fn until_free(gate: &SearchGate) {
        let freed = tokio::time::timeout(Duration::from_secs(10), async {
            while gate.enter().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        freed.await.unwrap();
    }

    #[tokio::test]
    async fn abandoned_work_that_looks_at_no_token_keeps_its_place_until_it_ends() {
        let gate = SearchGate::new(1, 0);
        let (finish, finished) = channel::<()>();
        let place = gate.enter().unwrap();
        let running = gate.run(place, move || finished.recv());
        assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err());
        gate.enter().unwrap_err();
        finish.send(()).unwrap();
        until_free(&gate).await;
    }

    /// A search that goes on until it is cancelled, and says when it has begun.
    fn endless(
        cost: u64,
    ) -> (impl FnOnce() -> Result<Prepared<()>, ApiError> + Send + 'static, Receiver<()>) {
        let (begun, has_begun) = channel();
        let run = move |cancel: &CancelToken| {
            begun.send(()).unwrap();
            while !cancel.is_stopped() {
                std::thread::yield_now();
            }
        };
        (move || Ok(Prepared { vectors: 1, rows: 5, cost, run: Box::new(run) }), has_begun)
    }

    #[tokio::test]
    async fn one_that_waits_for_the_threads_of_a_heavy_search_is_counted_until_it_is_gone() {
        let gate = SearchGate::new(2, 4).with_timeout(Duration::from_secs(1));
        let (search, has_begun) = endless(2 * NUMBERS_A_SECOND as u64);
        let (heavy, place) = (gate.clone(), gate.enter().unwrap());
        let heavy = tokio::spawn(async move { heavy.search(place, search).await });
        tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        assert!(!gate.has_waiting());
        let waiting = gate.run(gate.enter().unwrap(), || ());
        let mut waiting = Box::pin(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waiting).await.is_err());
        assert!(gate.has_waiting());
        drop(waiting);
        assert!(!gate.has_waiting());
        heavy.abort();
    }

    #[tokio::test]
    async fn an_abandoned_search_stops_and_frees_its_threads() {
        let second = NUMBERS_A_SECOND as u64;
        for (cost, threads) in [(0, 1), (second * 3 / 2, 2)] {
            let gate = SearchGate::new(2, 0).with_timeout(Duration::from_secs(1));
            let (search, has_begun) = endless(cost);
            let place = gate.enter().unwrap();
            let searching = tokio::spawn({
                let gate = gate.clone();
                async move { gate.search(place, search).await }
            });
            tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
            assert_eq!(gate.threads.available_permits(), 2 - threads);
            // As when its client goes, or its time runs out.
            searching.abort();
            let freed = tokio::time::timeout(Duration::from_secs(10), gate.threads.acquire_many(2)).await;
            drop(freed.unwrap().unwrap());
            until_free(&gate).await;
        }
    }

    #[tokio::test]
    async fn a_search_takes_the_threads_that_it_weighs_and_one_that_cannot_end_is_refused() {
        let of = |cost| Prepared::<()> { vectors: 64, rows: 1000, cost, run: Box::new(|_| panic!("it ran")) };
        let gate = SearchGate::new(4, 0).with_timeout(Duration::from_secs(2));
        let second = NUMBERS_A_SECOND as u64;
        for (cost, threads) in [(0, 1), (second, 1), (2 * second, 1), (2 * second + 1, 2), (8 * second, 4)] {
            assert_eq!(gate.weigh(&of(cost)), Ok(threads), "{cost}");
        }
        for (cost, fitting) in [(0, usize::MAX), (second / 4, 8), (2 * second, 1), (9 * second, 1)] {
            assert_eq!(gate.fitting(cost), fitting, "{cost}");
        }
        let refused = ApiError::TooCostly { vectors: 64, rows: 1000, seconds: 3, allowed_ms: 2000 };
        assert_eq!(gate.weigh(&of(9 * second)), Err(refused.clone()));
        assert_eq!(SearchGate::new(1, 0).weigh(&of(u64::MAX)), Ok(1), "without a limit of time");
        let place = gate.enter().unwrap();
        assert_eq!(gate.search(place, move || Ok(of(9 * second))).await, Err(refused));
    }
}
