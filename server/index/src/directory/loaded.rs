//! An index opened for searching, every byte of it checked.

use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "gpu")]
use dpr_core::device::Device;

use super::pointer::{MANIFEST, Pointer};
use super::version::{Version, newest, open_version};
#[cfg(feature = "gpu")]
use crate::gpu::GpuIndex;
use crate::quantized::AnyQuantized;
use crate::sparse::SparseIndex;
use crate::{
    ExactIndex, FileError, HnswIndex, IndexDir, IndexKind, IndexManifest, Matrix, OpenError, StoredPassages,
    VectorIndex,
};
use dpr_data::Passage;

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
    codes: Option<AnyQuantized>,
    passages: StoredPassages,
    sparse: Option<SparseIndex>,
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
    /// As [`LoadedIndex::open`], and [`OpenError::NoSparse`].
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        newest(dir, |version| {
            version.refuse_updates(dir)?;
            let path = version.dir.to_path_buf();
            let index = version.sparse()?.ok_or(OpenError::NoSparse { path })?;
            let passages = version.passages()?;
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
        let pointer = Pointer { version, manifest_sha256: manifest_sha256.to_owned(), has_log: false };
        let path = IndexDir::new(dir).version_path(version);
        open_version(&path, &pointer, None).and_then(Self::read)
    }

    /// Returns the number of the version, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the inverted index of the same passages, if the index was built with one.
    pub fn sparse(&self) -> Option<&SparseIndex> {
        self.sparse.as_ref()
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

    /// Returns the quantized vectors, where rows are chosen by them.
    pub(crate) fn codes(&self) -> Option<&AnyQuantized> {
        self.codes.as_ref()
    }

    /// Returns the vectors.
    pub fn matrix(&self) -> &Arc<Matrix> {
        &self.matrix
    }

    /// Returns an exact index that shares the vectors, to compare with.
    pub fn exact(&self) -> ExactIndex {
        ExactIndex::new(Arc::clone(&self.matrix))
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
        let passages = version.passages()?;
        let matrix = Arc::new(version.matrix(&passages)?);
        let codes = version.codes(&matrix)?;
        let index: Box<dyn VectorIndex> = match (version.manifest.kind, version.manifest.hnsw, &codes) {
            (IndexKind::Hnsw, Some(params), Some(AnyQuantized::Int8(codes))) => {
                let (matrix, graph) = (Arc::clone(&matrix), version.graph()?);
                Box::new(HnswIndex::new(matrix, Arc::clone(codes), graph, params.ef_search))
            }
            (IndexKind::Hnsw, ..) => {
                let error = FileError::corrupt(&dir.join(MANIFEST), "an hnsw index without its parameters");
                return Err(error.into());
            }
            (_, _, codes) => Box::new(ExactIndex::with_codes(Arc::clone(&matrix), codes.clone())),
        };
        let sparse = version.sparse()?;
        let Version { manifest, sha256, number, .. } = version;
        Ok(Self { manifest, index, version: sha256, number, matrix, codes, passages, sparse })
    }

    /// Checks what opening takes on trust, as the checksums say it is what was built: every passage, the quantized
    /// codes and the greatest squared norm.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] for the first that is wrong.
    pub(crate) fn check(&self, dir: &Path) -> Result<(), FileError> {
        self.passages.check()?;
        let version = IndexDir::new(dir).version_path(self.number);
        if let (Some(codes), Some(name)) = (&self.codes, AnyQuantized::file_name(self.manifest.read_by()))
            && !codes.are_of(&self.matrix)
        {
            return Err(FileError::corrupt(&version.join(name), "it is not made of the vectors"));
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
