//! The delta of private tables: what changed in the index since they were made of it.

use std::sync::Arc;

use dpr_core::private::encrypted::Delta;
use dpr_core::private::encrypted::delta::MOST_DELTA;
use dpr_files::lock;
use dpr_index::Snapshot;

use crate::{Tables, columns};

pub use dpr_core::private::encrypted::delta::MOST_CHANGED;

/// The most bytes of the added passages, before they are compressed: half of what a client decompresses.
const MOST_TEXT: usize = 8 << 20;

/// A delta that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The version of the index differs from the one that the tables were built from.
    #[error("the private tables are of another version of the index")]
    OtherVersion,
    /// More has changed than everybody can be asked to download.
    #[error(
        "{changed} passages have changed since the private tables were made, {bytes} bytes: at most {MOST_CHANGED} \
         passages and {most} bytes are taken"
    )]
    TooLarge {
        /// Passages that were removed or added.
        changed: usize,
        /// Bytes of the delta, or of the added passages as they are.
        bytes: usize,
        /// The greatest number of bytes.
        most: usize,
    },
}

/// The newest delta of private tables, and the rows that were rounded for it.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    made: Option<(u64, Arc<[u8]>)>,
    /// Coordinates of added rows `[any, dims]`, in the order in which they came to the index.
    codes: Vec<i8>,
}

impl Tables {
    /// Returns `true` if a delta may have so many passages.
    pub fn takes(added: usize, removed: usize) -> bool {
        added.saturating_add(removed) <= MOST_CHANGED
    }

    /// Returns what changed in the index since the tables were made of it, as everybody downloads it. It is made when
    /// the index has changed since the last call.
    ///
    /// # Errors
    /// [`DeltaError`].
    pub fn delta(&self, snapshot: &Snapshot) -> Result<Arc<[u8]>, DeltaError> {
        let base = snapshot.base();
        if base.version() != self.checked().manifest.index_version {
            return Err(DeltaError::OtherVersion);
        }
        let (changes, changed) = (snapshot.changes(), snapshot.added() + snapshot.removed());
        let too_large = |bytes, most| DeltaError::TooLarge { changed, bytes, most };
        if !Self::takes(snapshot.added(), snapshot.removed()) {
            return Err(too_large(0, MOST_DELTA));
        }
        let mut deltas = lock(&self.deltas);
        if let Some((_, made)) = deltas.made.as_ref().filter(|(of, _)| *of == changes) {
            return Ok(Arc::clone(made));
        }
        let mut lines = Vec::new();
        let mut codes = Vec::new();
        let (dims, first) = (self.checked().rank.dims(), base.passages().len());
        for (row, passage) in snapshot.added_passages() {
            lines.extend(columns::line(passage));
            if lines.len() > MOST_TEXT {
                return Err(too_large(lines.len(), MOST_TEXT));
            }
            codes.extend_from_slice(deltas.code(self, snapshot, row - first, dims));
        }
        let removed = (0..first).filter(|row| !snapshot.kept().contains(*row));
        let mut removed: Vec<u32> =
            removed.filter_map(|row| self.positions().get(row).map(|at| u32::from_le_bytes(*at))).collect();
        removed.sort_unstable();
        let texts = columns::deflate(&lines);
        let delta = Delta { changes, removed, codes, texts }.write(&self.checked().version, dims);
        if delta.len() > MOST_DELTA {
            return Err(too_large(delta.len(), MOST_DELTA));
        }
        let delta: Arc<[u8]> = delta.into();
        deltas.made = Some((changes, Arc::clone(&delta)));
        Ok(delta)
    }
}

impl Deltas {
    /// Returns the coordinates `[dims]` of the added row `row`, counted from 0; those before it are rounded too where
    /// they were not yet.
    fn code(&mut self, tables: &Tables, snapshot: &Snapshot, row: usize, dims: usize) -> &[i8] {
        let first = snapshot.base().passages().len();
        while self.codes.len() < (row + 1) * dims {
            let next = self.codes.len() / dims;
            self.codes.extend(tables.projection().code(snapshot.vector(first + next)));
        }
        &self.codes[row * dims..][..dims]
    }
}
