//! An index opened for searching, every byte of it checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dpr_core::model::{FileEntry, sha256_hex};
use fs_err as fs;

use super::codes::Codes;
use super::hnsw::Graph;
use super::live::Log;
use super::store::{GRAPH, MANIFEST, PASSAGES, Pointer, SPARSE, VECTORS};
use super::{
    ExactIndex, HnswIndex, INDEX_FORMAT, IndexDir, IndexError, IndexKind, IndexManifest, Matrix, Storage,
    VectorIndex,
};
use crate::data::{Passage, parse_passages};
use crate::digest;
use crate::mapped::Mapped;
use crate::sparse::SparseIndex;

/// Tries when the version in use is removed by two builds in a row while it is read.
const ATTEMPTS: usize = 3;

/// An open index. Its vectors and its inverted index are mapped, so that they need not fit memory; all else is read.
#[derive(Debug)]
pub struct LoadedIndex {
    /// What the index says of itself.
    pub manifest: IndexManifest,
    /// Its vectors, searchable; row `i` is passage `i`.
    pub index: Box<dyn VectorIndex>,
    version: String,
    number: u64,
    matrix: Arc<Matrix>,
    passages: Vec<Passage>,
    sparse: Option<SparseIndex>,
}

/// The passages of an index and its inverted index, without its vectors if it has some.
#[derive(Debug)]
pub struct LoadedSparse {
    /// What the index says of itself.
    pub manifest: IndexManifest,
    /// Searches by words; row `i` is passage `i`.
    pub index: SparseIndex,
    /// All passages, in the order of the rows.
    pub passages: Vec<Passage>,
    version: String,
}

impl LoadedSparse {
    /// Reads passages and inverted index of the version in use, and checks their sizes and sha256.
    ///
    /// # Errors
    /// As [`LoadedIndex::open`], and [`IndexError::NoSparse`].
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        newest(dir, |version| {
            version.refuse_updates(dir)?;
            let path = version.dir.to_path_buf();
            let index = version.sparse()?.ok_or(IndexError::NoSparse { path })?;
            let passages = version.passages()?;
            Ok(Self { passages, index, manifest: version.manifest, version: version.sha256 })
        })
    }

    /// Another value for every index that differs, as [`LoadedIndex::version`].
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl LoadedIndex {
    /// Reads the version in use of the index directory `dir`, and checks size and sha256 of every file.
    ///
    /// # Errors
    /// [`IndexError`], a variant for each: no index, a newer format, a missing file, another size, another
    /// checksum, counts that disagree, vectors that are not finite, no vectors; and [`IndexError::HasUpdates`] where
    /// passages changed since the version was built, which a [`LiveIndex`](super::LiveIndex) looks at.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        newest(dir, |version| {
            version.refuse_updates(dir)?;
            Self::read(version)
        })
    }

    /// As [`LoadedIndex::open`], without what changed since.
    pub(super) fn open_base(dir: &Path) -> Result<Self, IndexError> {
        newest(dir, Self::read)
    }

    /// Reads a version that may not be in use yet.
    pub(super) fn open_version(dir: &Path, version: u64, manifest_sha256: &str) -> Result<Self, IndexError> {
        let pointer = Pointer { version, manifest_sha256: manifest_sha256.to_owned(), has_log: false };
        let path = IndexDir::new(dir).version_path(version);
        open_version(&path, &pointer, None).and_then(Self::read)
    }

    /// The number of the version, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The inverted index of the same passages, when the index was built with one.
    pub fn sparse(&self) -> Option<&SparseIndex> {
        self.sparse.as_ref()
    }

    /// The passage of a row.
    ///
    /// # Panics
    /// When `row` is not below `manifest.count`; rows that a search of this index returned always are.
    pub fn passage(&self, row: usize) -> &Passage {
        &self.passages[row]
    }

    /// All passages, in the order of the rows.
    pub fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// The vectors.
    pub fn matrix(&self) -> &Arc<Matrix> {
        &self.matrix
    }

    /// Exact search over the same vectors, to compare with; shares them.
    pub fn exact(&self) -> ExactIndex {
        ExactIndex::new(Arc::clone(&self.matrix))
    }

    /// Another value for every index that differs: the sha256 of the manifest, which vouches for all files.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn read(version: Version<'_>) -> Result<Self, IndexError> {
        let (dir, count) = (version.dir, version.manifest.count);
        if version.manifest.kind == IndexKind::Sparse {
            return Err(IndexError::NoVectors { path: dir.to_path_buf() });
        }
        let passages = version.passages()?;
        let path = dir.join(VECTORS);
        let file = map_checked(&version.manifest, dir, VECTORS)?;
        let dim = version.manifest.dim;
        if count.checked_mul(dim).and_then(|numbers| numbers.checked_mul(4)) != Some(file.bytes().len()) {
            let got = file.bytes().len() / 4 / dim.max(1);
            return Err(IndexError::Count { path, what: "vectors", expected: count, got });
        }
        let id_of = |row: usize| passages[row].id.as_str();
        let matrix = Arc::new(match file.numbers() {
            Some(_) => Matrix::of_file(file, count, dim, id_of)?,
            None => {
                let numbers = file.bytes().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                Matrix::new(numbers.collect(), count, dim, id_of)?
            }
        });
        let sparse = version.sparse()?;
        let Version { manifest, sha256, number, .. } = version;
        let index: Box<dyn VectorIndex> = match (manifest.kind, manifest.hnsw) {
            (IndexKind::Hnsw, Some(params)) => {
                let path = dir.join(GRAPH);
                let file = map_checked(&manifest, dir, GRAPH)?;
                let graph = Graph::parse(file.bytes(), count).map_err(|e| IndexError::corrupt(&path, e))?;
                let codes = Arc::new(Codes::of(&matrix));
                Box::new(HnswIndex::new(Arc::clone(&matrix), codes, graph, params.ef_search))
            }
            (IndexKind::Hnsw, None) => {
                return Err(IndexError::corrupt(&dir.join(MANIFEST), "an hnsw index without its parameters"));
            }
            (IndexKind::Exact | IndexKind::Sparse, _) => Box::new(match manifest.storage {
                Storage::F32 => ExactIndex::new(Arc::clone(&matrix)),
                Storage::Int8 => ExactIndex::with_codes(Arc::clone(&matrix), Arc::new(Codes::of(&matrix))),
            }),
        };
        Ok(Self { manifest, index, version: sha256, number, matrix, passages, sparse })
    }
}

