//! A version of an index, vouched for by its pointer, and its files, each checked before it is used.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::{FileEntry, sha256_hex};
use fs_err as fs;

use super::codes::AnyCodes;
use super::hnsw::Graph;
use super::live::Log;
use super::store::{GRAPH, MANIFEST, PASSAGES, PASSAGES_TABLE, Pointer, SPARSE, VECTORS};
use super::{INDEX_FORMAT, IndexDir, IndexError, IndexManifest, Matrix, StoredPassages};
use crate::digest;
use crate::mapped::Mapped;
use crate::relative;
use crate::sparse::SparseIndex;

/// Tries when the version in use is removed by two builds in a row while it is read.
const ATTEMPTS: usize = 3;

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
    pub(super) fn refuse_updates(&self, dir: &Path) -> Result<(), IndexError> {
        match self.open_log()?.map_or(0, |log| log.changes()) {
            0 => Ok(()),
            changes => Err(IndexError::HasUpdates { path: dir.to_path_buf(), changes }),
        }
    }

    pub(super) fn passages(&self) -> Result<StoredPassages, IndexError> {
        let (path, table) = (self.dir.join(PASSAGES), self.dir.join(PASSAGES_TABLE));
        let file = map_checked(&self.manifest, self.dir, PASSAGES)?;
        let stored = self.map_since_format_3(PASSAGES_TABLE)?.map(|file| (table.as_path(), file));
        StoredPassages::open(&path, file, stored, self.manifest.count)
    }

    /// A file that older formats do not have.
    fn map_since_format_3(&self, name: &str) -> Result<Option<Mapped>, IndexError> {
        let is_there = self.manifest.format_version >= 3;
        is_there.then(|| map_checked(&self.manifest, self.dir, name)).transpose()
    }

    pub(super) fn matrix(&self, passages: &StoredPassages) -> Result<Matrix, IndexError> {
        let (path, IndexManifest { count, dim, phi, .. }) = (self.dir.join(VECTORS), self.manifest.clone());
        // Seen while the checksum is made, which reads them all.
        let is_finite = AtomicBool::new(true);
        let look = |piece: &[u8]| {
            if !are_finite(piece) {
                is_finite.store(false, Ordering::Relaxed);
            }
        };
        let file = map_checked_and(&self.manifest, self.dir, VECTORS, look)?;
        if count.checked_mul(dim).and_then(|numbers| numbers.checked_mul(4)) != Some(file.bytes().len()) {
            let got = file.bytes().len() / 4 / dim.max(1);
            return Err(IndexError::Count { path, what: "vectors", expected: count, got });
        }
        let is_known = self.manifest.crc32.contains_key(VECTORS) && is_finite.into_inner() && phi >= 0.0;
        let id_of = |row| passages.id(row).unwrap_or_default();
        match file.numbers() {
            Some(_) if is_known => Matrix::of_checked(file, count, dim, phi),
            Some(_) => Matrix::of_file(file, count, dim, id_of),
            None => {
                let numbers = file.bytes().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                Matrix::new(numbers.collect(), count, dim, id_of)
            }
        }
    }

    /// The vectors in fewer bits, where rows are chosen by them.
    pub(super) fn codes(&self, matrix: &Matrix) -> Result<Option<AnyCodes>, IndexError> {
        let storage = self.manifest.read_by();
        let Some(name) = AnyCodes::file_name(storage) else { return Ok(None) };
        match self.map_since_format_3(name)? {
            None => Ok(AnyCodes::of(matrix, storage)),
            Some(file) => AnyCodes::of_file(file, matrix, storage)
                .map_err(|e| IndexError::corrupt(&self.dir.join(name), e)),
        }
    }

    /// The graph.
    pub(super) fn graph(&self) -> Result<Graph, IndexError> {
        let file = map_checked(&self.manifest, self.dir, GRAPH)?;
        let graph = Graph::parse(file.bytes(), self.manifest.count);
        graph.map_err(|e| IndexError::corrupt(&self.dir.join(GRAPH), e))
    }

    /// The inverted index, every file of which is checked first; `None` when there is none.
    pub(super) fn sparse(&self) -> Result<Option<SparseIndex>, IndexError> {
        let Some(sparse) = self.manifest.sparse else { return Ok(None) };
        for name in self.manifest.files.keys().filter(|name| name.starts_with(SPARSE)) {
            map_checked(&self.manifest, self.dir, name)?;
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

pub(super) fn open_version<'a>(
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
    match manifest.files.keys().chain(manifest.crc32.keys()).find(|name| !is_of_a_version(name)) {
        None => Ok(manifest),
        Some(name) => Err(IndexError::FileName { path: path.to_path_buf(), name: name.clone() }),
    }
}

/// Whether a version may have a file of this name: one in its folder, or in that of the inverted index.
fn is_of_a_version(name: &str) -> bool {
    let is_ours = match name.split_once('/') {
        None => true,
        Some((folder, file)) => folder == SPARSE && !file.contains('/'),
    };
    is_ours && relative::is_plain(name)
}

fn entry<'a>(manifest: &'a IndexManifest, dir: &Path, name: &str) -> Result<&'a FileEntry, IndexError> {
    let listed = manifest.files.get(name);
    listed.ok_or_else(|| IndexError::corrupt(&dir.join(MANIFEST), format!("it does not list {name}")))
}

/// Maps a file whose size and checksum are those of the manifest: the quick one where it has one, else the SHA-256.
fn map_checked(manifest: &IndexManifest, dir: &Path, name: &str) -> Result<Mapped, IndexError> {
    map_checked_and(manifest, dir, name, |_| {})
}

/// As [`map_checked`]; where the checksum is the quick one, `look` is shown every piece of the file on the way.
fn map_checked_and(
    manifest: &IndexManifest,
    dir: &Path,
    name: &str,
    look: impl Fn(&[u8]) + Sync,
) -> Result<Mapped, IndexError> {
    let (path, expected) = (dir.join(name), entry(manifest, dir, name)?);
    check_size(&path, expected)?;
    let file = Mapped::open(&path).map_err(IndexError::read(&path))?;
    match manifest.crc32.get(name) {
        Some(crc32) if digest::crc32(file.bytes(), look) != *crc32 => {
            return Err(IndexError::Checksum { path });
        }
        Some(_) if file.bytes().len() as u64 == expected.bytes => {}
        _ => {
            let found = FileEntry { bytes: file.bytes().len() as u64, sha256: sha256_hex(file.bytes()) };
            compare(&path, expected, &found)?;
        }
    }
    Ok(file)
}

/// Whether all of some little-endian f32 are numbers.
fn are_finite(bytes: &[u8]) -> bool {
    let magnitude = |number: &[u8; 4]| u32::from_le_bytes(*number) & 0x7fff_ffff;
    let greatest = bytes.as_chunks().0.iter().fold(0, |greatest, number| magnitude(number).max(greatest));
    greatest < f32::INFINITY.to_bits()
}

/// Before reading: a file of the wrong size is not worth it.
pub(super) fn check_size(path: &Path, expected: &FileEntry) -> Result<(), IndexError> {
    let got = relative::size(path).map_err(IndexError::read(path))?;
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
