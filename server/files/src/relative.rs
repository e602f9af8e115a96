//! Files that a manifest names: only plain files with names that stay in the manifest's directory.

use std::io;
use std::path::Path;

use fs_err as fs;

use crate::plain::NotPlain;

/// Returns `true` if `name` is a path of plain parts with `/` between them: it cannot lead out of the directory it is
/// joined to, on any system.
pub fn is_plain(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || matches!(c, '\\' | ':');
    name.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains(is_odd))
}

/// Returns the length of a file, asked before it is read: a device or a pipe has no end.
pub fn size(path: &Path) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    if found.is_file() { Ok(found.len()) } else { Err(NotPlain(path.to_path_buf()).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_stay_where_they_are_are_plain() {
        for name in
            ["vectors.f32", "sparse/meta.json", ".managed.json", "web/question_encoder.q8.safetensors", "é.."]
        {
            assert!(is_plain(name), "{name}");
        }
        for name in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "./x",
            "a//b",
            "a/",
            "C:x",
            "a\\..\\x",
            "a\0",
            "a\nb",
        ] {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn a_directory_has_no_size() {
        let dir = tempfile::tempdir().unwrap();
        let error = size(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not a plain file"), "{error}");
    }
}
