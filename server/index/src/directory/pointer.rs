//! The layout of an index directory: versions side by side, and a pointer to the one in use.
//!
//! ```text
//! DIR/current          `v-3 <sha256 of its manifest.json>`; replaced by one rename, which publishes a version
//! DIR/v-3/             manifest.json, passages.jsonl, passages.idx, vectors.f32; codes.i8, codes.f16 or codes.b1 where
//!                      rows are chosen by fewer bits, graph.hnsw for HNSW and codes.b1 beside it, metadata.columns
//!                      where passages have metadata, sparse/ for BM25
//! DIR/updates-3.log    what changed since v-3 was built; `current` then ends in ` updates`
//! DIR/compacting       there while a compaction runs, and after one that was killed
//! DIR/private-3/       private tables of v-3, which the crate dpr-private writes
//! DIR/v-2/             the version before, kept for a reader that looked up `current` just before it changed
//! ```
//! The pointer vouches for the manifest and the manifest for every other file of the version, so that no byte can
//! change unseen; that there is a log the pointer says, and the log's own checksums vouch for what is in it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dpr_core::model::sha256_hex;
use fs_err as fs;

use crate::{FileError, OpenError};
use dpr_files::atomic::{self, StagedDir};
use dpr_files::{DirLock, plain};

const CURRENT: &str = "current";
/// The most bytes of the pointer that are read: some five times what it has.
const POINTER: u64 = 512;
const VERSION_PREFIX: &str = "v-";
const LOG_PREFIX: &str = "updates-";
const LOG_SUFFIX: &str = ".log";
/// The prefix of the folders of private tables.
pub const PRIVATE_PREFIX: &str = "private-";
/// The marker of a compaction that has begun and not ended.
pub(crate) const COMPACTING: &str = "compacting";
/// The end of the pointer when the version has a log.
const HAS_LOG: &str = " updates";

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const VECTORS: &str = "vectors.f32";
/// Checksums of the blocks of [`VECTORS`]; versions that earlier releases built have none.
pub(crate) const VECTORS_BLOCKS: &str = "vectors.crc";
pub(crate) const PASSAGES: &str = "passages.jsonl";
/// The table of the passages' positions in [`PASSAGES`].
pub(crate) const PASSAGES_TABLE: &str = "passages.idx";
/// The metadata of the passages.
pub(crate) const METADATA: &str = "metadata.columns";
pub(crate) const GRAPH: &str = "graph.hnsw";
/// The folder of the inverted index.
pub(crate) const SPARSE: &str = "sparse";

/// An index directory, on which one writer at a time publishes versions.
#[derive(Debug)]
pub struct IndexDir {
    path: PathBuf,
}

/// The content of `current`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) version: u64,
    pub(crate) manifest_sha256: String,
    /// `true` if a write-ahead log belongs to the version.
    pub(crate) has_log: bool,
}

/// The right to publish: holds the directory's lock.
#[derive(Debug)]
pub(crate) struct Publisher {
    path: PathBuf,
    next: u64,
    /// The version in use when the right was given; where the pointer could not be read, every version there.
    before: Vec<u64>,
    lock: Arc<DirLock>,
}

/// Writes the log of a version to the path it is given, before the version is put in use.
pub(crate) type WriteLog<'a> = &'a dyn Fn(&Path) -> Result<(), FileError>;

impl IndexDir {
    /// Names the directory at `path`, which may not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    /// Returns the version in use, from 1; a server may poll it to see when another is published.
    ///
    /// # Errors
    /// [`OpenError::NotAnIndex`] when there is none, [`FileError::Corrupt`] when the pointer is damaged.
    pub fn current_version(&self) -> Result<u64, OpenError> {
        Ok(self.pointer()?.version)
    }

