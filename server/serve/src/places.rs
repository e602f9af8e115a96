//! Admission of connections: so many at once, and a few more that are told to come back.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections above the limit: each answers one health check, or is told that the server is busy, and closes.
const RESERVE: usize = 8;

/// The places of connections, and of the requests that one connection sends beside each other.
#[derive(Debug, Clone)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
}

/// The place of a connection, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    /// `true` if it is above the limit.
    pub(super) is_reserve: bool,
}

impl Places {
    /// Returns `max` places (at least one), with a reserve or without.
    pub(super) fn new(max: usize, has_reserve: bool) -> Self {
        let reserve = if has_reserve { RESERVE } else { 0 };
        Self {
            all: Arc::new(Semaphore::new(max.clamp(1, Semaphore::MAX_PERMITS))),
            reserve: Arc::new(Semaphore::new(reserve)),
        }
    }

    /// Waits for a place, and takes one of the reserve while there is no other.
    pub(super) async fn take(&self) -> Place {
        if let Ok(permit) = Arc::clone(&self.all).try_acquire_owned() {
            return Place { _permit: Some(permit), is_reserve: false };
        }
        // The semaphores are never closed, so that there always is a permit.
        tokio::select! {
            biased;
            permit = Arc::clone(&self.all).acquire_owned() => Place { _permit: permit.ok(), is_reserve: false },
            permit = Arc::clone(&self.reserve).acquire_owned() => Place { _permit: permit.ok(), is_reserve: true },
        }
    }

    /// Returns whether all places are taken.
    pub(super) fn are_full(&self) -> bool {
        self.all.available_permits() == 0
    }

    /// Returns a place of the reserve for another one, if there is one by now.
    pub(super) fn or_better(&self, place: Place) -> Place {
        match Arc::clone(&self.all).try_acquire_owned() {
            Ok(permit) if place.is_reserve => Place { _permit: Some(permit), is_reserve: false },
            _ => place,
        }
    }

    /// Waits for a place of a request that comes beside another one of its connection.
    pub(super) async fn take_for_request(&self) -> Place {
        Place { _permit: Arc::clone(&self.all).acquire_owned().await.ok(), is_reserve: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    /// Returns whether a future that is polled now is not done.
    fn is_pending<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> bool {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn the_reserve_is_taken_only_while_all_places_are() {
        let places = Places::new(1, true);
        let first = places.take().await;
        assert!(!first.is_reserve);
        let mut above = Vec::new();
        for _ in 0..RESERVE {
            above.push(places.take().await);
        }
        assert!(above.iter().all(|place| place.is_reserve));
        let mut waiting = Box::pin(places.take());
        assert!(is_pending(&mut waiting), "the reserve is used up");
        drop(first);
        assert!(!waiting.await.is_reserve);
        let last = above.pop().unwrap();
        assert!(!places.or_better(last).is_reserve, "the one that came back");
    }

    #[tokio::test]
    async fn without_a_reserve_connections_wait() {
        let places = Places::new(1, false);
        let first = places.take().await;
        let mut waiting = Box::pin(places.take());
        assert!(is_pending(&mut waiting));
        drop(first);
        assert!(!waiting.await.is_reserve);
    }
}
