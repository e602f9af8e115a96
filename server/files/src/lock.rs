//! One writer in a directory at a time.

use std::fs::TryLockError;
use std::io::{self, Write as _};
use std::path::Path;

use fs_err as fs;

/// An advisory lock on a directory, held until dropped. The operating system releases it when the process dies,
/// so that no stale lock is ever left; the empty file stays.
#[derive(Debug)]
pub struct DirLock {
    _file: std::fs::File,
}

impl DirLock {
    /// The lock's file in the directory.
    pub const NAME: &str = ".lock";

    /// Locks `dir`, which exists; `None` when another holds it.
    pub fn acquire(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(Self::NAME);
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?.into_parts().0;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// As [`DirLock::acquire`], and leaves a note of who holds it, for [`DirLock::holder`].
    pub fn acquire_as(dir: &Path, holder: &str) -> io::Result<Option<Self>> {
        let lock = Self::acquire(dir)?;
        if let Some(Self { _file: file }) = &lock {
            // The note is a courtesy: a full disk must not keep anybody from the lock.
            let note = format!("{holder} (process {})\n", std::process::id());
            let _ = file.set_len(0).and_then(|()| (&mut &*file).write_all(note.as_bytes()));
        }
        Ok(lock)
    }

    /// Returns the note of the process that holds the lock of `dir`; `another process` when there is none.
    pub fn holder(dir: &Path) -> String {
        let note = fs::read_to_string(dir.join(Self::NAME)).unwrap_or_default();
        match note.trim() {
            "" => "another process".to_owned(),
            note => note.chars().take(200).collect(),
        }
    }
}
