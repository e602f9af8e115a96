//! An index opened for searching, every byte of it checked before it is used.

use std::path::Path;
use std::sync::Arc;

use dpr_core::Embedding;

#[cfg(feature = "gpu")]
use dpr_core::device::Device;

use super::pointer::{MANIFEST, Pointer, VECTORS_BLOCKS};
use super::unchecked::Unchecked;
use super::version::{Version, newest, open_version};
use crate::deferred::Damage;
#[cfg(feature = "gpu")]
use crate::gpu::GpuIndex;
use crate::quantized::AnyQuantized;
use crate::sparse::SparseIndex;
use crate::vectors::rows::write_block_sums;
use crate::{
    ExactIndex, FileError, IndexDir, IndexKind, IndexManifest, Matrix, OpenError, QueryError, StoredPassages,
    VectorIndex,
};
use dpr_data::Passage;
use dpr_files::Mapped;

/// An open index. Its files are mapped, so that they need not fit memory; of the graph alone there is a copy.
#[derive(Debug)]
pub struct LoadedIndex {
    /// The index's manifest.
    pub manifest: IndexManifest,
    /// The searchable vectors; row `i` is passage `i`.
    pub index: Box<dyn VectorIndex>,
    version: String,
    number: u64,
    matrix: Arc<Matrix>,
    passages: StoredPassages,
    rest: Rest,
}

/// The inverted index and the quantized vectors: open, or opened and checked when they are first needed.
#[derive(Debug)]
enum Rest {
    Checked { codes: Vec<AnyQuantized>, sparse: Option<Box<SparseIndex>> },
    Unchecked(Unchecked),
}

/// The passages of an index and its inverted index, without its vectors if it has some.
#[derive(Debug)]
pub struct LoadedSparse {
    /// The index's manifest.
    pub manifest: IndexManifest,
    /// Searches by words; row `i` is passage `i`.
    pub index: SparseIndex,
    /// All passages, in the order of the rows.
    pub passages: StoredPassages,
    version: String,
}

