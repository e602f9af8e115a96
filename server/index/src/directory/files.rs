//! The files of a version, each checked before it is used: when it is opened, or when it is first read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::{FileEntry, sha256_hex};

use super::columns::Columns;
use super::pointer::{GRAPH, MANIFEST, METADATA, PASSAGES, PASSAGES_TABLE, SPARSE, VECTORS, VECTORS_BLOCKS};
use crate::deferred::{CheckedFile, Damage};
use crate::hnsw::Graph;
use crate::quantized::AnyQuantized;
use crate::sparse::SparseIndex;
use crate::vectors::blocks::{Blocks, are_finite};
use crate::vectors::{Rows, is_squared_norm};
use crate::{
    ExactIndex, FileError, HnswIndex, IndexKind, IndexManifest, Matrix, OpenError, Storage, StoredPassages,
    VectorIndex,
};
use dpr_files::{Mapped, digest};

/// The files of a version, by its manifest.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    manifest: IndexManifest,
}

/// The index of the vectors, and the quantized vectors by which it chooses rows: a copy of them, or two for a graph.
pub(crate) type Searchable = (Box<dyn VectorIndex>, Vec<AnyQuantized>);

impl Files {
    pub(super) fn new(dir: PathBuf, manifest: IndexManifest) -> Self {
        Self { dir, manifest }
    }

    /// Opens the passages.
    pub(crate) fn passages(&self) -> Result<StoredPassages, FileError> {
        self.passages_of(CheckedFile::checked(self.map_checked(PASSAGES)?))
    }

    /// Opens the passages, whose texts are checked when one is first read.
    pub(crate) fn passages_unchecked(&self, damage: &Arc<Damage>) -> Result<StoredPassages, FileError> {
        let files = self.clone();
        let check = move |file: &Mapped| files.check(PASSAGES, file, |_| {});
        self.passages_of(CheckedFile::unchecked(self.map(PASSAGES)?, damage, check))
    }

    fn passages_of(&self, text: CheckedFile) -> Result<StoredPassages, FileError> {
        let (path, table) = (self.dir.join(PASSAGES), self.dir.join(PASSAGES_TABLE));
        let stored = self.map_since_format(3, PASSAGES_TABLE)?.map(|file| (table.as_path(), file));
        let columns = self.map_since_format(4, METADATA)?;
        let columns = columns.map(|file| Columns::open(&self.dir.join(METADATA), file, self.manifest.count));
        StoredPassages::open(&path, text, stored, self.manifest.count, columns.transpose()?)
    }

    /// Opens the vectors.
    pub(crate) fn matrix(&self, passages: &StoredPassages) -> Result<Matrix, OpenError> {
        let IndexManifest { count, dim, max_squared_norm, .. } = self.manifest;
        // Looked at while the checksum is made, which reads them all.
        let is_finite = AtomicBool::new(true);
        let look = |piece: &[u8]| {
            if !are_finite(piece) {
                is_finite.store(false, Ordering::Relaxed);
            }
        };
        let file = self.map(VECTORS)?;
        self.check(VECTORS, &file, look)?;
        if self.manifest.files.contains_key(VECTORS_BLOCKS) {
            self.map_checked(VECTORS_BLOCKS)?;
        }
        self.check_count(&file)?;
        let is_known = self.manifest.crc32.contains_key(VECTORS)
            && is_finite.into_inner()
            && is_squared_norm(max_squared_norm);
        let id_of = |row| passages.id(row).unwrap_or_default();
        let rows = Rows::of_file(file);
        match is_known {
            true => Ok(Matrix::of_checked(rows, count, dim, max_squared_norm)?),
            false => Ok(Matrix::new(rows, count, dim, id_of)?),
        }
    }

    /// Opens the vectors, whose blocks are checked when a vector of theirs is first read. Returns `None` where the
    /// version has no checksums of blocks, the manifest's norm is none that vectors may have, or the machine is
    /// big-endian.
    pub(crate) fn matrix_unchecked(&self, damage: &Arc<Damage>) -> Result<Option<Matrix>, OpenError> {
        let IndexManifest { count, dim, max_squared_norm, .. } = self.manifest;
        // Scores are bounded by this norm, so that it must be one that a vector may have.
        if !self.manifest.files.contains_key(VECTORS_BLOCKS) || !is_squared_norm(max_squared_norm) {
            return Ok(None);
        }
        let (file, sums) = (self.map(VECTORS)?, self.map_checked(VECTORS_BLOCKS)?);
        self.check_count(&file)?;
        if file.numbers().is_none() {
            return Ok(None);
        }
        let blocks = Blocks::new(&self.dir.join(VECTORS), sums.bytes(), file.bytes().len(), damage);
        let blocks = blocks.map_err(|reason| FileError::corrupt(&self.dir.join(VECTORS_BLOCKS), reason))?;
        let rows = Rows::of_blocks(file, blocks);
        Ok(Some(Matrix::of_checked(rows, count, dim, max_squared_norm)?))
    }

    fn check_count(&self, vectors: &Mapped) -> Result<(), OpenError> {
        let IndexManifest { count, dim, .. } = self.manifest;
        if count.checked_mul(dim).and_then(|numbers| numbers.checked_mul(4)) == Some(vectors.bytes().len()) {
            return Ok(());
        }
        let got = vectors.bytes().len() / 4 / dim.max(1);
        Err(OpenError::Count { path: self.dir.join(VECTORS), expected: count, got })
    }

