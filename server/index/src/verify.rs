//! A full check of an index directory that is not served.

use std::collections::BTreeSet;
use std::path::Path;

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

/// Checks every file of the version in use: that it is there, its size and its sha256, that no other lies beside it,
/// every update in its log, and, where these hold, that all of it can be read as an index.
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
        let listed: BTreeSet<_> = version.manifest.files.keys().map(|name| version.dir.join(name)).collect();
        for entry in WalkDir::new(version.dir).sort_by_file_name() {
            let entry = entry.map_err(|e| FileError::read(version.dir)(e.into()))?;
            let is_known = entry.path() == version.dir.join(MANIFEST) || listed.contains(entry.path());
            if entry.file_type().is_file() && !is_known {
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
