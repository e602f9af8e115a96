//! Snapshots: an index with its updates as it was at one moment.

use std::borrow::Cow;
use std::sync::Arc;

use dpr_core::Embedding;

use super::delta::Delta;
use crate::passage_stream::{PassageStream, Passages};
use crate::ranking::{Candidate, TopK};
use crate::{CancelToken, FileError, IndexKind, LoadedIndex, QueryError, RowSet, ScoredRow, VectorIndex};
use dpr_data::Passage;

/// The share of an exact base (one of so many) up to which more rows are found in place of those that were deleted.
const MORE_UP_TO: usize = 8;

/// An index with its updates, as it was at one moment: searches of it are not touched by what comes later.
///
/// Its rows are those of the index as it was built, and after them the passages that were added, in the order they
/// came. Rows of passages that were replaced or deleted keep their numbers and are never found.
#[derive(Clone, Debug)]
pub struct Snapshot {
    base: Arc<LoadedIndex>,
    kept: Arc<RowSet>,
    delta: Delta,
    changes: u64,
}

impl Snapshot {
    /// Returns the snapshot of an index without updates.
    pub fn of(index: LoadedIndex) -> Self {
        let kept = Arc::new(RowSet::all(index.passages().len()));
        Self::new(Arc::new(index), kept, Delta::default(), 0)
    }

    pub(super) fn new(base: Arc<LoadedIndex>, kept: Arc<RowSet>, delta: Delta, changes: u64) -> Self {
        Self { base, kept, delta, changes }
    }

    /// Returns the index as it was built: its manifest and its inverted index.
    pub fn base(&self) -> &LoadedIndex {
        &self.base
    }

    pub(super) fn base_arc(&self) -> &Arc<LoadedIndex> {
        &self.base
    }

    /// Returns the rows of the base that were neither replaced nor deleted.
    pub fn kept(&self) -> &RowSet {
        &self.kept
    }

    /// Returns the number of passages that were added or replaced since the index was built, and are still there.
    pub fn added(&self) -> usize {
        self.delta.alive().len()
    }

    /// Returns the number of passages of the index as it was built that were replaced or deleted since.
    pub fn removed(&self) -> usize {
        self.kept.rows() - self.kept.len()
    }

    /// Returns the number of passages added, replaced or deleted since the index was built, one by one.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of rows, those of deleted passages included.
    pub fn rows(&self) -> usize {
        self.kept.rows() + self.delta.rows()
    }

    pub(super) fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Returns the number of rows that a search skips or scores beside the index as it was built.
    pub(super) fn burden(&self) -> usize {
        self.delta.rows() + self.removed()
    }

    /// Returns `true` if a row's passage was neither replaced nor deleted.
    pub fn contains(&self, row: usize) -> bool {
        match row.checked_sub(self.kept.rows()) {
            None => self.kept.contains(row),
            Some(row) => self.delta.alive().contains(row),
        }
    }

    /// Returns the passage of a row.
    ///
    /// # Errors
    /// As [`StoredPassages::get`](crate::StoredPassages::get).
    ///
    /// # Panics
    /// When `row` is not below [`rows`](Self::rows); rows that a search returned are.
    pub fn passage(&self, row: usize) -> Result<Passage, FileError> {
        match row.checked_sub(self.kept.rows()) {
            None => self.base.passage(row),
            Some(row) => Ok(self.delta.passage(row).clone()),
        }
    }

    /// Returns the passages that were added and are alive, with their rows.
    pub fn added_passages(&self) -> impl Iterator<Item = (usize, &Passage)> {
        let first = self.kept.rows();
        self.delta.alive().iter().map(move |row| (first + row, self.delta.passage(row)))
    }

    /// Returns all passages that are alive, with their vectors, in the order of the rows.
    pub fn passages(&self) -> impl Iterator<Item = Result<(Passage, &[f32]), FileError>> {
        self.stream().zip(self.vectors()).map(|(passage, vector)| Ok((passage?.into_owned(), vector?)))
    }

