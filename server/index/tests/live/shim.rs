//! Small libraries that stand before the C library in a child process.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a library of this folder, and returns its path; `None` where there is no C compiler.
pub(crate) fn library(source: &str) -> Option<PathBuf> {
    let name = source.replace('/', "-");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.so", std::process::id()));
    // Made under another name: tests in other threads may make the same.
    let made = tempfile::Builder::new().tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([made.path(), &source]).arg("-ldl");
    match compiler.status() {
        Ok(status) => {
            assert!(status.success(), "the C compiler refuses {}", source.display());
            made.persist(&path).unwrap();
            Some(path)
        }
        Err(error) => {
            eprintln!("skipped: there is no C compiler ({error})");
            None
        }
    }
}
