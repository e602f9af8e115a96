//! The delta of private tables: what changed in the index since they were made of it.

use std::sync::Arc;

use dpr_core::private::encrypted::Delta;
use dpr_core::private::encrypted::delta::MOST_TEXT;
use dpr_files::lock;
use dpr_index::{FileError, Snapshot};

use crate::{Tables, columns};

pub use dpr_core::private::encrypted::delta::{MOST_CHANGED, MOST_DELTA};

/// A delta that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The version of the index differs from the one that the tables were built from.
    #[error("the private tables are of another version of the index")]
    OtherVersion,
    /// A vector cannot be read.
    #[error("{0}")]
    File(#[from] FileError),
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
        // What cannot be made is asked for by everybody all the same.
        if let Some((_, bytes, most)) = deltas.too_large.filter(|(of, ..)| *of == changes) {
            return Err(too_large(bytes, most));
        }
        let mut lines = Vec::new();
        for (_, passage) in snapshot.added_passages() {
            lines.extend(columns::line(passage));
            if lines.len() > MOST_TEXT {
                deltas.too_large = Some((changes, lines.len(), MOST_TEXT));
                return Err(too_large(lines.len(), MOST_TEXT));
            }
        }
        let codes = deltas.codes(self.projection(), snapshot)?;
        let removed = (0..base.passages().len()).filter(|row| !snapshot.kept().contains(*row));
        let mut removed: Vec<u32> =
            removed.filter_map(|row| self.positions().get(row).map(|at| u32::from_le_bytes(*at))).collect();
        removed.sort_unstable();
        let texts = columns::deflate(&lines);
        let delta = Delta { changes, removed, codes, texts }
            .write(&self.checked().version, self.checked().rank.dims());
        if delta.len() > MOST_DELTA {
            deltas.too_large = Some((changes, delta.len(), MOST_DELTA));
            return Err(too_large(delta.len(), MOST_DELTA));
        }
        let delta: Arc<[u8]> = delta.into();
        deltas.made = Some((changes, Arc::clone(&delta)));
        Ok(delta)
    }
}
