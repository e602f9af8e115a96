//! Memory-mapped files: pages are read when they are used, kept while there is room, and shared between processes.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fs_err as fs;
use memmap2::Mmap;

use crate::faults::Registered;
use crate::identity::Identity;
use crate::plain;

/// The bytes of a file that nobody writes to: only for files that were published whole and are replaced, never changed.
///
/// A file that is cut off under its map, or whose disk fails, is met as a signal (SIGBUS) when the missing page is
/// read; [`path_at`](crate::faults::path_at) tells a handler which file it was.
#[derive(Debug)]
pub struct Mapped {
    /// Dropped before the map, which it tells of.
    _registered: Option<Registered>,
    map: Mmap,
    path: PathBuf,
    identity: Identity,
}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// [`NotPlain`](plain::NotPlain), or an I/O error that names the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = plain::open(path)?;
        // SAFETY: the files of a published version are never written to again, by any command of this program: they are
        // read-only, a new version has files of its own, and an old one's are unlinked, which leaves what is mapped.
        let map = unsafe { Mmap::map(file.file()) };
        let map =
            map.map_err(|e| io::Error::new(e.kind(), format!("failed to map `{}`: {e}", path.display())))?;
        let registered = Registered::new(map.as_ptr() as usize, map.len(), path);
        let identity = Identity::of(&file.metadata()?);
        Ok(Self { _registered: registered, map, path: path.to_path_buf(), identity })
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
            // SAFETY: the map is shared, read-only and of a file that nobody writes to, so that a page that is
            // dropped comes back with the very bytes it had. It is advice: where it is not taken, nothing is lost.
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
        if !self.identity.is_known() || fs::hard_link(&self.path, target).is_err() {
            return false;
        }
        // A link to a symbolic link is one itself.
        let is_ours = fs::symlink_metadata(target).is_ok_and(|linked| Identity::of(&linked) == self.identity);
        if !is_ours {
            let _ = fs::remove_file(target);
        }
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::path_at;

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

    #[test]
    fn the_file_of_an_address_is_known_while_it_is_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, [7; 5000]).unwrap();
        let mapped = Box::new(Mapped::open(&path).unwrap());
        let start = mapped.bytes().as_ptr() as usize;
        for address in [start, start + 4999] {
            // SAFETY: the file is mapped while its addresses are looked up.
            let is_it = unsafe { path_at(address, |found| found == path.as_os_str().as_encoded_bytes()) };
            assert_eq!(is_it, Some(true));
        }
    }
}
