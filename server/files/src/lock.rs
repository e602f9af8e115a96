//! One writer in a directory at a time.

use std::fs::TryLockError;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::identity::Identity;
use crate::plain::NotPlain;

/// Attempts to lock a file that is removed and made again meanwhile.
const ATTEMPTS: usize = 10;

/// An advisory lock on a directory, held until dropped. The operating system releases it when the process dies,
/// so that no stale lock is ever left; the empty file stays.
///
/// The lock is on the file, not on its name: who removes the file lets a second writer in. [`is_held`](Self::is_held)
/// tells.
#[derive(Debug)]
pub struct DirLock {
    file: std::fs::File,
    path: PathBuf,
}

impl DirLock {
    /// The lock's file in the directory.
    pub const NAME: &str = ".lock";

    /// Locks `dir`, which exists; `None` when another holds it.
    pub fn acquire(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(Self::NAME);
        for _ in 0..ATTEMPTS {
            let file = open(fs::OpenOptions::new().create(true).truncate(false).write(true), &path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
            let lock = Self { file, path: path.clone() };
            // Otherwise the file was removed after it was opened, and another may be locked under its name.
            if lock.is_held()? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// As [`DirLock::acquire`], and leaves a note of who holds it, for [`DirLock::holder`].
    pub fn acquire_as(dir: &Path, holder: &str) -> io::Result<Option<Self>> {
        let lock = Self::acquire(dir)?;
        if let Some(Self { file, .. }) = &lock {
            // The note is a courtesy: a full disk must not keep anybody from the lock.
            let note = format!("{holder} (process {})\n", std::process::id());
            let _ = file.set_len(0).and_then(|()| (&mut &*file).write_all(note.as_bytes()));
        }
        Ok(lock)
    }

    /// Returns the note of the process that holds the lock of `dir`; `another process` when there is none.
    pub fn holder(dir: &Path) -> String {
        match read_note(&dir.join(Self::NAME)).unwrap_or_default().trim() {
            "" => "another process".to_owned(),
            note => note.chars().take(200).collect(),
        }
    }

    /// Returns `true` while the directory's lock is the file that this holds; `false` once that was removed or
    /// replaced, so that another process may hold the lock of this name.
    ///
    /// # Errors
    /// An I/O error when the file cannot be looked at.
    pub fn is_held(&self) -> io::Result<bool> {
        let ours = Identity::of(&self.file.metadata()?);
        match fs::symlink_metadata(&self.path) {
            Ok(found) => Ok(Identity::of(&found) == ours),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns an error if the lock is no longer [held](Self::is_held).
    ///
    /// # Errors
    /// [`Error::LockLost`](crate::Error::LockLost), or the lock cannot be looked at.
    pub fn check(&self) -> Result<(), crate::Error> {
        match self.is_held() {
            Ok(true) => Ok(()),
            Ok(false) => Err(crate::Error::LockLost { path: self.path.clone() }),
            Err(error) => Err(crate::Error::read(&self.path)(error)),
        }
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing would do, but for a process that is just being started: until it runs its program it has the file
        // open too.
        let _ = self.file.unlock();
    }
}

fn read_note(path: &Path) -> io::Result<String> {
    let mut note = Vec::new();
    open(fs::OpenOptions::new().read(true), path)?.take(1000).read_to_end(&mut note)?;
    Ok(String::from_utf8_lossy(&note).into_owned())
}

/// Opens the lock's file, which is a plain one: in a directory that somebody else made it may be a link to a file
/// that must not be written to.
fn open(options: &mut fs::OpenOptions, path: &Path) -> io::Result<std::fs::File> {
    let refused = || io::Error::from(NotPlain(path.to_path_buf()));
    // For the sake of the message; what comes in between is seen below.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(refused());
    }
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let file = options.open(path)?.into_parts().0;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_lock_whose_file_is_removed_or_replaced_is_no_longer_held() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::acquire(dir.path()).unwrap().unwrap();
        first.check().unwrap();
        assert!(DirLock::acquire(dir.path()).unwrap().is_none());

        fs::remove_file(dir.path().join(DirLock::NAME)).unwrap();
        assert!(matches!(first.check(), Err(Error::LockLost { .. })));
        // A second writer can lock the directory, and the check of the first one fails.
        let second = DirLock::acquire(dir.path()).unwrap().unwrap();
        assert!(matches!(first.check(), Err(Error::LockLost { .. })));
        second.check().unwrap();
    }
}
