//! Files that others replace while they are in use.

use std::path::PathBuf;
use std::time::SystemTime;

/// The state of some files, as they were last taken in and last looked at.
///
/// A file counts as changed once two looks have found it alike: it is then not in the middle of being written, and of
/// two files that belong together both have been replaced.
#[derive(Debug)]
pub(crate) struct Watched {
    paths: Vec<PathBuf>,
    taken: Vec<Option<Stamp>>,
    seen: Vec<Option<Stamp>>,
}

/// The stamp of a file: values that differ when the file was replaced or written.
type Stamp = (SystemTime, u64, u64);

impl Watched {
    /// Takes these files as they are now: to be called before they are read.
    pub(crate) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let now = stamps(&paths);
        Self { paths, taken: now.clone(), seen: now }
    }

    /// Looks at the files. Returns whether they are others than those taken last, and takes them if so.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = stamps(&self.paths);
        let is_still = now == self.seen;
        self.seen.clone_from(&now);
        let has_changed = is_still && now != self.taken;
        if has_changed {
            self.taken = now;
        }
        has_changed
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path: &PathBuf| {
        let metadata = fs_err::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), inode(&metadata)))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}
