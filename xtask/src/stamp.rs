//! Skipping work whose inputs have not changed.
//!
//! A stamp is a file under `target/stamps` with the SHA-256 over the inputs' paths and contents. It is written
//! after the work succeeded; the work is fresh when the hash is the same and all outputs are still there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::{Failure, Outcome};

const FOLDER: &str = "target/stamps";

/// Folders that hold products or tests, never the input of a build.
const SKIPPED: [&str; 7] =
    ["node_modules", "target", "dist", "wasm-dist", "test-results", "tests", "benches"];

/// The inputs of one piece of work.
pub(crate) struct Stamp {
    file: PathBuf,
    hash: String,
}

impl Stamp {
    /// Hashes `inputs` (files, or folders with all they hold) and `extra` (versions, flags).
    pub(crate) fn of(name: &str, inputs: &[&str], extra: &[&str]) -> Outcome<Self> {
        let mut hash = Sha256::new();
        for text in extra {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        for input in inputs {
            let failed = |e: io::Error| Failure::new(format!("cannot read {input}: {e}"));
            for file in files_under(Path::new(input)).map_err(failed)? {
                hash.update(file.to_string_lossy().as_bytes());
                hash.update([0]);
                hash.update(file_digest(&file).map_err(failed)?.as_bytes());
            }
        }
        Ok(Self { file: Path::new(FOLDER).join(name), hash: hex(&hash.finalize()) })
    }

    /// Returns whether the work was done with these inputs and its outputs are still there.
    pub(crate) fn is_fresh(&self, outputs: &[&str]) -> bool {
        outputs.iter().all(|output| Path::new(output).exists())
            && fs::read_to_string(&self.file).is_ok_and(|hash| hash == self.hash)
    }

    /// Remembers that the work was done.
    pub(crate) fn write(&self) -> Outcome {
        let failed = |e: io::Error| Failure::new(format!("cannot write {}: {e}", self.file.display()));
        fs::create_dir_all(FOLDER).map_err(failed)?;
        fs::write(&self.file, &self.hash).map_err(failed)
    }

    /// Forgets an earlier success: called before outputs are touched, so that a failure half-way is not fresh.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// SHA-256 of a file as 64 hexadecimal digits.
pub(crate) fn file_digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

/// Returns bytes in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files of a path in a stable order. A path that does not exist holds none.
fn files_under(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    if !path.is_dir() {
        return Ok(files);
    }
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) && !name.ends_with(".tgz") {
            files.extend(files_under(&entry.path())?);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_a_lost_output_ends_freshness() {
        let folder = std::env::temp_dir().join(format!("dpr-stamp-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        let (input, output) = (folder.join("src/a.rs"), folder.join("out"));
        fs::write(&input, "one").unwrap();
        fs::write(&output, "built").unwrap();
        let (src, out) = (folder.join("src"), output.to_string_lossy().into_owned());
        let src = src.to_string_lossy();
        let stamp = |flags| {
            let mut stamp = Stamp::of("unused", &[&src], &[flags]).unwrap();
            stamp.file = folder.join("stamp");
            stamp
        };
        fs::write(folder.join("stamp"), &stamp("-O3").hash).unwrap();
        assert!(stamp("-O3").is_fresh(&[&out]));
        assert!(!stamp("-Oz").is_fresh(&[&out]));
        fs::write(&input, "two").unwrap();
        assert!(!stamp("-O3").is_fresh(&[&out]));
        fs::write(&input, "one").unwrap();
        fs::remove_file(&output).unwrap();
        assert!(!stamp("-O3").is_fresh(&[&out]));
        fs::remove_dir_all(folder).unwrap();
    }
}
