//! Data that may be used in tests but not shipped: published question sets, predictions and Wikipedia introductions.

use std::path::{Path, PathBuf};

/// A file or folder of it. It lies beside the repository, or where `DPR_SHARED` says; without the variable a test that
/// finds nothing says so and passes, with it a missing file fails.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DPR_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let path = named.clone().unwrap_or_else(beside).join("data").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(named.is_none(), "DPR_SHARED is set, but {} is not there", path.display());
    eprintln!("skipped: {} is not there (DPR_SHARED names another place)", path.display());
    None
}
