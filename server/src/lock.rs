//! One writer in a directory at a time.

use std::fs::TryLockError;
use std::io;
use std::path::Path;

use fs_err as fs;

/// An advisory lock on a directory, held until dropped. The operating system releases it when the process dies,
/// so that no stale lock is ever left; the empty file stays.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: std::fs::File,
}

impl DirLock {
    /// The lock's file in the directory.
    pub(crate) const NAME: &str = ".lock";

    /// Locks `dir`, which exists; `None` when another holds it.
    pub(crate) fn acquire(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(Self::NAME);
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?.into_parts().0;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}
