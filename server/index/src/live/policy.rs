//! Rules of when a new version is built, and of how much may be added before.

use super::Snapshot;
use crate::VectorIndex as _;

/// The changes at which a new version is built, and those at which no more are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactionPolicy {
    /// Rows added and removed, as a share of the passages built in.
    pub share: f64,
    /// Rows added and removed, whatever the share.
    pub rows: usize,
    /// Bytes of the passages that were added, without their vectors, those that were deleted again included, whatever
    /// the share.
    pub texts: u64,
    /// `false` if new versions are built on request alone, by [`IndexWriter::compact`](crate::IndexWriter::compact).
    pub automatic: bool,
    /// The limit of the delta, above which passages are refused until a new version is built.
    pub max_delta: DeltaLimit,
}

/// A limit of the delta: passages added or replaced since the index was built, those that were deleted again
/// included. They are in memory and are scored one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaLimit {
    /// Rows.
    pub rows: usize,
    /// Bytes of their vectors and texts.
    pub bytes: u64,
}

impl DeltaLimit {
    /// No limit.
    pub const NONE: Self = Self { rows: usize::MAX, bytes: u64::MAX };
}

impl Default for DeltaLimit {
    /// 200,000 rows or 2 GiB.
    fn default() -> Self {
        Self { rows: 200_000, bytes: 2 << 30 }
    }
}

impl Default for CompactionPolicy {
    /// A tenth, or 20,000 rows: that many take 2 ms to score beside the graph, at 768 dimensions.
    fn default() -> Self {
        Self { share: 0.1, rows: 20_000, texts: u64::MAX, automatic: true, max_delta: DeltaLimit::default() }
    }
}

/// Changes below which no new version is built.
const LEAST: usize = 100;

impl CompactionPolicy {
    /// Returns `true` if a snapshot has changed that much, or its delta is half full.
    pub fn is_due(&self, snapshot: &Snapshot) -> bool {
        let share = (self.share * snapshot.kept().rows() as f64) as usize;
        let (delta, limit) = (snapshot.delta(), self.max_delta);
        let is_half_full = delta.rows() > limit.rows / 2 || delta.bytes() > limit.bytes / 2;
        let vectors = (delta.rows() * snapshot.dim() * size_of::<f32>()) as u64;
        let has_long_texts = delta.bytes().saturating_sub(vectors) > self.texts;
        let is_much = snapshot.burden() > share.max(LEAST).min(self.rows);
        self.automatic && (is_much || is_half_full || has_long_texts) && !snapshot.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::{build, new};
    use super::*;
    use crate::{IndexWriter, UpdateError};
    use dpr_files::progress::Silent;

    #[test]
    fn a_full_delta_refuses_passages_and_not_deletions_until_a_new_version_is_built() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = Arc::new(IndexWriter::open(root.path(), "a test").unwrap());
        let policy = CompactionPolicy {
            automatic: false,
            max_delta: DeltaLimit { rows: 10, ..DeltaLimit::NONE },
            ..CompactionPolicy::default()
        };
        let _compaction = writer.compact_in_background(policy).unwrap();
        let put = |from: usize, count: usize| {
            writer.put((from..from + count).map(|n| new(&format!("n{n}"), n)).collect())
        };
        put(0, 8).unwrap();
        let error = put(8, 3).unwrap_err();
        assert!(matches!(error, UpdateError::Full { rows: 8, .. }), "{error}");
        put(8, 2).unwrap();
        // What is replaced takes a row too, and one that is deleted keeps its row.
        assert!(matches!(put(0, 1), Err(UpdateError::Full { .. })));
        writer.delete(vec!["n3".to_owned(), "p5".to_owned()]).unwrap();
        assert!(matches!(put(0, 1), Err(UpdateError::Full { .. })));
        assert!(!policy.is_due(&writer.live().snapshot()), "it is off");
        assert!(CompactionPolicy { automatic: true, ..policy }.is_due(&writer.live().snapshot()));

        writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
        put(0, 10).unwrap();
        assert_eq!(writer.live().snapshot().len(), 20 - 1 + 10);
    }

    #[test]
    fn a_full_delta_takes_passages_again_once_none_is_left() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 2);
        let writer = Arc::new(IndexWriter::open(root.path(), "a test").unwrap());
        let max_delta = DeltaLimit { rows: 3, ..DeltaLimit::NONE };
        let policy = CompactionPolicy { automatic: false, max_delta, ..CompactionPolicy::default() };
        let _compaction = writer.compact_in_background(policy).unwrap();
        let ids = |count: usize| (0..count).map(|n| format!("n{n}"));
        let put = |count: usize| writer.put(ids(count).map(|id| new(&id, 1)).collect());
        put(3).unwrap();
        writer.delete(ids(3).chain(["p0".to_owned(), "p1".to_owned()]).collect()).unwrap();
        // Twice the limit is the most, so that memory is bounded.
        assert!(matches!(put(4), Err(UpdateError::Full { rows: 3, max_rows: 6, .. })));
        put(1).unwrap();
        assert!(matches!(put(1), Err(UpdateError::Full { rows: 4, .. })));
        assert!(CompactionPolicy { automatic: true, ..policy }.is_due(&writer.live().snapshot()));
        writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
        put(3).unwrap();
        assert_eq!(writer.live().snapshot().len(), 3);
    }

    #[test]
    fn few_passages_with_long_texts_make_a_new_version_due() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        let policy = CompactionPolicy { texts: 10_000, ..CompactionPolicy::default() };
        for (number, is_due) in [(0, false), (1, false), (2, true)] {
            let mut long = new(&format!("n{number}"), number);
            long.passage.text = "x".repeat(4_000);
            writer.put(vec![long]).unwrap();
            assert_eq!(policy.is_due(&writer.live().snapshot()), is_due, "{number}");
        }
        assert!(!CompactionPolicy::default().is_due(&writer.live().snapshot()));
    }

    #[test]
    fn bytes_are_limited_as_rows_are() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = Arc::new(IndexWriter::open(root.path(), "a test").unwrap());
        let max_delta = DeltaLimit { bytes: 1000, ..DeltaLimit::NONE };
        let policy = CompactionPolicy { automatic: false, max_delta, ..CompactionPolicy::default() };
        let _compaction = writer.compact_in_background(policy).unwrap();
        let long = |id: &str, bytes: usize| {
            let mut new = new(id, 1);
            new.passage.text = "x".repeat(bytes);
            writer.put(vec![new])
        };
        long("a", 900).unwrap();
        assert!(matches!(long("b", 100), Err(UpdateError::Full { rows: 1, .. })));
        long("b", 10).unwrap();
    }
}
