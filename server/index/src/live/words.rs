//! Search of a live index by words: the inverted index as it was built, without tombstones, and the delta's own
//! postings.

use rayon::prelude::*;

use super::Snapshot;
use crate::ranking::{Candidate, ScoredRow, TopK};
use crate::sparse::{Scoring, SparseError, WordIndex};
use crate::{CancelToken, RowSet, VectorIndex as _};

/// Searches by words and numbers rows as [`VectorIndex`](crate::VectorIndex) does. Finds nothing where the index has no
/// inverted index.
impl WordIndex for Snapshot {
    fn search_batch_until(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        // Damage of any file of the version ends searches by words too, as it ends those by vectors.
        self.base().check_damage()?;
        let Some(words) = self.base().sparse()? else { return Ok(vec![Vec::new(); questions.len()]) };
        let both = allowed.map(|allowed| self.kept().intersection(allowed));
        let alive = both.as_ref().or_else(|| (self.removed() > 0).then(|| self.kept()));
        let mut found = words.search_batch_until(questions, k, scoring, alive, cancel)?;
        let added = self.delta().words();
        if self.added() > 0 && !added.is_empty() {
            let (first, alive) = (self.kept().rows(), self.delta().alive());
            let is_found = |row: usize| {
                alive.contains(row) && allowed.is_none_or(|allowed| allowed.contains(first + row))
            };
            questions.par_iter().zip(&mut found).try_for_each(|(question, rows)| {
                cancel.check()?;
                let mut top = TopK::new(k.min(self.len()));
                for ScoredRow { row, score } in rows.drain(..) {
                    top.offer(Candidate { score, row: row as u32 });
                }
                words.search_added(question, scoring, &added, cancel, &mut |row, score| {
                    if is_found(row) {
                        // Updates keep all rows together below u32::MAX.
                        top.offer(Candidate { score, row: (first + row) as u32 });
                    }
                })?;
                *rows = top.into_rows(k);
                Ok::<(), SparseError>(())
            })?;
        }
        self.base().check_damage()?;
        Ok(found)
    }
}
