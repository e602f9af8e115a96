//! What is live: the index as built, what is left of it, and what came since. Writers and followers change it;
//! searches look at snapshots.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::change::Change;
use super::delta::Delta;
use super::{NewPassage, Snapshot};
use crate::index::{LoadedIndex, RowSet};

/// The state after some number of changes.
#[derive(Debug)]
pub(super) struct State {
    base: Arc<LoadedIndex>,
    /// Rows of the base by the ids of their passages, for look-ups.
    by_id: Vec<u32>,
    /// Rows of the base that were neither replaced nor deleted.
    kept: Arc<RowSet>,
    delta: Delta,
    /// Row in the delta of each passage that is alive there.
    added: HashMap<String, usize>,
    changes: u64,
}

/// Where a passage is.
enum Place {
    Base(usize),
    Delta(usize),
}

impl State {
    /// An index as it was built.
    pub(super) fn new(base: Arc<LoadedIndex>) -> Self {
        let passages = base.passages();
        // Building and opening refuse more rows than u32 counts.
        let mut by_id: Vec<u32> = (0..passages.len() as u32).collect();
        by_id.par_sort_unstable_by_key(|row| passages[*row as usize].id.as_str());
        let kept = Arc::new(RowSet::all(passages.len()));
        Self { base, by_id, kept, delta: Delta::default(), added: HashMap::new(), changes: 0 }
    }

    /// The index as it was built.
    pub(super) fn base(&self) -> &Arc<LoadedIndex> {
        &self.base
    }

    /// Rows, live or not.
    pub(super) fn rows(&self) -> usize {
        self.kept.rows() + self.delta.rows()
    }

    /// Whether a passage is live.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    /// What searches look at.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let (base, kept) = (Arc::clone(&self.base), Arc::clone(&self.kept));
        Arc::new(Snapshot::new(base, kept, self.delta.clone(), self.changes))
    }

    /// Applies changes in their order.
    ///
    /// # Errors
    /// What is wrong with them, when they were not made for this state; it is of no use then.
    pub(super) fn apply(&mut self, changes: Vec<Change>) -> Result<(), String> {
        let (mut new, mut dead): (Vec<NewPassage>, Vec<usize>) = (Vec::new(), Vec::new());
        for change in changes {
            let known = self.find(change.id());
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

    fn find(&self, id: &str) -> Option<Place> {
        if let Some(row) = self.added.get(id) {
            return Some(Place::Delta(*row));
        }
        let of = |row: &u32| self.base.passage(*row as usize).id.as_str();
        let at = self.by_id.binary_search_by(|row| of(row).cmp(id)).ok()?;
        let row = self.by_id[at] as usize;
        self.kept.contains(row).then_some(Place::Base(row))
    }
}
