//! The identity of a file, whatever its name.

use std::fs::Metadata;

/// The device and the inode of a file, where the system has them; all files are alike where it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(Option<(u64, u64)>);

impl Identity {
    #[cfg(unix)]
    pub(crate) fn of(file: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self(Some((file.dev(), file.ino())))
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Self {
        Self(None)
    }

    /// Returns `true` if files can be told from one another.
    pub(crate) fn is_known(self) -> bool {
        self.0.is_some()
    }
}
