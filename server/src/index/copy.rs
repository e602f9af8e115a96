//! Snapshots: a version of an index copied from one directory to another, every byte checked on the way.

use std::io::{self, Write as _};
use std::path::Path;

use dpr_core::model::FileEntry;
use fs_err as fs;

use super::loaded::{Version, compare, newest};
use super::store::{MANIFEST, SPARSE};
use super::{IndexDir, IndexError, IndexManifest};
use crate::digest;

/// Copies the version in use of the index directory `from` into `to`, as its newest version. An index that is in `to`
/// answers until the copy is whole and on disk, and stays when anything fails; one in `from` may be replaced meanwhile.
///
/// # Errors
/// [`IndexError`]: no index in `from`, a damaged file of it, an unwritable, foreign or busy `to`, a full disk.
pub fn copy_index(from: &Path, to: &Path) -> Result<IndexManifest, IndexError> {
    newest(from, |version| {
        let publisher = IndexDir::new(to).publisher()?;
        let staged = publisher.stage()?;
        if version.manifest.sparse.is_some() {
            fs::create_dir(staged.path().join(SPARSE)).map_err(IndexError::write(to))?;
        }
        for (name, expected) in &version.manifest.files {
            let source = version.dir.join(name);
            let found = copy(&source, &staged.path().join(name), to)?;
            compare(&source, expected, &found)?;
        }
        let Version { manifest, bytes, .. } = version;
        fs::write(staged.path().join(MANIFEST), &bytes).map_err(IndexError::write(to))?;
        publisher.publish(staged, &bytes)?;
        Ok(manifest)
    })
}

/// Copies one file; what it held.
fn copy(source: &Path, target: &Path, to: &Path) -> Result<FileEntry, IndexError> {
    let mut reader = fs::File::open(source).map_err(IndexError::read(source))?;
    let file = fs::File::create_new(target).map_err(IndexError::write(to))?;
    let mut file = io::BufWriter::with_capacity(1 << 20, file);
    let mut writer = digest::Writer::new(&mut file);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = io::Read::read(&mut reader, &mut buffer).map_err(IndexError::read(source))?;
        if read == 0 {
            break;
        }
        writer.write_all(&buffer[..read]).map_err(IndexError::write(to))?;
    }
    let found = writer.finish();
    file.flush().map_err(IndexError::write(to))?;
    Ok(found)
}
