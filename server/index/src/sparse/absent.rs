//! The sparse index of a build without the feature `sparse`: there is none, and what asks for one is told so.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::passage_stream::PassageStream;
use dpr_data::Passage;
use dpr_files::progress::Progress;

use super::{Analyzer, Scoring, SparseError, SparseOptions, WordIndex};
use crate::ranking::ScoredRow;
use crate::{CancelToken, RowSet};

/// An inverted index; no value of it exists in this build.
#[derive(Debug)]
pub enum SparseIndex {}

/// The terms of added passages; no value of it exists in this build.
#[derive(Clone, Debug)]
pub enum AddedWords {}

impl SparseIndex {
    /// Refuses to open an inverted index.
    ///
    /// # Errors
    /// [`SparseError::NotBuiltIn`], always.
    pub fn open(_: &Path, _: Analyzer, _: usize) -> Result<Self, SparseError> {
        Err(SparseError::NotBuiltIn)
    }

    /// Returns how text became terms.
    pub fn analyzer(&self) -> Analyzer {
        match *self {}
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        match *self {}
    }

    /// Returns whether there are no passages.
    pub fn is_empty(&self) -> bool {
        match *self {}
    }

    /// Ranks by shared words.
    ///
    /// # Errors
    /// None: no value of this type exists.
    pub fn search(&self, _: &str, _: usize, _: Scoring) -> Result<Vec<ScoredRow>, SparseError> {
        match *self {}
    }

    /// Scores added passages.
    ///
    /// # Errors
    /// None: no value of this type exists.
    pub fn search_added(
        &self,
        _: &str,
        _: Scoring,
        _: &[(usize, &AddedWords)],
        _: &CancelToken,
        _: &mut dyn FnMut(usize, f32),
    ) -> Result<(), SparseError> {
        match *self {}
    }
}

impl WordIndex for SparseIndex {
    fn search_batch_until(
        &self,
        _: &[&str],
        _: usize,
        _: Scoring,
        _: Option<&RowSet>,
        _: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        match *self {}
    }
}

impl AddedWords {
    /// Returns the terms of passages that are added to `index`.
    ///
    /// # Errors
    /// None: no index exists.
    pub fn of<'a>(index: &SparseIndex, _: impl Iterator<Item = &'a Passage>) -> Result<Self, SparseError> {
        match *index {}
    }

    /// Returns these terms with those of `_more`.
    #[must_use]
    pub fn join(&self, _more: &Self) -> Self {
        match *self {}
    }
}

impl Analyzer {
    /// Returns 0: this build reads the lists of no term.
    pub(crate) fn count_distinct_terms(self, _: &str) -> usize {
        0
    }
}

/// Refuses to build an inverted index.
///
/// # Errors
/// [`SparseError::NotBuiltIn`], always.
pub(crate) fn write_sparse(
    _: &Path,
    _: &dyn PassageStream,
    _: SparseOptions,
    _: &AtomicBool,
    _: &dyn Progress,
) -> Result<(), SparseError> {
    Err(SparseError::NotBuiltIn)
}

/// Passages between two looks at the stop flag and at the progress.
pub(crate) const STEP: usize = 1024;

/// The writer of an inverted index; no value of it exists in this build.
pub(crate) enum SparseWriter {}

impl SparseWriter {
    pub(crate) fn new(_: &Path, _: SparseOptions) -> Result<Self, SparseError> {
        Err(SparseError::NotBuiltIn)
    }

    pub(crate) fn add(&mut self, _: &Passage) -> Result<(), SparseError> {
        match *self {}
    }

    pub(crate) fn rows(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn finish(self) -> Result<(), SparseError> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use dpr_core::Embedding;
    use dpr_core::model::sha256_hex;
    use dpr_files::progress::Silent;
    use fs_err as fs;

    use super::*;
    use crate::search::Backend as _;
    use crate::vectors::VectorSet;
    use crate::{
        IndexOptions, IndexReader, IndexWriter, LoadedSparse, OpenError, VectorIndex as _, build_index,
    };

    /// Builds an index of one passage whose manifest names an inverted index with one file.
    fn build(dir: &Path) {
        let set = VectorSet::new("ab".repeat(32), 2, vec![Passage::new("a", "", "Text.")], vec![1.0, 0.5]);
        build_index(&set, dir, &IndexOptions::default(), &Silent).unwrap();
        let version = dir.join("v-1");
        fs::create_dir(version.join("sparse")).unwrap();
        fs::write(version.join("sparse/meta.json"), "{}").unwrap();
        let path = version.join("manifest.json");
        let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["sparse"] = serde_json::json!({ "analyzer": "english" });
        manifest["files"]["sparse/meta.json"] =
            serde_json::json!({ "bytes": 2, "sha256": sha256_hex(b"{}") });
        let (manifest, current) = (manifest.to_string(), dir.join("current"));
        fs::remove_file(&path).unwrap();
        fs::write(&path, &manifest).unwrap();
        fs::remove_file(&current).unwrap();
        fs::write(&current, format!("v-1 {}\n", sha256_hex(manifest.as_bytes()))).unwrap();
    }

    #[test]
    fn an_index_with_words_is_searched_by_vectors_and_is_not_damaged() {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path());
        let question = [Embedding::new(vec![1.0, 0.0], 2).unwrap()];
        for reader in [IndexReader::open(dir.path()), IndexReader::open_unchecked(dir.path())] {
            let reader = reader.unwrap();
            let snapshot = reader.snapshot();
            assert!(!snapshot.base().has_sparse() && snapshot.base().sparse().unwrap().is_none());
            assert_eq!(reader.live().search(&question, 1, None).unwrap()[0][0].id, "a");
            assert_eq!((reader.live().health().damaged, snapshot.len()), (None, 1));
        }
    }

    #[test]
    fn searches_by_words_and_changes_are_told_that_this_build_has_no_words() {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path());
        let is_refused = |error: &OpenError| matches!(error, OpenError::Sparse(SparseError::NotBuiltIn));
        let [words, writer] = [
            LoadedSparse::open(dir.path()).map(drop).unwrap_err(),
            IndexWriter::open_unchecked(dir.path(), "a test").map(drop).unwrap_err(),
        ];
        assert!(is_refused(&words) && is_refused(&writer), "{words} {writer}");
    }
}
