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

/// The stamp of a file: values that differ when the file was replaced or written, or its owner or mode was changed.
type Stamp = (SystemTime, u64, Inode);

/// The number of a file in its file system, and when its owner or its rights were last changed: a file that could not
/// be read may be readable then.
type Inode = (u64, i64, i64);

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
fn inode(metadata: &std::fs::Metadata) -> Inode {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> Inode {
    (0, 0, 0)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_whose_rights_were_changed_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        fs_err::write(&path, "[[key]]").unwrap();
        fs_err::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        let mut watched = Watched::new([path.clone()]);
        assert!(!watched.has_changed() && !watched.has_changed());
        // File systems keep times in steps of some milliseconds.
        std::thread::sleep(Duration::from_millis(50));
        fs_err::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(!watched.has_changed(), "it may still be written");
        assert!(watched.has_changed() && !watched.has_changed());
    }
}
