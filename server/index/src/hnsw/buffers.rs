//! Buffers of searches, which serve one after another.

use std::sync::Mutex;

use dpr_files::lock;

use super::beam::Beam;
use super::visited::VisitedSet;

/// Rows that the buffers of a search may have had room for, to be kept for the next one.
const KEPT_ROWS: usize = 1 << 16;

/// Buffers of a search, which serve one after another.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) visited: VisitedSet,
    pub(super) beam: Beam,
    pub(super) rows: Vec<u32>,
    pub(super) scores: Vec<f32>,
}

impl Buffers {
    /// Returns buffers for searches of a graph of so many rows.
    pub(super) fn new(rows: usize) -> Self {
        let visited = VisitedSet::new(rows);
        Self { visited, beam: Beam::default(), rows: Vec::new(), scores: Vec::new() }
    }
}

/// Buffers of searches that have ended, for those to come, which then clear no memory for all rows.
#[derive(Debug, Default)]
pub(super) struct BufferPool(Mutex<Vec<Buffers>>);

impl BufferPool {
    /// Returns buffers for a graph of so many rows, the same for all of a pool.
    pub(super) fn take(&self, rows: usize) -> Buffers {
        let kept = lock(&self.0).pop();
        kept.unwrap_or_else(|| Buffers::new(rows))
    }

    /// Keeps buffers, unless a search has made them large.
    pub(super) fn put(&self, buffers: Buffers) {
        if buffers.visited.touched.capacity() <= KEPT_ROWS && buffers.beam.left_out.capacity() <= KEPT_ROWS {
            lock(&self.0).push(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::beam::Stage;
    use super::*;
    use crate::ranking::Candidate;

    #[test]
    fn buffers_are_kept_from_one_search_to_the_next_unless_they_are_large() {
        let pool = BufferPool::default();
        let mut used = pool.take(100);
        assert!(used.visited.insert(3));
        used.beam.begin(7);
        used.beam.offer(Candidate { score: 1.0, row: 3 }, Stage::Scored);
        let large = pool.take(1000);
        pool.put(used);
        let again = pool.take(100);
        assert_eq!(again.visited.touched, [3], "it is the one that was put, which a search clears");
        pool.put(Buffers { rows: vec![1], ..again });
        let mut large = Buffers { visited: VisitedSet::new(1 << 20), ..large };
        large.visited.reserve(KEPT_ROWS + 1);
        pool.put(large);
        assert_eq!(pool.take(100).rows, [1]);
        assert!(pool.take(100).rows.is_empty(), "the large one was not kept");
    }
}
