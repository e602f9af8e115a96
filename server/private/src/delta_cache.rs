//! The newest delta of private tables, and what is kept to make the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use dpr_core::private::encrypted::Projection;
use dpr_index::{FileError, Snapshot};

/// The newest delta of private tables, and the coordinates of the passages that were added since the tables were made.
#[derive(Debug, Default)]
pub(crate) struct DeltaCache {
    /// Changes of the newest delta, and its bytes.
    pub(crate) made: Option<(u64, Arc<[u8]>)>,
    /// Changes of the newest delta that was too large, its bytes, and the greatest number of them.
    pub(crate) too_large: Option<(u64, usize, usize)>,
    /// Coordinates `[dims]` of added rows, by row of the index.
    codes: BTreeMap<usize, Vec<i8>>,
}

impl DeltaCache {
    /// Returns the coordinates of all added passages, `[added, dims]`. Those of the last call are not computed again;
    /// those of passages that are no longer there are forgotten.
    ///
    /// # Errors
    /// As [`Snapshot::vector`].
    pub(crate) fn codes(
        &mut self,
        projection: &Projection,
        snapshot: &Snapshot,
    ) -> Result<Vec<i8>, FileError> {
        let mut known = std::mem::take(&mut self.codes);
        for (row, _) in snapshot.added_passages() {
            let code = match known.remove(&row) {
                Some(code) => code,
                None => projection.code(snapshot.vector(row)?),
            };
            self.codes.insert(row, code);
        }
        Ok(self.codes.values().flatten().copied().collect())
    }
}
