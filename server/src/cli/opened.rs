//! Index directories as a ranking reads them: by vectors and words, or by words alone.

use std::sync::Arc;

use dpr_data::Passage;
use dpr_index::search::{Filter, Searcher};
#[cfg(feature = "train")]
use dpr_index::sparse::SparseIndex;
use dpr_index::sparse::WordIndex;
use dpr_index::{CancelToken, FileError, LoadedSparse, RowSet, Snapshot, VectorIndex};

use super::CliError;

/// An index directory that is open.
pub(super) trait Opened {
    /// Returns the passage of a row.
    fn passage(&self, row: usize) -> Result<Passage, FileError>;

    /// Reads all passages, by row: built-in ones, then added ones.
    fn read_passages(&self) -> Result<Vec<Passage>, FileError>;

    /// Returns the rows that a filter allows.
    fn allowed(&self, filter: &Filter) -> Result<RowSet, CliError>;

    /// Returns the inverted index, where there is one, with what was added to it.
    fn word_index(&self) -> Option<&dyn WordIndex>;

    /// Returns the vectors and what else is known of them, where vectors are compared.
    fn searcher(&self) -> Option<&Searcher> {
        None
    }

    /// Returns a fingerprint of the contents; empty for words with updates, which have none.
    #[cfg(feature = "train")]
    fn version(&self) -> &str;

    /// Returns the inverted index of the passages as they were built in.
    #[cfg(feature = "train")]
    fn built_words(&self) -> Result<Option<&SparseIndex>, FileError>;
}

/// Vectors, and words where there are some.
impl Opened for Searcher {
    fn passage(&self, row: usize) -> Result<Passage, FileError> {
        self.snapshot().passage(row)
    }

    fn read_passages(&self) -> Result<Vec<Passage>, FileError> {
        all(self.snapshot())
    }

    fn allowed(&self, filter: &Filter) -> Result<RowSet, CliError> {
        Ok(filter.rows(self.snapshot())?)
    }

    fn word_index(&self) -> Option<&dyn WordIndex> {
        self.index().has_sparse().then_some(self.snapshot())
    }

    fn searcher(&self) -> Option<&Searcher> {
        Some(self)
    }

    #[cfg(feature = "train")]
    fn version(&self) -> &str {
        self.index().version()
    }

    #[cfg(feature = "train")]
    fn built_words(&self) -> Result<Option<&SparseIndex>, FileError> {
        self.index().sparse()
    }
}

/// Words as they were built, without the vectors beside them.
impl Opened for LoadedSparse {
    fn passage(&self, row: usize) -> Result<Passage, FileError> {
        self.passages.get(row)
    }

    fn read_passages(&self) -> Result<Vec<Passage>, FileError> {
        self.passages.read_all()
    }

    fn allowed(&self, filter: &Filter) -> Result<RowSet, CliError> {
        Ok(filter.built_rows(&self.passages, &CancelToken::never())?)
    }

    fn word_index(&self) -> Option<&dyn WordIndex> {
        Some(&self.index)
    }

    #[cfg(feature = "train")]
    fn version(&self) -> &str {
        LoadedSparse::version(self)
    }

    #[cfg(feature = "train")]
    fn built_words(&self) -> Result<Option<&SparseIndex>, FileError> {
        Ok(Some(&self.index))
    }
}

/// Words with updates.
impl Opened for Arc<Snapshot> {
    fn passage(&self, row: usize) -> Result<Passage, FileError> {
        Snapshot::passage(self, row)
    }

    fn read_passages(&self) -> Result<Vec<Passage>, FileError> {
        all(self)
    }

    fn allowed(&self, filter: &Filter) -> Result<RowSet, CliError> {
        Ok(filter.rows(self)?)
    }

    fn word_index(&self) -> Option<&dyn WordIndex> {
        Some(self.as_ref())
    }

    #[cfg(feature = "train")]
    fn version(&self) -> &str {
        ""
    }

    #[cfg(feature = "train")]
    fn built_words(&self) -> Result<Option<&SparseIndex>, FileError> {
        Ok(None)
    }
}

/// Returns the vectors that an index compares.
pub(super) fn vectors(opened: &dyn Opened) -> Option<&dyn VectorIndex> {
    Some(opened.searcher()?.snapshot())
}

/// The passages of all rows.
fn all(snapshot: &Snapshot) -> Result<Vec<Passage>, FileError> {
    let mut passages = snapshot.base().passages().read_all()?;
    let added = (passages.len()..snapshot.rows()).map(|row| snapshot.passage(row));
    passages.extend(added.collect::<Result<Vec<_>, _>>()?);
    Ok(passages)
}
