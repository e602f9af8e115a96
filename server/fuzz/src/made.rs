//! Directories that are made once, of which inputs replace a file.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dpr_files::lock;

use fs_err as fs;

/// A directory that was made once, whose files inputs take the place of; one input at a time.
pub(crate) struct Made {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Made {
    pub(crate) fn new(make: impl FnOnce(&Path)) -> Mutex<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("made");
        make(&path);
        Mutex::new(Self { _dir: dir, path })
    }

    /// Calls `work` with `bytes` in the place of a file.
    pub(crate) fn with(this: &Mutex<Self>, name: &str, bytes: &[u8], work: impl FnOnce(&Path)) {
        let made = lock(this);
        let file = made.path.join(name);
        let before = fs::read(&file).expect("a file that was made");
        let _ = fs::remove_file(&file);
        fs::write(&file, bytes).expect("a small file");
        work(&made.path);
        let _ = fs::remove_file(&file);
        fs::write(&file, before).expect("a small file");
    }

    pub(crate) fn read(this: &Mutex<Self>, name: &str) -> Vec<u8> {
        let made = lock(this);
        fs::read(made.path.join(name)).expect("a file that was made")
    }
}