    /// Opens the index of the vectors: its quantized vectors and its graph, where it has these.
    pub(crate) fn searchable(&self, matrix: &Arc<Matrix>) -> Result<Searchable, FileError> {
        let mut codes = Vec::new();
        for storage in self.manifest.quantized() {
            codes.extend(self.codes(matrix, storage)?);
        }
        let index: Box<dyn VectorIndex> = match (self.manifest.kind, self.manifest.hnsw, codes.as_slice()) {
            (IndexKind::Hnsw, Some(params), [AnyQuantized::Int8(codes), signs @ ..]) => {
                let signs = signs.iter().find_map(|codes| match codes {
                    AnyQuantized::Binary(signs) => Some(Arc::clone(signs)),
                    _ => None,
                });
                let (matrix, graph) = (Arc::clone(matrix), self.graph()?);
                Box::new(HnswIndex::new(matrix, Arc::clone(codes), signs, graph, params.ef_search))
            }
            (IndexKind::Hnsw, ..) => {
                let manifest = self.dir.join(MANIFEST);
                return Err(FileError::corrupt(&manifest, "an hnsw index without its parameters"));
            }
            (_, _, codes) => Box::new(ExactIndex::with_codes(Arc::clone(matrix), codes.first().cloned())),
        };
        Ok((index, codes))
    }

    /// Opens quantized vectors, or makes them where the version is in a format without such files.
    fn codes(&self, matrix: &Matrix, storage: Storage) -> Result<Option<AnyQuantized>, FileError> {
        let Some(name) = AnyQuantized::file_name(storage) else { return Ok(None) };
        match self.map_since_format(3, name)? {
            None => Ok(AnyQuantized::of(matrix, storage)),
            Some(file) => AnyQuantized::of_file(file, matrix, storage)
                .map_err(|e| FileError::corrupt(&self.dir.join(name), e)),
        }
    }

    fn graph(&self) -> Result<Graph, FileError> {
        let file = self.map_checked(GRAPH)?;
        let graph = Graph::parse(file.bytes(), self.manifest.count);
        graph.map_err(|e| FileError::corrupt(&self.dir.join(GRAPH), e))
    }

    /// Opens the inverted index and checks every file of it first; `None` when there is none, or this build reads none.
    pub(crate) fn sparse(&self) -> Result<Option<SparseIndex>, OpenError> {
        let Some(sparse) = self.manifest.sparse else { return Ok(None) };
        for name in self.manifest.files.keys().filter(|name| name.starts_with(SPARSE)) {
            self.map_checked(name)?;
        }
        if !cfg!(feature = "sparse") {
            return Ok(None);
        }
        let index = SparseIndex::open(&self.dir.join(SPARSE), sparse.analyzer, self.manifest.count)?;
        Ok(Some(index))
    }

    /// Returns the error of an inverted index that cannot be opened.
    pub(crate) fn corrupt_words(&self, error: &OpenError) -> FileError {
        FileError::corrupt(&self.dir.join(SPARSE), error.to_string())
    }

    /// Checks that the files of the inverted index are there and as long as the manifest says.
    pub(crate) fn check_sparse_sizes(&self) -> Result<(), FileError> {
        let mut files = self.manifest.files.iter().filter(|(name, _)| name.starts_with(SPARSE));
        files.try_for_each(|(name, entry)| digest::check_size(&self.dir.join(name), entry))
    }

    /// Checks that the files that [`searchable`](Self::searchable) opens are there and as long as the manifest says.
    pub(crate) fn check_searchable_sizes(&self) -> Result<(), FileError> {
        let codes = self.manifest.quantized().filter_map(AnyQuantized::file_name);
        let graph = (self.manifest.kind == IndexKind::Hnsw).then_some(GRAPH);
        codes.chain(graph).try_for_each(|name| digest::check_size(&self.dir.join(name), self.entry(name)?))
    }

    fn entry(&self, name: &str) -> Result<&FileEntry, FileError> {
        let listed = self.manifest.files.get(name);
        listed.ok_or_else(|| FileError::corrupt(&self.dir.join(MANIFEST), format!("it does not list {name}")))
    }

    /// Maps a file whose size is that of the manifest.
    fn map(&self, name: &str) -> Result<Mapped, FileError> {
        let (path, expected) = (self.dir.join(name), self.entry(name)?);
        digest::check_size(&path, expected)?;
        let file = Mapped::open(&path).map_err(FileError::read(&path))?;
        let got = file.bytes().len() as u64;
        if got == expected.bytes {
            return Ok(file);
        }
        Err(FileError::Size { path, expected: expected.bytes, got })
    }

    /// Maps a file whose size and checksum are those of the manifest.
    fn map_checked(&self, name: &str) -> Result<Mapped, FileError> {
        let file = self.map(name)?;
        self.check(name, &file, |_| {})?;
        Ok(file)
    }

    /// Maps a file as [`map_checked`](Self::map_checked) does, which formats before `format` do not have.
    fn map_since_format(&self, format: u32, name: &str) -> Result<Option<Mapped>, FileError> {
        let is_there = self.manifest.format_version >= format;
        is_there.then(|| self.map_checked(name)).transpose()
    }

    /// Checks a mapped file by the manifest's checksum: the quick one where it has one, and `look` sees every piece of
    /// the file then; else by the SHA-256.
    fn check(&self, name: &str, file: &Mapped, look: impl Fn(&[u8]) + Sync) -> Result<(), FileError> {
        let (path, expected) = (self.dir.join(name), self.entry(name)?);
        match self.manifest.crc32.get(name) {
            Some(crc32) if digest::crc32(file.bytes(), look) != *crc32 => Err(FileError::Checksum { path }),
            Some(_) => Ok(()),
            None => {
                let found = FileEntry { bytes: file.bytes().len() as u64, sha256: sha256_hex(file.bytes()) };
                digest::check(&path, expected, &found)
            }
        }
    }
}
