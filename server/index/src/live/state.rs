//! The mutable state of a live index: the version as it was built, the tombstones of passages that were replaced or
//! deleted, and the delta (memtable) of passages that were added.
//!
//! One writer or one reader owns a [`State`] and applies the changes of the write-ahead log to it; searches look at the
//! [`Snapshot`]s it gives.

use std::collections::HashMap;
use std::sync::Arc;

use super::delta::Delta;
use super::{NewPassage, Snapshot};
use crate::sparse::SparseError;
use crate::wal::reader::ApplyError;
use crate::wal::record::Change;
use crate::{FileError, LoadedIndex, OpenError, RowSet};

/// The state of an index after some number of changes.
#[derive(Debug)]
pub(super) struct State {
    base: Arc<LoadedIndex>,
    /// Rows of the base without a tombstone: neither replaced nor deleted.
    kept: Arc<RowSet>,
    delta: Delta,
    /// The row in the delta of each passage that is alive there.
    added: HashMap<String, usize>,
    changes: u64,
}

/// A change whose id was looked up in the version as it was built. That reads passages, so that it is done before the
/// state is locked.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) change: Change,
    /// The row of the passage with this id in the base, with or without a tombstone.
    row: Option<usize>,
}

/// The row of a passage that is alive.
enum Place {
    Base(usize),
    Delta(usize),
}

impl Resolved {
    /// Looks the id of a change up.
    ///
    /// # Errors
    /// As [`StoredPassages::row_of`](crate::StoredPassages::row_of).
    pub(super) fn of(change: Change, base: &LoadedIndex) -> Result<Self, FileError> {
        let mut resolved = Self { change, row: None };
        resolved.look_up(base)?;
        Ok(resolved)
    }

    /// Looks the id up in another version.
    ///
    /// # Errors
    /// As [`StoredPassages::row_of`](crate::StoredPassages::row_of).
    pub(super) fn look_up(&mut self, base: &LoadedIndex) -> Result<(), FileError> {
        self.row = base.passages().row_of(self.id())?;
        Ok(())
    }

    /// Returns the row that was found.
    #[cfg(test)]
    pub(super) fn row(&self) -> Option<usize> {
        self.row
    }

    /// Returns the id of the passage that is changed.
    pub(super) fn id(&self) -> &str {
        self.change.id()
    }
}

impl State {
    /// Starts from an index as it was built.
    pub(super) fn new(base: Arc<LoadedIndex>) -> Self {
        let kept = Arc::new(RowSet::all(base.passages().len()));
        Self { base, kept, delta: Delta::default(), added: HashMap::new(), changes: 0 }
    }

    /// Returns the index as it was built.
    pub(super) fn base(&self) -> &Arc<LoadedIndex> {
        &self.base
    }

    /// Returns the passages that were added.
    pub(super) fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Returns `true` if no passage is alive.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.delta.alive().is_empty()
    }

    /// Returns the number of rows, alive or not.
    pub(super) fn rows(&self) -> usize {
        self.kept.rows() + self.delta.rows()
    }

    /// Returns `true` if a passage with the id of `change`, which was looked up in this base, is alive.
    pub(super) fn contains(&self, change: &Resolved) -> bool {
        self.find(change).is_some()
    }

    /// Returns the state as searches look at it.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let (base, kept) = (Arc::clone(&self.base), Arc::clone(&self.kept));
        Arc::new(Snapshot::new(base, kept, self.delta.clone(), self.changes))
    }

    /// Applies changes in their order.
    ///
    /// # Errors
    /// [`ApplyError`]: the changes were not made for this state, or a file of the base cannot be read. The state is
    /// then unusable.
    pub(super) fn apply(&mut self, changes: Vec<Change>) -> Result<(), ApplyError> {
        let resolved = changes.into_iter().map(|change| Resolved::of(change, &self.base));
        let resolved = resolved.collect::<Result<_, _>>()?;
        self.apply_resolved(resolved)
    }

    /// Applies changes whose ids were looked up in this base, as [`apply`](Self::apply) does.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(super) fn apply_resolved(&mut self, changes: Vec<Resolved>) -> Result<(), ApplyError> {
        let (mut new, mut dead): (Vec<NewPassage>, Vec<usize>) = (Vec::new(), Vec::new());
        for resolved in changes {
            let known = self.find(&resolved);
            match known {
                Some(Place::Base(row)) => {
                    Arc::make_mut(&mut self.kept).remove(row);
                }
                Some(Place::Delta(row)) => {
                    dead.push(row);
                    self.added.remove(resolved.id());
                }
                None if matches!(resolved.change, Change::Delete(_)) => {
                    let reason = format!("it deletes `{}`, which is not there", resolved.id());
                    return Err(ApplyError::Changes(reason));
                }
                None => {}
            }
            if let Change::Put(passage) = resolved.change {
                self.added.insert(passage.passage.id.clone(), self.delta.rows() + new.len());
                new.push(passage);
            }
            self.changes += 1;
        }
        let (dim, words) = (self.base.manifest.dim, self.base.sparse()?);
        self.delta.change(new, &dead, dim, words).map_err(|error| match error {
            OpenError::File(error) | OpenError::Sparse(SparseError::File(error)) => error.into(),
            OpenError::Sparse(SparseError::Search(source)) => FileError::Read(source).into(),
            error => ApplyError::Changes(error.to_string()),
        })
    }

    fn find(&self, change: &Resolved) -> Option<Place> {
        if let Some(row) = self.added.get(change.id()) {
            return Some(Place::Delta(*row));
        }
        change.row.filter(|row| self.kept.contains(*row)).map(Place::Base)
    }
}
