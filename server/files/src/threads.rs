//! Work on threads of its own, for callers that may be threads of a pool on which others wait.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

/// Calls `make` for each part, on as many threads as there are processors, and returns the results in the order of the
/// parts. It waits for no thread of a pool. Where the system starts no thread, the caller does all of the work.
pub fn map<P: Send + Sync, T: Send>(parts: impl Iterator<Item = P>, make: impl Fn(&P) -> T + Sync) -> Vec<T> {
    let parts: Vec<P> = parts.collect();
    let threads = available_parallelism().map_or(1, usize::from).min(parts.len());
    if threads <= 1 {
        return parts.iter().map(make).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(at) else { return made };
            made.push((at, make(part)));
        }
    };
    let mut made = scope(|scope| {
        let others = (1..threads).filter_map(|_| Builder::new().spawn_scoped(scope, take).ok());
        let others: Vec<_> = others.collect();
        let mut made = take();
        for other in others {
            made.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        made
    });
    made.sort_unstable_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_parts() {
        let squares = map(0..1000_u64, |number| number * number);
        assert!(squares.iter().zip(0u64..).all(|(square, number)| *square == number * number));
        assert_eq!((squares.len(), map(std::iter::empty::<u64>(), |_| ()).len()), (1000, 0));
    }
}
