//! Directories that a writer was given, and in which something else may be.

use std::path::Path;

use fs_err as fs;

use crate::{DirLock, Error, atomic};

/// Refuses a directory that holds a name which is not expected there, before anything in it is written or removed. A
/// missing directory is fine, and so are a lock and what interrupted writers left.
///
/// # Errors
/// [`Error::Foreign`] names the directory and what it holds, [`Error::Read`] the directory that cannot be listed.
pub fn refuse_foreign(dir: &Path, is_expected: impl Fn(&str) -> bool) -> Result<(), Error> {
    if !fs::exists(dir).map_err(Error::read(dir))? {
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(Error::read(dir))? {
        let name = entry.map_err(Error::read(dir))?.file_name().to_string_lossy().into_owned();
        if name != DirLock::NAME && !name.starts_with(atomic::STAGING_PREFIX) && !is_expected(&name) {
            return Err(Error::Foreign { path: dir.to_path_buf(), name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_expected_is_named_and_a_missing_directory_is_fine() {
        let root = tempfile::tempdir().unwrap();
        let is_expected = |name: &str| name == "ours";
        refuse_foreign(&root.path().join("missing"), is_expected).unwrap();
        for name in ["ours", DirLock::NAME, ".unfinished-x"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        refuse_foreign(root.path(), is_expected).unwrap();
        fs::write(root.path().join("thesis.tex"), "").unwrap();
        let error = refuse_foreign(root.path(), is_expected).unwrap_err();
        assert!(matches!(&error, Error::Foreign { name, .. } if name == "thesis.tex"), "{error}");
        let file = refuse_foreign(&root.path().join("ours"), is_expected).unwrap_err();
        assert!(file.to_string().contains("ours"), "{file}");
    }
}