impl LoadedSparse {
    /// Opens passages and inverted index of the version in use, and checks their sizes and checksums.
    ///
    /// # Errors
    /// As [`LoadedIndex::open`], [`OpenError::NoSparse`], and
    /// [`SparseError::NotBuiltIn`](crate::sparse::SparseError::NotBuiltIn) without the feature `sparse`.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        newest(dir, |version| {
            version.manifest.check_words()?;
            version.refuse_updates(dir)?;
            let path = version.dir.to_path_buf();
            let files = version.files();
            let index = files.sparse()?.ok_or(OpenError::NoSparse { path })?;
            let passages = files.passages()?;
            Ok(Self { passages, index, manifest: version.manifest, version: version.sha256 })
        })
    }

    /// Returns a fingerprint of the index's contents, as [`LoadedIndex::version`] does.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl LoadedIndex {
    /// Opens the version in use of the index directory `dir`, and checks size and checksum of every file.
    ///
    /// # Errors
    /// [`OpenError`], a variant for each: no index, a newer format, a missing file, another size, another
    /// checksum, counts that disagree, vectors that are not finite, no vectors; and [`OpenError::HasUpdates`] where
    /// passages changed since the version was built, which a [`LiveIndex`](crate::LiveIndex) looks at.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        newest(dir, |version| {
            version.refuse_updates(dir)?;
            Self::read(version)
        })
    }

    /// Opens the version in use without the changes since it was built.
    pub fn open_base(dir: &Path) -> Result<Self, OpenError> {
        newest(dir, Self::read)
    }

    /// Reads a version that may not be in use yet.
    pub(crate) fn open_version(dir: &Path, version: u64, manifest_sha256: &str) -> Result<Self, OpenError> {
        Self::open_version_by(dir, version, manifest_sha256, Self::read)
    }

    /// As [`open_version`](Self::open_version), by `read`.
    pub(crate) fn open_version_by(
        dir: &Path,
        version: u64,
        manifest_sha256: &str,
        read: impl FnOnce(Version<'_>) -> Result<Self, OpenError>,
    ) -> Result<Self, OpenError> {
        let pointer = Pointer { version, manifest_sha256: manifest_sha256.to_owned(), has_log: false };
        let path = IndexDir::new(dir).version_path(version);
        open_version(&path, &pointer, None).and_then(read)
    }

    /// Returns the number of the version, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the inverted index of the same passages, if the index was built with one and this program with the
    /// feature `sparse`.
    ///
    /// # Errors
    /// [`FileError`] where a file of it is found to be damaged now, which is not before the first use of an index that
    /// [`IndexReader::open_unchecked`](crate::IndexReader::open_unchecked) opened.
    pub fn sparse(&self) -> Result<Option<&SparseIndex>, FileError> {
        match &self.rest {
            Rest::Checked { sparse, .. } => Ok(sparse.as_deref()),
            Rest::Unchecked(unchecked) => unchecked.sparse(),
        }
    }

    /// Returns `true` if the index was built with an inverted index and this program with the feature `sparse`.
    pub fn has_sparse(&self) -> bool {
        self.manifest.has_words()
    }

    /// Returns the damage that was found in files since the index was opened: its searches fail.
    pub fn damage(&self) -> Option<FileError> {
        match &self.rest {
            Rest::Checked { .. } => None,
            Rest::Unchecked(unchecked) => unchecked.damage().found().cloned(),
        }
    }

    /// Refuses what was read of the index if a file of it is known to be damaged.
    pub(crate) fn check_damage(&self) -> Result<(), FileError> {
        self.damage().map_or(Ok(()), Err)
    }

    /// Returns the passage of a row.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub fn passage(&self, row: usize) -> Result<Passage, FileError> {
        self.passages.get(row)
    }

    /// Returns all passages, in the order of the rows.
    pub fn passages(&self) -> &StoredPassages {
        &self.passages
    }

    /// Returns the quantized vectors, where rows are chosen by them: a copy, or two for a graph.
    pub(crate) fn codes(&self) -> Result<&[AnyQuantized], FileError> {
        match &self.rest {
            Rest::Checked { codes, .. } => Ok(codes),
            Rest::Unchecked(unchecked) => Ok(&unchecked.searchable()?.1),
        }
    }

    /// Returns the vectors, all of them checked.
    ///
    /// # Errors
    /// [`FileError`] where damage is found now; see [`sparse`](Self::sparse).
    pub fn matrix(&self) -> Result<&Arc<Matrix>, FileError> {
        if let Rest::Unchecked(unchecked) = &self.rest {
            unchecked.check_vectors()?;
        }
        Ok(&self.matrix)
    }

    /// Returns one vector, `[dim]`, checked.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    ///
    /// # Panics
    /// When `row` is not below the number of passages; rows that a search returned are.
    pub fn vector(&self, row: usize) -> Result<&[f32], FileError> {
        let vector = self.matrix.row(row);
        self.check_damage().map(|()| vector)
    }

    /// Refuses a query that cannot be searched.
    pub(crate) fn check_query(&self, query: &Embedding, k: usize) -> Result<(), QueryError> {
        self.matrix.check(query, k).map(drop)
    }

    /// Returns an exact index that shares the vectors, to compare with.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn exact(&self) -> Result<ExactIndex, FileError> {
        Ok(ExactIndex::new(Arc::clone(self.matrix()?)))
    }

    /// Searches vectors on `device` from now on, where that is a GPU and the index is exact; what is found stays the
    /// same. The GPU gets a copy of the vectors, which must fit its memory. Returns `true` if the GPU is used.
    #[cfg(feature = "gpu")]
    pub fn search_on(&mut self, device: &Device) -> bool {
        match device {
            Device::Burn { device, gpu: true, .. } if self.manifest.kind == IndexKind::Exact => {
                self.index = Box::new(GpuIndex::new(Arc::clone(&self.matrix), device));
                true
            }
            _ => false,
        }
    }

    /// Returns a fingerprint of the index's contents: the SHA-256 of the manifest, which lists the checksums of all
    /// files.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn read(version: Version<'_>) -> Result<Self, OpenError> {
        let dir = version.dir;
        if version.manifest.kind == IndexKind::Sparse {
            return Err(OpenError::NoVectors { path: dir.to_path_buf() });
        }
        let files = version.files();
        let passages = files.passages()?;
        let matrix = Arc::new(files.matrix(&passages)?);
        let (index, codes) = files.searchable(&matrix)?;
        let rest = Rest::Checked { codes, sparse: files.sparse()?.map(Box::new) };
        let Version { manifest, sha256, number, .. } = version;
        Ok(Self { manifest, index, version: sha256, number, matrix, passages, rest })
    }

    /// Opens a version without reading all of it: sizes are checked now, the other bytes when a search first reads them
    /// and by a thread of its own. A version that has no checksums of its vectors' blocks is checked now.
    pub(crate) fn read_unchecked(version: Version<'_>) -> Result<Self, OpenError> {
        if version.manifest.kind == IndexKind::Sparse {
            return Self::read(version);
        }
        let (files, damage) = (version.files(), Arc::<Damage>::default());
        let Some(matrix) = files.matrix_unchecked(&damage)? else { return Self::read(version) };
        let (matrix, passages) = (Arc::new(matrix), files.passages_unchecked(&damage)?);
        let unchecked = Unchecked::new(&files, &matrix, &passages, damage)?;
        if unchecked.start().is_err() {
            // No thread checks what no search reads.
            return Self::read(version);
        }
        let Version { manifest, sha256, number, .. } = version;
        let index = Box::new(unchecked.index(&manifest));
        let rest = Rest::Unchecked(unchecked);
        Ok(Self { manifest, index, version: sha256, number, matrix, passages, rest })
    }

    /// Checks what opening takes on trust, as the checksums say it is what was built: every passage, the quantized
    /// codes and the greatest squared norm.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] for the first that is wrong.
    pub(crate) fn check(&self, dir: &Path) -> Result<(), FileError> {
        self.passages.check()?;
        let version = IndexDir::new(dir).version_path(self.number);
        for codes in self.codes()? {
            if let Some(name) = AnyQuantized::file_name(codes.storage())
                && !codes.are_of(self.matrix()?)
            {
                return Err(FileError::corrupt(&version.join(name), "it is not made of the vectors"));
            }
        }
        if self.manifest.files.contains_key(VECTORS_BLOCKS) {
            let path = version.join(VECTORS_BLOCKS);
            let stored = Mapped::open(&path).map_err(FileError::read(&path))?;
            let mut sums = Vec::new();
            write_block_sums(self.matrix.rows(), &mut sums).map_err(FileError::write)?;
            if stored.bytes() != sums {
                return Err(FileError::corrupt(&path, "it does not hold the checksums of the vectors"));
            }
        }
        let (said, found) = (self.manifest.max_squared_norm, self.matrix.measure_max_squared_norm());
        // Numbers lose their last digit in JSON.
        if (said - found).abs() > found * 1e-12 {
            let reason = format!(
                "it says that the greatest squared norm of a vector (`phi`) is {said}, and it is {found}"
            );
            return Err(FileError::corrupt(&version.join(MANIFEST), reason));
        }
        Ok(())
    }
}
