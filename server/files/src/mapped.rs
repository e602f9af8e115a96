//! Files as memory: pages are read when they are used, kept while there is room, and shared between processes.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;

use fs_err as fs;
use memmap2::Mmap;

/// The bytes of a file that nobody writes to: only for files that were published whole and are replaced, never changed.
#[derive(Debug)]
pub struct Mapped(Mmap);

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
        map.map(Self)
            .map_err(|e| io::Error::new(e.kind(), format!("failed to map `{}`: {e}", path.display())))
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The file as little-endian numbers; `None` on a machine that has them the other way, or for a file that ends within one.
    pub fn numbers(&self) -> Option<&[f32]> {
        if cfg!(target_endian = "big") { None } else { bytemuck::try_cast_slice(&self.0).ok() }
    }
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
