//! Which passages a search may find.

use std::collections::HashSet;

use crate::{FileError, RowSet, Snapshot};
use dpr_data::Passage;

/// Passages by what is known of them: those with one of these ids and one of these titles, where any are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ids, as in the corpus; none leaves all.
    pub ids: HashSet<String>,
    /// Titles, as in the corpus; none leaves all.
    pub titles: HashSet<String>,
}

impl Filter {
    /// Returns `true` if a passage may be found.
    pub fn allows(&self, passage: &Passage) -> bool {
        (self.ids.is_empty() || self.ids.contains(&passage.id))
            && (self.titles.is_empty() || self.titles.contains(&passage.title))
    }

    /// The rows that may be found. Passages with other ids and titles are not read.
    ///
    /// # Errors
    /// As [`Snapshot::passage`].
    pub fn rows(&self, index: &Snapshot) -> Result<RowSet, FileError> {
        let (built, first_added) = (index.base().passages(), index.kept().rows());
        let mut candidates: Vec<usize> = match (self.ids.is_empty(), self.titles.is_empty()) {
            (true, true) => (0..first_added).collect(),
            (true, false) => built.rows_like_titles(&self.titles)?,
            (false, _) => {
                let rows = self.ids.iter().map(|id| built.row_of(id));
                rows.filter_map(Result::transpose).collect::<Result<_, _>>()?
            }
        };
        candidates.extend(first_added..index.rows());
        let mut rows = RowSet::none(index.rows());
        for row in candidates {
            if index.contains(row) && self.allows(&index.passage(row)?) {
                rows.insert(row);
            }
        }
        Ok(rows)
    }
}
