//! A version of an index: its manifest, checked against the pointer.

use std::path::{Path, PathBuf};

use dpr_core::model::sha256_hex;

use super::files::Files;
use super::pointer::{MANIFEST, Pointer, SPARSE};
use crate::sparse::{Analyzer, SparseError};
use crate::wal::WalReader;
use crate::{FileError, INDEX_FORMAT, IndexDir, IndexManifest, OpenError};
use dpr_files::{plain, relative};

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

    /// Returns the files of the version.
    pub(crate) fn files(&self) -> Files {
        Files::new(self.dir.to_path_buf(), self.manifest.clone())
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
