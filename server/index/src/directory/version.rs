//! A version of an index: its manifest, checked against the pointer, and its files, each checked before it is used.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::{FileEntry, sha256_hex};

use super::columns::Columns;
use super::pointer::{GRAPH, MANIFEST, METADATA, PASSAGES, PASSAGES_TABLE, Pointer, SPARSE, VECTORS};
use crate::hnsw::Graph;
use crate::quantized::AnyQuantized;
use crate::sparse::{Analyzer, SparseError, SparseIndex};
use crate::vectors::Rows;
use crate::wal::WalReader;
use crate::{FileError, INDEX_FORMAT, IndexDir, IndexManifest, Matrix, OpenError, StoredPassages};
use dpr_files::Mapped;
use dpr_files::{digest, plain, relative};

/// Attempts to open the version in use, which builds may remove while it is read.
const ATTEMPTS: usize = 3;

/// A version whose manifest is read and vouched for.
pub(crate) struct Version<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) sha256: String,
    pub(crate) manifest: IndexManifest,
    /// The manifest's bytes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) number: u64,
    /// The write-ahead log of the changes since, when there is one.
    pub(crate) log: Option<PathBuf>,
}

impl Version<'_> {
    /// Returns the pointer that names this version.
    pub(crate) fn pointer(&self) -> Pointer {
        let (version, has_log) = (self.number, self.log.is_some());
        Pointer { version, manifest_sha256: self.sha256.clone(), has_log }
    }

    /// Opens the write-ahead log and checks its beginning.
    pub(crate) fn open_log(&self) -> Result<Option<WalReader>, OpenError> {
        self.log.as_ref().map(|path| WalReader::open(path, &self.sha256, self.manifest.dim)).transpose()
    }

    /// Refuses a version with updates: what was deleted must not be found.
    pub(crate) fn refuse_updates(&self, dir: &Path) -> Result<(), OpenError> {
        match self.open_log()?.map_or(0, |log| log.changes()) {
            0 => Ok(()),
            changes => Err(OpenError::HasUpdates { path: dir.to_path_buf(), changes }),
        }
    }

    pub(crate) fn passages(&self) -> Result<StoredPassages, FileError> {
        let (path, table) = (self.dir.join(PASSAGES), self.dir.join(PASSAGES_TABLE));
        let file = map_checked(&self.manifest, self.dir, PASSAGES)?;
        let stored = self.map_since_format(3, PASSAGES_TABLE)?.map(|file| (table.as_path(), file));
        let columns = self.map_since_format(4, METADATA)?;
        let columns = columns.map(|file| Columns::open(&self.dir.join(METADATA), file, self.manifest.count));
        StoredPassages::open(&path, file, stored, self.manifest.count, columns.transpose()?)
    }

    /// Maps a file that formats before `format` do not have.
    fn map_since_format(&self, format: u32, name: &str) -> Result<Option<Mapped>, FileError> {
        let is_there = self.manifest.format_version >= format;
        is_there.then(|| map_checked(&self.manifest, self.dir, name)).transpose()
    }

    pub(crate) fn matrix(&self, passages: &StoredPassages) -> Result<Matrix, OpenError> {
        let (path, IndexManifest { count, dim, max_squared_norm, .. }) =
            (self.dir.join(VECTORS), self.manifest.clone());
        // Looked at while the checksum is made, which reads them all.
        let is_finite = AtomicBool::new(true);
        let look = |piece: &[u8]| {
            if !are_finite(piece) {
                is_finite.store(false, Ordering::Relaxed);
            }
        };
        let file = map_checked_and(&self.manifest, self.dir, VECTORS, look)?;
        if count.checked_mul(dim).and_then(|numbers| numbers.checked_mul(4)) != Some(file.bytes().len()) {
            let got = file.bytes().len() / 4 / dim.max(1);
            return Err(OpenError::Count { path, expected: count, got });
        }
        let is_known =
            self.manifest.crc32.contains_key(VECTORS) && is_finite.into_inner() && max_squared_norm >= 0.0;
        let id_of = |row| passages.id(row).unwrap_or_default();
        let rows = Rows::of_file(file);
        match is_known {
            true => Ok(Matrix::of_checked(rows, count, dim, max_squared_norm)?),
            false => Ok(Matrix::new(rows, count, dim, id_of)?),
        }
    }

    /// Opens the quantized vectors, where rows are chosen by them.
    pub(crate) fn codes(&self, matrix: &Matrix) -> Result<Option<AnyQuantized>, FileError> {
        let storage = self.manifest.read_by();
        let Some(name) = AnyQuantized::file_name(storage) else { return Ok(None) };
        match self.map_since_format(3, name)? {
            None => Ok(AnyQuantized::of(matrix, storage)),
            Some(file) => AnyQuantized::of_file(file, matrix, storage)
                .map_err(|e| FileError::corrupt(&self.dir.join(name), e)),
        }
    }

    /// Opens the graph.
    pub(crate) fn graph(&self) -> Result<Graph, FileError> {
        let file = map_checked(&self.manifest, self.dir, GRAPH)?;
        let graph = Graph::parse(file.bytes(), self.manifest.count);
        graph.map_err(|e| FileError::corrupt(&self.dir.join(GRAPH), e))
    }

    /// Opens the inverted index and checks every file of it first; `None` when there is none.
    pub(crate) fn sparse(&self) -> Result<Option<SparseIndex>, OpenError> {
        let Some(sparse) = self.manifest.sparse else { return Ok(None) };
        for name in self.manifest.files.keys().filter(|name| name.starts_with(SPARSE)) {
            map_checked(&self.manifest, self.dir, name)?;
        }
        let index = SparseIndex::open(&self.dir.join(SPARSE), sparse.analyzer, self.manifest.count)?;
        Ok(Some(index))
    }
}