    pub(crate) fn pointer(&self) -> Result<Pointer, OpenError> {
        let path = self.path.join(CURRENT);
        let bytes = match plain::read(&path, POINTER) {
            Ok(bytes) => bytes,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(OpenError::NotAnIndex { path: self.path.clone() });
            }
            Err(error) => return Err(FileError::read(&path)(error).into()),
        };
        Pointer::parse(&bytes)
            .ok_or_else(|| FileError::corrupt(&path, "it is not a version and a sha256").into())
    }

    pub(crate) fn version_path(&self, version: u64) -> PathBuf {
        self.path.join(format!("{VERSION_PREFIX}{version}"))
    }

    /// Returns the path of a version's write-ahead log.
    pub(crate) fn log_path(&self, version: u64) -> PathBuf {
        self.path.join(format!("{LOG_PREFIX}{version}{LOG_SUFFIX}"))
    }

    /// Returns the path of the private tables of a version, which the crate dpr-private writes.
    pub fn private_path(&self, version: u64) -> PathBuf {
        self.path.join(format!("{PRIVATE_PREFIX}{version}"))
    }

    /// Locks the directory, which exists, for writing; `holder` is what others are told.
    pub(crate) fn lock(&self, holder: &str) -> Result<Arc<DirLock>, FileError> {
        let path = &self.path;
        match DirLock::acquire_as(path, holder).map_err(FileError::write)? {
            Some(lock) => Ok(Arc::new(lock)),
            None => Err(FileError::Busy { path: path.clone(), holder: DirLock::holder(path) }),
        }
    }

    /// Locks the directory for writing, and makes it when it is missing.
    pub(crate) fn publisher(&self) -> Result<Publisher, FileError> {
        atomic::create_dir_all(&self.path).map_err(FileError::write)?;
        if matches!(self.pointer(), Err(OpenError::NotAnIndex { .. })) {
            self.refuse_foreign()?;
        }
        let lock = self.lock("another build")?;
        let publisher = self.publisher_with(lock)?;
        atomic::remove_unfinished(&self.path).map_err(FileError::write)?;
        Ok(publisher)
    }

    /// Returns the right to publish the next version, to whoever holds the lock already. What killed processes placed
    /// and did not put in use is removed, unless the pointer, which says what is in use, cannot be read.
    pub(crate) fn publisher_with(&self, lock: Arc<DirLock>) -> Result<Publisher, FileError> {
        let pointer = self.pointer();
        if let Ok(Pointer { version: in_use, .. }) = &pointer {
            // Without the lock another process may be about to put one of them in use.
            lock.check()?;
            self.remove_after(*in_use)?;
        }
        let versions = self.versions()?;
        let newest = versions.iter().copied().max().unwrap_or(0);
        let next = newest.checked_add(1).ok_or_else(|| {
            let reason = format!(
                "it has version {newest}, after which there is none: use another directory (`dpr index snapshot` \
                 copies an index)"
            );
            FileError::corrupt(&self.path, reason)
        })?;
        let before = match pointer {
            Ok(Pointer { version, .. }) => vec![version],
            Err(error) => {
                if !versions.is_empty() {
                    tracing::warn!(
                        "which version is in use is not known ({error}): all that are there, and their updates, are \
                         kept until the build after this one"
                    );
                }
                versions
            }
        };
        Ok(Publisher { path: self.path.clone(), next, before, lock })
    }

    /// Removes versions with higher numbers than the one in use, their logs and their private tables. They were never
    /// in use: the pointer only moves on, and a log takes no updates before its version's pointer is durable. What
    /// cannot be removed stays, and the next version gets a higher number.
    fn remove_after(&self, in_use: u64) -> Result<(), FileError> {
        let number =
            |name: &String| parse_version(name).or_else(|| parse_log(name)).or_else(|| parse_private(name));
        let numbers: BTreeSet<u64> =
            self.names()?.iter().filter_map(number).filter(|number| *number > in_use).collect();
        numbers.into_iter().for_each(|number| self.remove(number));
        Ok(())
    }

    /// Removes a version that is not in use, its log and its private tables; what cannot be removed is logged.
    fn remove(&self, number: u64) {
        let (log, private) = (self.log_path(number), self.private_path(number));
        let version = self.version_path(number);
        let removed = [fs::remove_file(log), fs::remove_dir_all(private), fs::remove_dir_all(version)];
        let failed = removed.into_iter().filter_map(Result::err);
        for error in failed.filter(|error| error.kind() != io::ErrorKind::NotFound) {
            tracing::warn!("a version of the index that was never in use stays: {error}");
        }
    }

    /// Switches the pointer, for whoever holds the lock.
    pub(crate) fn point(&self, pointer: &Pointer) -> Result<(), FileError> {
        atomic::write_file(&self.path.join(CURRENT), |out| out.write_all(pointer.text().as_bytes()))
            .map_err(FileError::write)
    }

    /// Lists the versions on disk. What else lies in an index directory is not looked at: a file system's own
    /// folders, what a network file system keeps of removed files, what an editor left.
    fn versions(&self) -> Result<Vec<u64>, FileError> {
        Ok(self.names()?.iter().filter_map(|name| parse_version(name)).collect())
    }

    /// Refuses a directory that holds anything of others: for the first build, which may have been given the wrong
    /// path.
    fn refuse_foreign(&self) -> Result<(), FileError> {
        dpr_files::refuse_foreign(&self.path, |name| {
            let of_a_version =
                parse_version(name).or_else(|| parse_log(name)).or_else(|| parse_private(name));
            matches!(name, CURRENT | COMPACTING) || of_a_version.is_some()
        })
    }

    fn names(&self) -> Result<Vec<String>, FileError> {
        let name = |entry: io::Result<fs::DirEntry>| -> io::Result<String> {
            Ok(entry?.file_name().to_string_lossy().into_owned())
        };
        let names = fs::read_dir(&self.path).and_then(|entries| entries.map(name).collect());
        names.map_err(FileError::read(&self.path))
    }
}

