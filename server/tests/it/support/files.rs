//! Small files, plain and compressed, in a folder of their own.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use dpr_data::Passage;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// A temporary folder.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, bytes).unwrap();
        path
    }

    /// What is there, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs_err::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Puts other bytes in the place of a file, which may be read-only.
pub(crate) fn overwrite(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
    let path = path.as_ref();
    if path.exists() {
        fs_err::remove_file(path)?;
    }
    fs_err::write(path, bytes)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// The text of a compressed file.
pub(crate) fn gunzip(path: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(fs_err::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn passage(id: &str, title: &str, text: &str) -> Passage {
    Passage::new(id, title, text)
}
