//! A full check of an index directory that is not served.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::directory::pointer::MANIFEST;
use crate::directory::version::newest;
use crate::{FileError, IndexKind, IndexManifest, IndexReader, LoadedSparse, OpenError};
use dpr_files::digest;

/// The result of checking an index directory.
#[derive(Debug)]
pub struct Verified {
    /// The manifest of the version in use.
    pub manifest: IndexManifest,
    /// Passages added, replaced or deleted since it was built.
    pub changes: u64,
    /// Every file that is not as the manifest says, or that cannot be read ([`FileError::Read`]), in the order of the
    /// names; empty when all is well.
    pub problems: Vec<OpenError>,
}

/// Checks every file of the version in use: that it is there, its size and its sha256, that nothing else lies beside
/// it, every update in its log, and, where these hold, that all of it can be read as an index.
///
/// # Errors
/// [`OpenError`] when there is no index, or its pointer or manifest is damaged: the files cannot be checked then.
pub fn verify(dir: &Path) -> Result<Verified, OpenError> {
    let mut verified = newest(dir, |version| -> Result<_, OpenError> {
        let mut problems = Vec::new();
        for (name, expected) in &version.manifest.files {
            let path = version.dir.join(name);
            let checked = digest::check_size(&path, expected)
                .and_then(|()| digest::of_file(&path).map_err(FileError::read(&path)))
                .and_then(|found| digest::check(&path, expected, &found));
            problems.extend(checked.err().map(OpenError::from));
        }
        let listed = version.manifest.files.keys().map(String::as_str).chain([MANIFEST]);
        let listed: BTreeSet<PathBuf> = listed.map(|name| version.dir.join(name)).collect();
        let folders: BTreeSet<&Path> = listed.iter().filter_map(|file| file.parent()).collect();
        // A version holds the listed files and their folders only; links, pipes and other folders are problems too.
        for entry in WalkDir::new(version.dir).sort_by_file_name() {
            let entry = entry.map_err(|e| FileError::read(version.dir)(e.into()))?;
            if !listed.contains(entry.path()) && !folders.contains(entry.path()) {
                problems.push(FileError::corrupt(entry.path(), "the manifest does not list it").into());
            }
        }
        let log = version.open_log().and_then(|log| {
            let Some(mut log) = log else { return Ok(0) };
            log.check()?;
            Ok(log.changes())
        });
        let changes = log.unwrap_or_else(|problem| {
            problems.push(problem);
            0
        });
        Ok(Verified { manifest: version.manifest, changes, problems })
    })?;
    if verified.problems.is_empty() {
        let read = match verified.manifest.kind {
            IndexKind::Sparse => LoadedSparse::open(dir).and_then(|index| Ok(index.passages.check()?)),
            IndexKind::Exact | IndexKind::Hnsw => {
                IndexReader::open(dir).and_then(|index| Ok(index.live().snapshot().base().check(dir)?))
            }
        };
        verified.problems.extend(read.err());
    }
    Ok(verified)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::sparse::{Analyzer, SparseOptions};
    use crate::vectors::VectorSet;
    use crate::{IndexOptions, build_index};
    use dpr_data::Passage;
    use dpr_files::progress::Silent;
    use fs_err as fs;

    #[test]
    fn a_file_a_folder_and_a_link_that_the_manifest_does_not_list_are_problems() {
        let root = tempfile::tempdir().unwrap();
        let passage = Passage::new("a", "", "Text.");
        let set = VectorSet::new("ab".repeat(32), 2, vec![passage], vec![1.0, 0.5]);
        let words = SparseOptions { analyzer: Analyzer::English, threads: 1 };
        let sparse = cfg!(feature = "sparse").then_some(words);
        build_index(&set, root.path(), &IndexOptions { sparse, ..IndexOptions::default() }, &Silent).unwrap();
        assert!(verify(root.path()).unwrap().problems.is_empty());
        let version = root.path().join("v-1");
        fs::write(version.join("file"), "").unwrap();
        fs::create_dir(version.join("folder")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", version.join("link")).unwrap();
        let problems = verify(root.path()).unwrap().problems;
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let expected = ["file", "folder", "link"].map(|name| {
            format!("{} is damaged (the manifest does not list it)", version.join(name).display())
        });
        assert_eq!(said, expected);
    }
}