impl Publisher {
    /// Makes a directory for the files of the next version; no reader sees it before [`Publisher::publish`].
    pub(crate) fn stage(&self) -> Result<StagedDir, FileError> {
        StagedDir::beside(&self.path.join(format!("{VERSION_PREFIX}{}", self.next))).map_err(FileError::write)
    }

    /// Makes the staged version the one in use, with a log if there is one to write, and removes all but it and the
    /// one that was in use.
    pub(crate) fn publish(
        self,
        staged: StagedDir,
        manifest: &[u8],
        write_log: Option<WriteLog<'_>>,
    ) -> Result<Pointer, FileError> {
        self.place(staged)?;
        let pointer = self.switch(manifest, write_log)?;
        self.tidy();
        Ok(pointer)
    }

    /// Puts the staged version beside the one in use, with files that nobody may write to. Nobody looks at it before
    /// [`Publisher::switch`].
    pub(crate) fn place(&self, staged: StagedDir) -> Result<(), FileError> {
        self.lock.check()?;
        staged.make_files_read_only().and_then(|()| staged.publish()).map_err(FileError::write)
    }

    /// Makes the version that was placed the one in use. When that fails, its files are removed, unless it may be in
    /// use all the same: the pointer may have been renamed before the failure.
    pub(crate) fn switch(
        &self,
        manifest: &[u8],
        write_log: Option<WriteLog<'_>>,
    ) -> Result<Pointer, FileError> {
        let dir = IndexDir::new(&self.path);
        let pointer = Pointer {
            version: self.next,
            manifest_sha256: sha256_hex(manifest),
            has_log: write_log.is_some(),
        };
        let log = dir.log_path(self.next);
        let logged = self.lock.check().and_then(|()| write_log.map_or(Ok(()), |write| write(&log)));
        match logged.and_then(|()| dir.point(&pointer)) {
            Ok(()) => Ok(pointer),
            Err(error) => {
                self.withdraw();
                Err(error)
            }
        }
    }

    /// Returns `true` if the pointer was read and does not name what was placed. A pointer that cannot be read may.
    pub(crate) fn is_not_in_use(&self) -> bool {
        match IndexDir::new(&self.path).pointer() {
            Ok(now) => now.version != self.next,
            Err(OpenError::NotAnIndex { .. }) => true,
            Err(_) => false,
        }
    }

    /// Removes what was placed, if it is known not to be in use; when that fails, the next build does.
    pub(crate) fn withdraw(&self) {
        if !self.is_not_in_use() {
            return;
        }
        IndexDir::new(&self.path).remove(self.next);
    }

    /// Returns the number of the version to be published.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Removes all versions and logs but those in use and the ones before. The version is published: failing to tidy
    /// up must not make it look otherwise. Private tables stay until others are built, which get the dimensions and
    /// the parameter set of these.
    pub(crate) fn tidy(&self) {
        let dir = IndexDir::new(&self.path);
        let Ok(Pointer { version: current, .. }) = dir.pointer() else { return };
        let versions = dir.versions().unwrap_or_default();
        let kept = |version: u64| version == current || self.before.contains(&version);
        for version in versions.into_iter().filter(|version| !kept(*version)) {
            let path = dir.version_path(version);
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!("an old version of the index stays at {}: {error}", path.display());
            }
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if parse_log(&entry.file_name().to_string_lossy()).is_some_and(|version| !kept(version)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Pointer {
    fn text(&self) -> String {
        let log = if self.has_log { HAS_LOG } else { "" };
        format!("{VERSION_PREFIX}{} {}{log}\n", self.version, self.manifest_sha256)
    }

    /// Only the very text that [`Pointer::text`] makes.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let line = text.strip_suffix('\n')?;
        let (line, has_log) = line.strip_suffix(HAS_LOG).map_or((line, false), |line| (line, true));
        let (version, sha256) = line.split_once(' ')?;
        let pointer = Self { version: parse_version(version)?, manifest_sha256: sha256.to_owned(), has_log };
        let is_hex = sha256.len() == 64 && sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (is_hex && pointer.text() == text).then_some(pointer)
    }
}

fn parse_version(name: &str) -> Option<u64> {
    number(name.strip_prefix(VERSION_PREFIX)?)
}

fn parse_private(name: &str) -> Option<u64> {
    number(name.strip_prefix(PRIVATE_PREFIX)?)
}

fn parse_log(name: &str) -> Option<u64> {
    number(name.strip_prefix(LOG_PREFIX)?.strip_suffix(LOG_SUFFIX)?)
}

/// Returns the number of a version as its names have it: without a sign and without zeros before it.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests;
