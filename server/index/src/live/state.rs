//! The mutable state of a live index: the version as it was built, the tombstones of passages that were replaced or
//! deleted, and the delta (memtable) of passages that were added.
//!
//! One writer or one reader owns a [`State`] and applies the changes of the write-ahead log to it; searches look at the
//! [`Snapshot`]s it gives.

use std::collections::HashMap;
use std::sync::Arc;

use super::delta::Delta;
use super::wal::record::Change;
use super::{NewPassage, Snapshot};
use crate::{FileError, LoadedIndex, RowSet};

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

/// The row of a passage that is alive.
enum Place {
    Base(usize),
    Delta(usize),
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

    /// Returns the number of rows, alive or not.
    pub(super) fn rows(&self) -> usize {
        self.kept.rows() + self.delta.rows()
    }

    /// Returns `true` if a passage with this id is alive.
    ///
    /// # Errors
    /// As [`StoredPassages::row_of`](crate::StoredPassages::row_of).
    pub(super) fn contains(&self, id: &str) -> Result<bool, FileError> {
        Ok(self.find(id)?.is_some())
    }

    /// Returns the state as searches look at it.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let (base, kept) = (Arc::clone(&self.base), Arc::clone(&self.kept));
        Arc::new(Snapshot::new(base, kept, self.delta.clone(), self.changes))
    }

    /// Applies changes in their order.
    ///
    /// # Errors
    /// A sentence that says what is wrong, when the changes were not made for this state; the state is then unusable.
    pub(super) fn apply(&mut self, changes: Vec<Change>) -> Result<(), String> {
        let (mut new, mut dead): (Vec<NewPassage>, Vec<usize>) = (Vec::new(), Vec::new());
        for change in changes {
            let known = self.find(change.id()).map_err(|error| error.to_string())?;
            match known {
                Some(Place::Base(row)) => {
                    Arc::make_mut(&mut self.kept).remove(row);
                }
                Some(Place::Delta(row)) => {
                    dead.push(row);
                    self.added.remove(change.id());
                }
                None if matches!(change, Change::Delete(_)) => {
                    return Err(format!("it deletes `{}`, which is not there", change.id()));
                }
                None => {}
            }
            if let Change::Put(passage) = change {
                self.added.insert(passage.passage.id.clone(), self.delta.rows() + new.len());
                new.push(passage);
            }
            self.changes += 1;
        }
        let (dim, words) = (self.base.manifest.dim, self.base.sparse());
        self.delta.change(new, &dead, dim, words).map_err(|error| error.to_string())
    }

    fn find(&self, id: &str) -> Result<Option<Place>, FileError> {
        if let Some(row) = self.added.get(id) {
            return Ok(Some(Place::Delta(*row)));
        }
        let row = self.base.passages().row_of(id)?;
        Ok(row.filter(|row| self.kept.contains(*row)).map(Place::Base))
    }
}
