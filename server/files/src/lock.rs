//! One writer in a directory at a time.

use std::fs::TryLockError;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use fs_err as fs;

use crate::relative::NotPlain;

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
        let file = open(fs::OpenOptions::new().create(true).truncate(false).write(true), &path)?;
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
        match read_note(&dir.join(Self::NAME)).unwrap_or_default().trim() {
            "" => "another process".to_owned(),
            note => note.chars().take(200).collect(),
        }
    }
}

fn read_note(path: &Path) -> io::Result<String> {
    let mut note = Vec::new();
    open(fs::OpenOptions::new().read(true), path)?.take(1000).read_to_end(&mut note)?;
    Ok(String::from_utf8_lossy(&note).into_owned())
}

/// Opens the lock's file, which is a plain one: in a directory that somebody else made it may be a link to a file that must
/// not be written to.
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
