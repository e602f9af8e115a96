//! Which passages a search may find.

use std::collections::HashSet;

use crate::data::Passage;
use crate::index::{RowSet, Snapshot};

/// Passages by what is known of them: those with one of these ids and one of these titles, where any are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ids, as in the corpus; none leaves all.
    pub ids: HashSet<String>,
    /// Titles, as in the corpus; none leaves all.
    pub titles: HashSet<String>,
}

impl Filter {
    /// Whether a passage may be found.
    pub fn allows(&self, passage: &Passage) -> bool {
        (self.ids.is_empty() || self.ids.contains(&passage.id))
            && (self.titles.is_empty() || self.titles.contains(&passage.title))
    }

    /// The rows that may be found. Every passage is looked at, so it takes longer the more there are.
    pub fn rows(&self, index: &Snapshot) -> RowSet {
        let mut rows = RowSet::none(index.rows());
        let is_there = |row: &usize| index.contains(*row);
        for row in (0..index.rows()).filter(is_there).filter(|row| self.allows(index.passage(*row))) {
            rows.insert(row);
        }
        rows
    }
}