/// A version whose manifest is read and vouched for.
pub(super) struct Version<'a> {
    pub(super) dir: &'a Path,
    pub(super) sha256: String,
    pub(super) manifest: IndexManifest,
    /// The manifest's bytes.
    pub(super) bytes: Vec<u8>,
    pub(super) number: u64,
    /// The log of what changed since, when there is one.
    pub(super) log: Option<PathBuf>,
}

impl Version<'_> {
    /// What pointed to it.
    pub(super) fn pointer(&self) -> Pointer {
        let (version, has_log) = (self.number, self.log.is_some());
        Pointer { version, manifest_sha256: self.sha256.clone(), has_log }
    }

    /// The log, opened and checked as far as its beginning goes.
    pub(super) fn open_log(&self) -> Result<Option<Log>, IndexError> {
        self.log.as_ref().map(|path| Log::open(path, &self.sha256, self.manifest.dim)).transpose()
    }

    /// Refuses a version with updates: what was deleted must not be found.
    fn refuse_updates(&self, dir: &Path) -> Result<(), IndexError> {
        match self.open_log()?.map_or(0, |log| log.changes()) {
            0 => Ok(()),
            changes => Err(IndexError::HasUpdates { path: dir.to_path_buf(), changes }),
        }
    }

    fn passages(&self) -> Result<Vec<Passage>, IndexError> {
        let path = self.dir.join(PASSAGES);
        let file = map_checked(&self.manifest, self.dir, PASSAGES)?;
        parse_passages(file.bytes(), self.manifest.count).map_err(|e| IndexError::corrupt(&path, e))
    }

    /// The inverted index, every file of which is checked first; `None` when there is none.
    fn sparse(&self) -> Result<Option<SparseIndex>, IndexError> {
        let Some(sparse) = self.manifest.sparse else { return Ok(None) };
        for (name, expected) in &self.manifest.files {
            if name.starts_with(SPARSE) {
                let path = self.dir.join(name);
                check_size(&path, expected)?;
                compare(&path, expected, &digest::of_file(&path).map_err(IndexError::read(&path))?)?;
            }
        }
        let index = SparseIndex::open(&self.dir.join(SPARSE), sparse.analyzer, self.manifest.count)?;
        Ok(Some(index))
    }
}

