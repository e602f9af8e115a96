//! Which passages a search may find.

use std::collections::HashSet;

use super::Condition;
use crate::{FileError, RowSet, Snapshot};
use dpr_data::Passage;

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
    /// As [`Snapshot::passage`].
    pub fn rows(&self, index: &Snapshot) -> Result<RowSet, FileError> {
        let mut built = RowSet::none(index.rows());
        let named = self.named_rows(index)?;
        let passages = index.base().passages();
        let conditioned =
            self.condition.as_ref().map(|condition| passages.rows_with(condition)).transpose()?;
        match (named, conditioned) {
            (Some(named), conditioned) => {
                let holds = |row: &u32| conditioned.as_ref().is_none_or(|rows| rows.contains(*row));
                for row in named.into_iter().filter(holds) {
                    built.insert(row as usize);
                }
            }
            (None, Some(conditioned)) => built.insert_bitmap(&conditioned),
            (None, None) => built.insert_range(0..index.kept().rows()),
        }
        let mut rows = built.intersection(index.kept());
        for (row, passage) in index.added_passages() {
            if self.allows(passage) {
                rows.insert(row);
            }
        }
        Ok(rows)
    }

    /// Returns the rows of the index as it was built with these ids and titles; `None` where none are given.
    fn named_rows(&self, index: &Snapshot) -> Result<Option<Vec<u32>>, FileError> {
        let passages = index.base().passages();
        if self.ids.is_empty() {
            let is_given = !self.titles.is_empty();
            return is_given.then(|| passages.rows_with_titles(&self.titles)).transpose();
        }
        let mut rows = Vec::new();
        for id in &self.ids {
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
