//! The index directory: versions side by side, and a pointer to the one in use.
//!
//! ```text
//! DIR/current          `v-3 <sha256 of its manifest.json>`; replaced by one rename, which publishes a version
//! DIR/v-3/             manifest.json, passages.jsonl, vectors.f32 and, for HNSW, graph.hnsw; sparse/ for BM25
//! DIR/v-2/             the version before, kept for a reader that looked up `current` just before it changed
//! ```
//! The pointer vouches for the manifest and the manifest for every other file, so that no byte can change unseen.

use std::io;
use std::path::{Path, PathBuf};

use dpr_core::model::sha256_hex;
use fs_err as fs;

use super::IndexError;
use crate::atomic::{self, StagedDir};
use crate::lock::DirLock;

const CURRENT: &str = "current";
const VERSION_PREFIX: &str = "v-";

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const VECTORS: &str = "vectors.f32";
pub(super) const PASSAGES: &str = "passages.jsonl";
pub(super) const GRAPH: &str = "graph.hnsw";
/// The folder of the inverted index.
pub(super) const SPARSE: &str = "sparse";

/// An index directory, on which one writer at a time publishes versions.
#[derive(Debug)]
pub struct IndexDir {
    path: PathBuf,
}

/// What `current` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) version: u64,
    pub(super) manifest_sha256: String,
}

/// The right to publish: holds the directory's lock.
#[derive(Debug)]
pub(super) struct Publisher {
    path: PathBuf,
    next: u64,
    _lock: DirLock,
}

impl IndexDir {
    /// The directory at `path`, which may not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    /// The version in use, from 1; a server may poll it to see when another is published.
    ///
    /// # Errors
    /// [`IndexError::NotAnIndex`] when there is none, [`IndexError::Corrupt`] when the pointer is damaged.
    pub fn current_version(&self) -> Result<u64, IndexError> {
        Ok(self.pointer()?.version)
    }

    pub(super) fn pointer(&self) -> Result<Pointer, IndexError> {
        let path = self.path.join(CURRENT);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(IndexError::NotAnIndex { path: self.path.clone() });
            }
            Err(source) => return Err(IndexError::Read { path, source }),
        };
        Pointer::parse(&bytes).ok_or_else(|| IndexError::corrupt(&path, "it is not a version and a sha256"))
    }

    pub(super) fn version_path(&self, version: u64) -> PathBuf {
        self.path.join(format!("{VERSION_PREFIX}{version}"))
    }

    /// Locks the directory for writing, and makes it when it is missing.
    pub(super) fn publisher(&self) -> Result<Publisher, IndexError> {
        let path = &self.path;
        fs::create_dir_all(path).map_err(IndexError::write(path))?;
        let Some(lock) = DirLock::acquire(path).map_err(IndexError::write(path))? else {
            return Err(IndexError::Busy { path: path.clone() });
        };
        let versions = self.versions()?;
        atomic::remove_unfinished(path).map_err(IndexError::write(path))?;
        let next = versions.into_iter().max().unwrap_or(0) + 1;
        Ok(Publisher { path: path.clone(), next, _lock: lock })
    }

    /// Versions on disk; anything that is not ours is refused before something is written or removed beside it.
    fn versions(&self) -> Result<Vec<u64>, IndexError> {
        let mut versions = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(IndexError::read(&self.path))? {
            let name =
                entry.map_err(IndexError::read(&self.path))?.file_name().to_string_lossy().into_owned();
            match parse_version(&name) {
                Some(version) => versions.push(version),
                None if name == CURRENT || name == DirLock::NAME => {}
                None if name.starts_with(atomic::STAGING_PREFIX) => {}
                None => return Err(IndexError::Foreign { path: self.path.clone(), name }),
            }
        }
        Ok(versions)
    }
}

impl Publisher {
    /// A directory for the files of the next version; nobody sees it before [`Publisher::publish`].
    pub(super) fn stage(&self) -> Result<StagedDir, IndexError> {
        StagedDir::beside(&self.path.join(format!("{VERSION_PREFIX}{}", self.next)))
            .map_err(IndexError::write(&self.path))
    }

    /// Makes the staged version the one in use, and removes all but it and the one that was in use.
    pub(super) fn publish(self, staged: StagedDir, manifest: &[u8]) -> Result<u64, IndexError> {
        let dir = IndexDir::new(&self.path);
        let before = dir.pointer().ok().map(|pointer| pointer.version);
        let write = || IndexError::write(&self.path);
        staged.publish().map_err(write())?;
        let pointer = Pointer { version: self.next, manifest_sha256: sha256_hex(manifest) };
        let switched =
            atomic::write_file(&self.path.join(CURRENT), |out| out.write_all(pointer.text().as_bytes()));
        if let Err(source) = switched {
            // Nothing points to the new version: leave no trace of it. When that fails too, the next build will.
            let _ = fs::remove_dir_all(dir.version_path(self.next));
            return Err(IndexError::Write { path: self.path.clone(), source });
        }
        // The index is published: failing to tidy up must not make it look otherwise.
        for version in dir.versions().unwrap_or_default() {
            if version != self.next && Some(version) != before {
                let path = dir.version_path(version);
                if let Err(error) = fs::remove_dir_all(&path) {
                    tracing::warn!("an old version of the index stays at {}: {error}", path.display());
                }
            }
        }
        Ok(self.next)
    }
}

impl Pointer {
    fn text(&self) -> String {
        format!("{VERSION_PREFIX}{} {}\n", self.version, self.manifest_sha256)
    }

    /// Only the very text that [`Pointer::text`] makes.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (version, sha256) = text.strip_suffix('\n')?.split_once(' ')?;
        let pointer = Self { version: parse_version(version)?, manifest_sha256: sha256.to_owned() };
        let is_hex = sha256.len() == 64 && sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (is_hex && pointer.text() == text).then_some(pointer)
    }
}

fn parse_version(name: &str) -> Option<u64> {
    name.strip_prefix(VERSION_PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_only_as_it_was_written() {
        let pointer = Pointer { version: 12, manifest_sha256: "ab".repeat(32) };
        let text = pointer.text();
        assert_eq!(Pointer::parse(text.as_bytes()), Some(pointer));
        for bad in
            ["", "v-1\n", "v-x 00\n", text.trim(), &text.replace("v-12", "v-012"), &text.replace("ab", "AB")]
        {
            assert_eq!(Pointer::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
