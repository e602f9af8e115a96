//! Cancellation: searches that nobody waits for any more stop, and those that find more than can be answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use dpr_data::Passage;

/// A cancellation token: a search that is given one looks at it for every block of rows, and stops once it is cancelled
/// or its deadline has passed. It can also bound the bytes of the passages found ([`with_max_bytes`]): a search counts
/// each passage as it reads it, and stops at the first that exceeds the bound. A clone is another handle to the same
/// token.
///
/// [`with_max_bytes`]: Self::with_max_bytes
///
/// ```
/// use dpr_index::{CancelToken, Stopped};
///
/// let cancel = CancelToken::new();
/// assert_eq!(cancel.check(), Ok(()));
/// cancel.clone().cancel();
/// assert_eq!(cancel.check(), Err(Stopped::Cancelled));
/// assert_eq!(CancelToken::never().check(), Ok(()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    deadline: Option<Instant>,
    /// Bytes of the passages that may be found; `None` bounds nothing.
    max_bytes: Option<usize>,
    /// Bytes of the passages that were found.
    found: AtomicUsize,
    #[cfg(test)]
    looks: looks::Looks,
}

/// The reason why a search stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Its token was cancelled.
    #[error("the search was cancelled")]
    Cancelled,
    /// The deadline of its token has passed.
    #[error("the search did not end before its deadline: ask for less at once, or give it more time")]
    DeadlinePassed,
    /// The passages found have more bytes than its token allows.
    #[error("the passages found come to more than {max} bytes: ask for fewer at once")]
    TooManyBytes {
        /// The bytes that they may have.
        max: usize,
    },
}

impl CancelToken {
    /// Returns a token that is never cancelled and has no deadline. Looking at it costs nothing.
    pub fn never() -> Self {
        Self(None)
    }

    /// Returns a token without a deadline.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns a token with a deadline.
    pub fn with_deadline(deadline: Instant) -> Self {
        Self(Some(Arc::new(State { deadline: Some(deadline), ..State::default() })))
    }

    /// Returns a token without a deadline, for searches whose passages have at most `max` bytes together: ids, titles,
    /// texts and metadata.
    pub fn with_max_bytes(max: usize) -> Self {
        Self(Some(Arc::new(State { max_bytes: Some(max), ..State::default() })))
    }

    /// Counts the bytes of a passage that a search has read and will return ([`Passage::bytes`]). A backend calls it
    /// before it reads the next one.
    ///
    /// # Errors
    /// [`Stopped::TooManyBytes`] when the passages come to more than the token allows; from then on every time, and
    /// [`check`](Self::check) refuses too.
    pub fn count_found(&self, passage: &Passage) -> Result<(), Stopped> {
        let Some(state) = &self.0 else { return Ok(()) };
        state.found.fetch_add(passage.bytes(), Ordering::Relaxed);
        state.check_found()
    }

    /// Returns the bytes of the passages that were counted; 0 for a token from [`never`](Self::never).
    pub fn found_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |state| state.found.load(Ordering::Relaxed))
    }

    /// Returns the bytes that passages may still have; `usize::MAX` where the token does not bound them.
    pub fn bytes_left(&self) -> usize {
        let bound = self.0.as_ref().and_then(|state| state.max_bytes);
        bound.map_or(usize::MAX, |max| max.saturating_sub(self.found_bytes()))
    }

    /// Stops the searches that were given this token. One from [`never`](Self::never) does nothing.
    pub fn cancel(&self) {
        if let Some(state) = &self.0 {
            state.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Refuses to go on once the token is cancelled, its deadline has passed, or too many bytes were found.
    ///
    /// # Errors
    /// [`Stopped`]; from then on every time.
    pub fn check(&self) -> Result<(), Stopped> {
        let Some(state) = &self.0 else { return Ok(()) };
        #[cfg(test)]
        state.looks.count(&state.is_cancelled);
        if state.is_cancelled.load(Ordering::Relaxed) {
            return Err(Stopped::Cancelled);
        }
        state.check_found()?;
        match state.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Stopped::DeadlinePassed),
            _ => Ok(()),
        }
    }

    /// Returns `true` once [`check`](Self::check) refuses.
    pub fn is_stopped(&self) -> bool {
        self.check().is_err()
    }
}

impl State {
    fn check_found(&self) -> Result<(), Stopped> {
        match self.max_bytes {
            Some(max) if self.found.load(Ordering::Relaxed) > max => Err(Stopped::TooManyBytes { max }),
            _ => Ok(()),
        }
    }
}

/// The number of times that a token was looked at, so that tests cancel a search at a place, not at a time.
#[cfg(test)]
mod looks {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::{CancelToken, State};

    #[derive(Debug)]
    pub(super) struct Looks {
        seen: AtomicUsize,
        cancel_at: usize,
    }

    impl Default for Looks {
        fn default() -> Self {
            Self { seen: AtomicUsize::new(0), cancel_at: usize::MAX }
        }
    }

    impl Looks {
        pub(super) fn count(&self, is_cancelled: &AtomicBool) {
            if self.seen.fetch_add(1, Ordering::Relaxed) + 1 >= self.cancel_at {
                is_cancelled.store(true, Ordering::Relaxed);
            }
        }
    }

    impl CancelToken {
        /// Returns a token that is cancelled when it is looked at for the `look`-th time.
        pub(crate) fn at_look(look: usize) -> Self {
            let looks = Looks { cancel_at: look, ..Looks::default() };
            Self(Some(State { looks, ..State::default() }.into()))
        }

        /// Returns the number of times that it was looked at.
        pub(crate) fn looks(&self) -> usize {
            self.0.as_ref().map_or(0, |state| state.looks.seen.load(Ordering::Relaxed))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_stops_when_it_is_cancelled_or_its_deadline_has_passed_and_not_before() {
        let now = Instant::now();
        let later = CancelToken::with_deadline(now + Duration::from_secs(3600));
        assert_eq!(later.check(), Ok(()));
        later.clone().cancel();
        assert_eq!((later.check(), later.is_stopped()), (Err(Stopped::Cancelled), true));
        assert_eq!(CancelToken::with_deadline(now).check(), Err(Stopped::DeadlinePassed));
        let never = CancelToken::never();
        never.cancel();
        assert_eq!(never.check(), Ok(()));
    }

    #[test]
    fn passages_are_counted_up_to_the_bound_and_stop_the_search_above_it() {
        let metadata = dpr_data::Metadata::new([("year", 2020)]).unwrap();
        let passage = Passage::new("p1", "abc", "defgh").with_metadata(metadata);
        let bounded = CancelToken::with_max_bytes(44);
        for left in [22, 0] {
            assert_eq!(bounded.count_found(&passage), Ok(()));
            assert_eq!((bounded.check(), bounded.bytes_left()), (Ok(()), left));
        }
        let stopped = Err(Stopped::TooManyBytes { max: 44 });
        assert_eq!((bounded.clone().count_found(&passage), bounded.check()), (stopped, stopped));
        assert_eq!((bounded.found_bytes(), bounded.bytes_left()), (66, 0));
        for unbounded in [CancelToken::never(), CancelToken::new()] {
            assert_eq!(unbounded.count_found(&passage), Ok(()));
            assert_eq!(unbounded.bytes_left(), usize::MAX);
        }
    }
}