/// Reads the version in use; again, when it was replaced and removed meanwhile.
pub(super) fn newest<T>(
    dir: &Path,
    read: impl Fn(Version<'_>) -> Result<T, IndexError>,
) -> Result<T, IndexError> {
    let dir = IndexDir::new(dir);
    let mut pointer = dir.pointer()?;
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        let path = dir.version_path(pointer.version);
        let log = pointer.has_log.then(|| dir.log_path(pointer.version));
        let opened = open_version(&path, &pointer, log).and_then(&read);
        if opened.is_ok() || attempts == 0 {
            return opened;
        }
        let now = dir.pointer()?;
        if now == pointer {
            return opened;
        }
        pointer = now;
    }
}

fn open_version<'a>(
    dir: &'a Path,
    pointer: &Pointer,
    log: Option<PathBuf>,
) -> Result<Version<'a>, IndexError> {
    let path = dir.join(MANIFEST);
    let bytes = fs::read(&path).map_err(IndexError::read(&path))?;
    let sha256 = sha256_hex(&bytes);
    if sha256 != pointer.manifest_sha256 {
        return Err(IndexError::Checksum { path });
    }
    let manifest = parse_manifest(&path, &bytes)?;
    Ok(Version { manifest, dir, sha256, bytes, number: pointer.version, log })
}

fn parse_manifest(path: &Path, bytes: &[u8]) -> Result<IndexManifest, IndexError> {
    #[derive(serde::Deserialize)]
    struct Version {
        format_version: u32,
    }
    // The version first: a newer manifest may have other fields.
    let Version { format_version: found } =
        serde_json::from_slice(bytes).map_err(|e| IndexError::corrupt(path, e.to_string()))?;
    if found > INDEX_FORMAT {
        return Err(IndexError::NewerFormat { path: path.to_path_buf(), found, supported: INDEX_FORMAT });
    }
    let manifest: IndexManifest =
        serde_json::from_slice(bytes).map_err(|e| IndexError::corrupt(path, e.to_string()))?;
    if manifest.metric != IndexManifest::INNER_PRODUCT {
        return Err(IndexError::corrupt(path, format!("the metric `{}` is not known", manifest.metric)));
    }
    if u32::try_from(manifest.count).is_err() {
        return Err(IndexError::corrupt(path, format!("{} passages are too many", manifest.count)));
    }
    Ok(manifest)
}

fn entry<'a>(manifest: &'a IndexManifest, dir: &Path, name: &str) -> Result<&'a FileEntry, IndexError> {
    let listed = manifest.files.get(name);
    listed.ok_or_else(|| IndexError::corrupt(&dir.join(MANIFEST), format!("it does not list {name}")))
}

/// Maps a file whose size and checksum are those of the manifest: the quick one where it has one, else the SHA-256.
fn map_checked(manifest: &IndexManifest, dir: &Path, name: &str) -> Result<Mapped, IndexError> {
    let (path, expected) = (dir.join(name), entry(manifest, dir, name)?);
    check_size(&path, expected)?;
    let file = Mapped::open(&path).map_err(IndexError::read(&path))?;
    match manifest.crc32.get(name) {
        Some(crc32) if digest::crc32(file.bytes()) != *crc32 => return Err(IndexError::Checksum { path }),
        Some(_) if file.bytes().len() as u64 == expected.bytes => {}
        _ => {
            let found = FileEntry { bytes: file.bytes().len() as u64, sha256: sha256_hex(file.bytes()) };
            compare(&path, expected, &found)?;
        }
    }
    Ok(file)
}

/// Before reading: a file of the wrong size is not worth it.
pub(super) fn check_size(path: &Path, expected: &FileEntry) -> Result<(), IndexError> {
    let got = fs::metadata(path).map_err(IndexError::read(path))?.len();
    if got == expected.bytes {
        return Ok(());
    }
    Err(IndexError::Size { path: path.to_path_buf(), expected: expected.bytes, got })
}

pub(super) fn compare(path: &Path, expected: &FileEntry, found: &FileEntry) -> Result<(), IndexError> {
    if found.bytes != expected.bytes {
        let (expected, got) = (expected.bytes, found.bytes);
        return Err(IndexError::Size { path: path.to_path_buf(), expected, got });
    }
    if found.sha256 != expected.sha256 {
        return Err(IndexError::Checksum { path: path.to_path_buf() });
    }
    Ok(())
}
