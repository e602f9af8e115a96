//! The errors of files, whatever is in them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The error of reading or writing files.
///
/// The causes that the system gives name their path themselves (`fs_err` sees to that); the other variants hold it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Error {
    /// A file cannot be read.
    #[error("{0}")]
    Read(#[source] Arc<io::Error>),
    /// A file cannot be written: a full disk, an unwritable directory.
    #[error("{0}")]
    Write(#[source] Arc<io::Error>),
    /// A file is not there.
    #[error("{} is missing", path.display())]
    Missing { path: PathBuf },
    /// Another process writes in a directory; `holder` is how it introduced itself.
    #[error("{} is being written by {holder}", path.display())]
    Busy { path: PathBuf, holder: String },
    /// The file that a process holds as the lock of a directory was removed or replaced.
    #[error(
        "{} was removed while it was held as a lock, so that another process may write there: nothing more is written \
         by this one",
        path.display()
    )]
    LockLost { path: PathBuf },
    /// A directory holds a file of this name, which does not belong there.
    #[error("{} holds `{name}`, which does not belong there", path.display())]
    Foreign { path: PathBuf, name: String },
    /// A file was written by a newer version of this program.
    #[error("{} has format version {found}, this program reads up to {supported}", path.display())]
    NewerFormat { path: PathBuf, found: u32, supported: u32 },
    /// A file is shorter or longer than what lists it says.
    #[error("{} has {got} bytes, expected {expected}", path.display())]
    Size { path: PathBuf, expected: u64, got: u64 },
    /// The content of a file is not what was written.
    #[error("{} is damaged (its checksum differs)", path.display())]
    Checksum { path: PathBuf },
    /// A file whose checksum holds, or that has none, makes no sense.
    #[error("{} is damaged ({reason})", path.display())]
    Corrupt { path: PathBuf, reason: String },
}

impl Error {
    /// Returns what makes an error of a failure to read the file at `path`.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path: path.to_path_buf() },
            _ => Self::Read(Arc::new(source)),
        }
    }

    /// Makes an error of a failure to write.
    pub fn write(source: io::Error) -> Self {
        Self::Write(Arc::new(source))
    }

    /// Returns the error that the file at `path` makes no sense.
    pub fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), reason: reason.into() }
    }
}
