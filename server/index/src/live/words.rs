//! Search of a live index by words: the inverted index as it was built, without tombstones, and the delta's own
//! postings.

use rayon::prelude::*;

use super::Snapshot;
use crate::CancelToken;
use crate::ranking::{Candidate, ScoredRow, TopK};
use crate::sparse::{Scoring, SparseError, SparseIndex, WordIndex};

/// Searches by words and numbers rows as [`VectorIndex`](crate::VectorIndex) does. Finds nothing where the index has no
/// inverted index.
impl WordIndex for Snapshot {
    fn search_batch_until(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        let Some(words) = self.base().sparse() else { return Ok(vec![Vec::new(); questions.len()]) };
        let mut found = self.search_kept(words, questions, k, scoring, cancel)?;
        let added = self.delta().words();
        if self.added() > 0 && !added.is_empty() {
            let (first, alive) = (self.kept().rows(), self.delta().alive());
            questions.par_iter().zip(&mut found).try_for_each(|(question, rows)| {
                cancel.check()?;
                let mut top = TopK::new(k);
                for ScoredRow { row, score } in rows.drain(..) {
                    top.offer(Candidate { score, row: row as u32 });
                }
                words.search_added(question, scoring, &added, &mut |row, score| {
                    if alive.contains(row) {
                        // Updates keep all rows together below u32::MAX.
                        top.offer(Candidate { score, row: (first + row) as u32 });
                    }
                })?;
                *rows = top.into_rows(k);
                Ok::<(), SparseError>(())
            })?;
        }
        Ok(found)
    }
}

impl Snapshot {
    /// Returns the best `k` passages of the version that are still alive.
    fn search_kept(
        &self,
        words: &SparseIndex,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        let (kept, gone) = (self.kept(), self.removed());
        if gone == 0 {
            return words.search_batch_until(questions, k, scoring, cancel);
        }
        // Twice as many, and where these are not enough, as many more as have a tombstone.
        let depth = k.saturating_mul(2);
        let mut found = words.search_batch_until(questions, depth, scoring, cancel)?;
        for (question, rows) in questions.iter().zip(&mut found) {
            let may_be_more = rows.len() == depth;
            rows.retain(|hit| kept.contains(hit.row));
            if rows.len() < k && may_be_more {
                let more = words.search_batch_until(&[*question], k + gone, scoring, cancel)?;
                *rows = more.into_iter().flatten().collect();
                rows.retain(|hit| kept.contains(hit.row));
            }
            rows.truncate(k);
        }
        Ok(found)
    }
}