    /// Returns all passages that are alive, in the order of the rows; those of the base are read when they are asked
    /// for.
    pub(crate) fn stream(&self) -> impl Iterator<Item = Result<Cow<'_, Passage>, FileError>> {
        let of_base = |row| Ok(Cow::Owned(self.base.passage(row)?));
        let of_delta = |row| Ok(Cow::Borrowed(self.delta.passage(row)));
        self.kept.iter().map(of_base).chain(self.delta.alive().iter().map(of_delta))
    }

    /// Returns the vector `[dim]` of a row.
    ///
    /// # Errors
    /// As [`LoadedIndex::vector`].
    ///
    /// # Panics
    /// As [`passage`](Self::passage).
    pub fn vector(&self, row: usize) -> Result<&[f32], FileError> {
        match row.checked_sub(self.kept.rows()) {
            None => self.base.vector(row),
            Some(row) => Ok(self.delta.vector(row)),
        }
    }

    /// Returns the vectors of all passages that are alive, in the order of the rows; each may fail as
    /// [`vector`](Self::vector) does.
    pub fn vectors(&self) -> impl Iterator<Item = Result<&[f32], FileError>> {
        let of_base = self.kept.iter().map(|row| self.base.vector(row));
        of_base.chain(self.delta.alive().iter().map(|row| Ok(self.delta.vector(row))))
    }

    /// Searches as [`VectorIndex::search`] does, but scores every passage, whatever the kind of the index.
    ///
    /// # Errors
    /// The errors of [`VectorIndex::search`].
    pub fn search_exactly(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, QueryError> {
        self.search_both(&self.base.exact()?, query, k, None, &CancelToken::never())
    }

    /// Returns the best `k` rows of the base by `index`, of those that are kept and `allowed`.
    fn search_base(
        &self,
        index: &dyn VectorIndex,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        if let Some(allowed) = allowed {
            let both = self.kept.intersection(allowed);
            return index.search_until(query, k, Some(&both), cancel);
        }
        if self.removed() == 0 {
            return index.search_until(query, k, None, cancel);
        }
        // Exact search reads all rows in one sweep; picking out those that are kept is slower than a few more results.
        let mut depth = k.saturating_mul(2);
        while index.kind() == IndexKind::Exact && depth < index.len() / MORE_UP_TO {
            let mut found = index.search_until(query, depth, None, cancel)?;
            found.retain(|hit| self.kept.contains(hit.row));
            if found.len() >= k {
                found.truncate(k);
                return Ok(found);
            }
            depth *= 4;
        }
        index.search_until(query, k, Some(&self.kept), cancel)
    }

    fn search_both(
        &self,
        index: &dyn VectorIndex,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        self.base.check_query(query, k)?;
        self.delta.check(query)?;
        let found = match self.kept.is_empty() {
            true => self.base.check_damage().map(|()| Vec::new())?,
            false => self.search_base(index, query, k, allowed, cancel)?,
        };
        if self.delta.alive().is_empty() {
            return Ok(found);
        }
        let mut top = TopK::new(k.min(self.len()));
        for ScoredRow { row, score } in found {
            top.offer(Candidate { score, row: row as u32 });
        }
        let first = self.kept.rows();
        let is_allowed = |row: usize| allowed.is_none_or(|allowed| allowed.contains(first + row));
        self.delta.scan(query, first, is_allowed, &mut top, cancel)?;
        Ok(top.into_rows(k))
    }
}

impl VectorIndex for Snapshot {
    fn dim(&self) -> usize {
        self.base.index.dim()
    }

    /// Passages that are there.
    fn len(&self) -> usize {
        self.kept.len() + self.added()
    }

    fn kind(&self) -> IndexKind {
        self.base.index.kind()
    }

    fn search_until(
        &self,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        self.search_both(self.base.index.as_ref(), query, k, allowed, cancel)
    }

    fn cost(&self, queries: usize, k: usize, filtered: bool) -> u64 {
        let (base, added) = (&self.base.index, self.delta.rows() as u64 * self.dim() as u64);
        if self.burden() == 0 {
            return base.cost(queries, k, filtered);
        }
        // Each on its own, as `search_batch_until` does.
        queries as u64 * (base.cost(1, k, filtered) + added)
    }

    /// Many at once are quicker on the index as it was built, where that is all there is.
    fn search_batch_until(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        use rayon::prelude::*;
        if self.burden() == 0 {
            return self.base.index.search_batch_until(queries, k, cancel);
        }
        queries.par_iter().map(|query| self.search_until(query, k, None, cancel)).collect()
    }
}

impl PassageStream for Snapshot {
    fn count(&self) -> usize {
        self.len()
    }

    fn passages(&self) -> Box<Passages<'_>> {
        Box::new(self.stream())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{DIM, build, new};
    use crate::{IndexWriter, VectorIndex as _};

    #[test]
    fn questions_together_cost_less_than_each_on_its_own_only_while_nothing_has_changed() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 2000);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        let cost = |questions| writer.live().snapshot().cost(questions, 10, false);
        let one = cost(1);
        assert!(cost(64) < 64 * one);
        writer.delete(vec!["p1".to_owned()]).unwrap();
        assert_eq!((cost(1), cost(64)), (one, 64 * one));
        writer.put(vec![new("a", 1)]).unwrap();
        assert_eq!(cost(64), 64 * (one + DIM as u64));
    }
}
