//! Bringing an index to the newest format.

use std::collections::BTreeMap;
use std::path::Path;

use super::copy::publish_with;
use super::loaded::newest;
use super::{INDEX_FORMAT, IndexError, IndexKind, Storage, verify};
use crate::digest;
use crate::mapped::Mapped;

/// Publishes the version in use in the newest format, if it is not in it, and returns the format it was in. Every file is
/// checked first; what was in use stays until the new version is whole, and beside it then.
///
/// # Errors
/// [`IndexError`]: no index, a damaged file, another writer, a full disk.
pub fn upgrade(dir: &Path) -> Result<u32, IndexError> {
    let checked = verify(dir)?;
    if let Some(problem) = checked.problems.into_iter().next() {
        return Err(problem);
    }
    let before = checked.manifest.format_version;
    if before == INDEX_FORMAT {
        return Ok(before);
    }
    let (version, crc32) = newest(dir, |version| {
        let mut crc32 = BTreeMap::new();
        // Those of the inverted index are checked by SHA-256 at every start: they are small beside the vectors.
        for name in version.manifest.files.keys().filter(|name| !name.contains('/')) {
            let path = version.dir.join(name);
            let file = Mapped::open(&path).map_err(IndexError::read(&path))?;
            crc32.insert(name.clone(), digest::crc32(file.bytes()));
        }
        Ok((version.sha256, crc32))
    })?;
    publish_with(dir, &version, |manifest| {
        manifest.format_version = INDEX_FORMAT;
        manifest.crc32.clone_from(&crc32);
        if manifest.kind == IndexKind::Hnsw {
            manifest.storage = Storage::Int8;
        }
    })?;
    Ok(before)
}