/// Reads the version in use, and again when it was replaced and removed meanwhile.
pub(crate) fn newest<T, E: From<OpenError>>(
    dir: &Path,
    read: impl Fn(Version<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let dir = IndexDir::new(dir);
    let mut pointer = dir.pointer()?;
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        let path = dir.version_path(pointer.version);
        let log = pointer.has_log.then(|| dir.log_path(pointer.version));
        let opened = open_version(&path, &pointer, log).map_err(E::from).and_then(&read);
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

pub(crate) fn open_version<'a>(
    dir: &'a Path,
    pointer: &Pointer,
    log: Option<PathBuf>,
) -> Result<Version<'a>, OpenError> {
    let path = dir.join(MANIFEST);
    let bytes = plain::read(&path, plain::DESCRIPTION).map_err(FileError::read(&path))?;
    let sha256 = sha256_hex(&bytes);
    if sha256 != pointer.manifest_sha256 {
        return Err(FileError::Checksum { path }.into());
    }
    let manifest = parse_manifest(&path, &bytes)?;
    Ok(Version { manifest, dir, sha256, bytes, number: pointer.version, log })
}

fn parse_manifest(path: &Path, bytes: &[u8]) -> Result<IndexManifest, OpenError> {
    #[derive(serde::Deserialize)]
    struct Version {
        format_version: u32,
        sparse: Option<Words>,
    }
    #[derive(serde::Deserialize)]
    struct Words {
        analyzer: String,
    }
    // The version first: a newer manifest may have other fields, and other analyzers without a format of its own.
    let Version { format_version: found, sparse } =
        serde_json::from_slice(bytes).map_err(|e| FileError::corrupt(path, e.to_string()))?;
    if found > INDEX_FORMAT {
        return Err(
            FileError::NewerFormat { path: path.to_path_buf(), found, supported: INDEX_FORMAT }.into()
        );
    }
    if let Some(Err(unknown)) = sparse.map(|words| words.analyzer.parse::<Analyzer>()) {
        return Err(SparseError::UnknownAnalyzer { path: path.to_path_buf(), unknown }.into());
    }
    let manifest: IndexManifest =
        serde_json::from_slice(bytes).map_err(|e| FileError::corrupt(path, e.to_string()))?;
    if manifest.metric != IndexManifest::INNER_PRODUCT {
        return Err(FileError::corrupt(path, format!("the metric `{}` is not known", manifest.metric)).into());
    }
    if u32::try_from(manifest.count).is_err() {
        return Err(FileError::corrupt(path, format!("{} passages are too many", manifest.count)).into());
    }
    match manifest.files.keys().chain(manifest.crc32.keys()).find(|name| !is_of_a_version(name)) {
        None => Ok(manifest),
        Some(name) => Err(OpenError::FileName { path: path.to_path_buf(), name: name.clone() }),
    }
}

/// Returns `true` if a version may have a file of this name: one in its folder, or in that of the inverted index.
fn is_of_a_version(name: &str) -> bool {
    let is_ours = match name.split_once('/') {
        None => true,
        Some((folder, file)) => folder == SPARSE && !file.contains('/'),
    };
    is_ours && relative::is_plain(name)
}

fn entry<'a>(manifest: &'a IndexManifest, dir: &Path, name: &str) -> Result<&'a FileEntry, FileError> {
    let listed = manifest.files.get(name);
    listed.ok_or_else(|| FileError::corrupt(&dir.join(MANIFEST), format!("it does not list {name}")))
}

/// Maps a file whose size and checksum are those of the manifest: the quick one where it has one, else the SHA-256.
fn map_checked(manifest: &IndexManifest, dir: &Path, name: &str) -> Result<Mapped, FileError> {
    map_checked_and(manifest, dir, name, |_| {})
}

/// Maps a file as [`map_checked`] does; where the checksum is the quick one, `look` sees every piece of the file.
fn map_checked_and(
    manifest: &IndexManifest,
    dir: &Path,
    name: &str,
    look: impl Fn(&[u8]) + Sync,
) -> Result<Mapped, FileError> {
    let (path, expected) = (dir.join(name), entry(manifest, dir, name)?);
    digest::check_size(&path, expected)?;
    let file = Mapped::open(&path).map_err(FileError::read(&path))?;
    match manifest.crc32.get(name) {
        Some(crc32) if digest::crc32(file.bytes(), look) != *crc32 => {
            return Err(FileError::Checksum { path });
        }
        Some(_) if file.bytes().len() as u64 == expected.bytes => {}
        _ => {
            let found = FileEntry { bytes: file.bytes().len() as u64, sha256: sha256_hex(file.bytes()) };
            digest::check(&path, expected, &found)?;
        }
    }
    Ok(file)
}

/// Returns `true` if all of these little-endian f32 are finite.
fn are_finite(bytes: &[u8]) -> bool {
    let magnitude = |number: &[u8; 4]| u32::from_le_bytes(*number) & 0x7fff_ffff;
    let greatest = bytes.as_chunks().0.iter().fold(0, |greatest, number| magnitude(number).max(greatest));
    greatest < f32::INFINITY.to_bits()
}
