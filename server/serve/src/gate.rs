//! Back-pressure: so many searches run, so many wait, the next is refused at once.
//!
//! Searches are computation and run on threads of their own, never on the ones that serve sockets. A search
//! whose client has gone or whose time has run out cannot be stopped in the middle; it keeps its place until
//! it ends, so that the server never computes more at once than it was told to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;

/// The way to the search threads.
#[derive(Debug, Clone)]
pub struct SearchGate {
    /// A place inside: running or waiting.
    places: Arc<Semaphore>,
    /// A thread to run on.
    threads: Arc<Semaphore>,
    concurrency: usize,
    queue: usize,
}

/// A place inside the gate; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    _held: OwnedSemaphorePermit,
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
        }
    }

    /// Whether searches wait for a thread.
    pub(super) fn has_waiting(&self) -> bool {
        self.places.available_permits() < self.queue
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

    /// Waits for a thread, runs `work` on it and returns its result and the time it waited.
    ///
    /// # Errors
    /// [`ApiError::Internal`] when `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), ApiError> {
        let start = Instant::now();
        let thread = Arc::clone(&self.threads)
            .acquire_owned()
            .await
            .map_err(|_| ApiError::NotReady("about to stop"))?;
        let waited = start.elapsed();
        let span = tokio::task::spawn_blocking(move || {
            let _held = (place, thread);
            work()
        });
        match span.await {
            Ok(result) => Ok((result, waited)),
            Err(error) => {
                tracing::error!("a search thread failed: {error}");
                Err(ApiError::Internal("the search failed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn an_abandoned_search_keeps_its_place_until_it_ends() {
        let gate = SearchGate::new(1, 0);
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let place = gate.enter().unwrap();
        let running = gate.run(place, move || finished.recv());
        assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err());
        gate.enter().unwrap_err();
        finish.send(()).unwrap();
        let freed = tokio::time::timeout(Duration::from_secs(5), async {
            while gate.enter().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        freed.await.unwrap();
    }
}
