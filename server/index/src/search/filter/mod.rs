//! Which passages a search may find.

use std::collections::HashSet;

use super::Condition;
use super::SearchError;
use crate::{CancelToken, RowSet, Snapshot, StoredPassages};
use dpr_data::Passage;

/// Added passages, and ids, that are looked at between two looks at whether to stop.
const LOOK_ROWS: usize = 256;

/// Passages by what is known of them: those with one of these ids and one of these titles, where any are given, and
/// with metadata for which the condition holds. A filter without any of them allows every passage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ids, as in the corpus; none leaves all.
    pub ids: HashSet<String>,
    /// Titles, as in the corpus; none leaves all.
    pub titles: HashSet<String>,
    /// A condition on the metadata; none leaves all.
    pub condition: Option<Condition>,
}

impl Filter {
    /// Returns `true` if every passage may be found.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.titles.is_empty() && self.condition.is_none()
    }

    /// Returns `true` if a passage may be found.
    pub fn allows(&self, passage: &Passage) -> bool {
        (self.ids.is_empty() || self.ids.contains(&passage.id))
            && (self.titles.is_empty() || self.titles.contains(&passage.title))
            && self.condition.as_ref().is_none_or(|condition| condition.allows(&passage.metadata))
    }

    /// Returns the rows that may be found, of passages that were neither replaced nor deleted. Passages built in are
    /// found by the tables of the index: a line is read only where ids are looked up, and where titles' hashes collide.
    ///
    /// # Errors
    /// [`SearchError::File`], as [`Snapshot::passage`].
    pub fn rows(&self, index: &Snapshot) -> Result<RowSet, SearchError> {
        self.rows_until(index, &CancelToken::never())
    }

    /// Returns the rows as [`rows`](Self::rows) does, until `cancel` says to stop: within a few hundred lines read, or
    /// some hundred kilobytes of the tables.
    ///
    /// # Errors
    /// The errors of [`rows`](Self::rows), and [`SearchError::Stopped`].
    pub fn rows_until(&self, index: &Snapshot, cancel: &CancelToken) -> Result<RowSet, SearchError> {
        let mut built = self.built_rows(index.base().passages(), cancel)?;
        if index.rows() == built.rows() && index.removed() == 0 {
            return Ok(built);
        }
        built = index.kept().intersection(&built);
        built.extend_without(index.rows() - built.rows());
        for (at, (row, passage)) in index.added_passages().enumerate() {
            if at.is_multiple_of(LOOK_ROWS) {
                cancel.check()?;
            }
            if self.allows(passage) {
                built.insert(row);
            }
        }
        Ok(built)
    }

    /// Returns the rows of an index as it was built that may be found, until `cancel` says to stop.
    ///
    /// # Errors
    /// As [`rows_until`](Self::rows_until).
    pub fn built_rows(&self, passages: &StoredPassages, cancel: &CancelToken) -> Result<RowSet, SearchError> {
        cancel.check()?;
        let mut built = RowSet::none(passages.len());
        let named = self.named_rows(passages, cancel)?;
        let conditioned =
            self.condition.as_ref().map(|condition| passages.rows_with(condition, cancel)).transpose()?;
        match (named, conditioned) {
            (Some(named), conditioned) => {
                let holds = |row: &u32| conditioned.as_ref().is_none_or(|rows| rows.contains(*row));
                for row in named.into_iter().filter(holds) {
                    built.insert(row as usize);
                }
            }
            (None, Some(conditioned)) => built.insert_bitmap(&conditioned),
            (None, None) => built.insert_range(0..passages.len()),
        }
        Ok(built)
    }

    /// Returns the rows that a search may find: `None` for all, where there is no filter or an empty one.
    ///
    /// # Errors
    /// The errors of [`rows_until`](Self::rows_until), and [`SearchError::NothingAllowed`] where there are none.
    pub(super) fn allowed(
        filter: Option<&Self>,
        index: &Snapshot,
        cancel: &CancelToken,
    ) -> Result<Option<RowSet>, SearchError> {
        let Some(filter) = filter.filter(|filter| !filter.is_empty()) else { return Ok(None) };
        match filter.rows_until(index, cancel)? {
            rows if rows.is_empty() => Err(SearchError::NothingAllowed),
            rows => Ok(Some(rows)),
        }
    }

    /// Returns the rows of the index as it was built with these ids and titles; `None` where none are given.
    fn named_rows(
        &self,
        passages: &StoredPassages,
        cancel: &CancelToken,
    ) -> Result<Option<Vec<u32>>, SearchError> {
        if self.ids.is_empty() {
            let is_given = !self.titles.is_empty();
            return is_given.then(|| passages.rows_with_titles_until(&self.titles, cancel)).transpose();
        }
        let mut rows = Vec::new();
        for (at, id) in self.ids.iter().enumerate() {
            if at.is_multiple_of(LOOK_ROWS) {
                cancel.check()?;
            }
            if let Some(row) = passages.row_of(id)?
                && (self.titles.is_empty() || self.titles.contains(passages.title(row)?.as_ref()))
            {
                // Building and opening refuse more rows than u32 counts.
                rows.push(row as u32);
            }
        }
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests;
