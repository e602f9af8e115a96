//! Memory-mapped files: pages are read when they are used, kept while there is room, and shared between processes.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fs_err as fs;
use memmap2::Mmap;

/// The bytes of a file that nobody writes to: only for files that were published whole and are replaced, never changed.
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    path: PathBuf,
    identity: Option<Identity>,
}

/// The device and the inode of a file, where the system has them.
type Identity = (u64, u64);

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// An I/O error that names the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = fs::File::open(path)?;
        // SAFETY: the files of a published version are never written to again, by any command of this program: a new version
        // has files of its own, and an old one's are unlinked, which leaves what is mapped.
        let map = unsafe { Mmap::map(file.file()) };
        let map =
            map.map_err(|e| io::Error::new(e.kind(), format!("failed to map `{}`: {e}", path.display())))?;
        Ok(Self { map, path: path.to_path_buf(), identity: identity(&file.metadata()?) })
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Returns the file as little-endian numbers; `None` on a machine that has them the other way, or for a file that
    /// ends within one.
    pub fn numbers(&self) -> Option<&[f32]> {
        if cfg!(target_endian = "big") { None } else { bytemuck::try_cast_slice(&self.map).ok() }
    }

    /// Gives the memory of these bytes back to the system; they are read from the file again when they are next looked
    /// at.
    pub fn release(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        if bytes.start < bytes.end && bytes.end <= self.map.len() {
            // SAFETY: the map is shared, read-only and of a file that nobody writes to, so that a page that is dropped comes
            // back with the very bytes it had. It is advice: where it is not taken, nothing is lost.
            let _ = unsafe {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                self.map.unchecked_advise_range(advice, bytes.start, bytes.len())
            };
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }

    /// Makes `target` another name (a hard link) of the very file that is mapped, and returns whether it is one. It is
    /// not on another file system, or where another file has taken the name; nothing is at `target` then.
    pub fn link(&self, target: &Path) -> bool {
        if self.identity.is_none() || fs::hard_link(&self.path, target).is_err() {
            return false;
        }
        // A link to a symbolic link is one itself.
        let is_ours = fs::symlink_metadata(target).is_ok_and(|linked| identity(&linked) == self.identity);
        if !is_ours {
            let _ = fs::remove_file(target);
        }
        is_ours
    }
}

#[cfg(unix)]
fn identity(file: &std::fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Option<Identity> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written_and_stay_when_the_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        fs::write(&path, [1.5_f32, -2.0].map(f32::to_le_bytes).concat()).unwrap();
        let mapped = Mapped::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(mapped.numbers(), Some([1.5, -2.0].as_slice()));
        fs::write(&path, [0; 7]).unwrap();
        assert_eq!(Mapped::open(&path).unwrap().numbers(), None);
        fs::write(&path, []).unwrap();
        assert!(Mapped::open(&path).unwrap().bytes().is_empty());
        let missing = Mapped::open(&dir.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
    }
}
