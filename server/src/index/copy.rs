//! A version of an index made of another: snapshots, where every byte is checked on the way, and versions that differ in
//! what the manifest says. The updates of the one are the updates of the other.

use std::io::{self, Write as _};
use std::path::Path;

use dpr_core::model::{FileEntry, sha256_hex};
use fs_err as fs;

use super::store::{MANIFEST, Publisher, SPARSE};
use super::version::{Version, check_size, compare, newest};
use super::{IndexDir, IndexError, IndexManifest};
use crate::digest;

/// Copies the version in use of the index directory `from` into `to`, as its newest version, with the updates that were
/// acknowledged since. An index that is in `to`
/// answers until the copy is whole and on disk, and stays when anything fails; one in `from` may be replaced meanwhile.
///
/// # Errors
/// [`IndexError`]: no index in `from`, a damaged file of it, an unwritable, foreign or busy `to`, a full disk.
pub fn copy_index(from: &Path, to: &Path) -> Result<IndexManifest, IndexError> {
    newest(from, |version| {
        let publisher = IndexDir::new(to).publisher()?;
        let bring = |source: &Path, target: &Path, expected: &FileEntry| {
            check_size(source, expected)?;
            compare(source, expected, &copy(source, target, to)?)
        };
        publish(&version, publisher, to, bring, |_| Ok(version.bytes.clone()))?;
        Ok(version.manifest)
    })
}

/// Publishes the version in use, which must still be `version`, with another manifest and the same files; `change` may put
/// more files into the folder it is given.
pub(super) fn publish_with(
    dir: &Path,
    version: &str,
    change: impl Fn(&mut IndexManifest, &Path) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    newest(dir, |current| {
        if current.sha256 != version {
            return Err(IndexError::Replaced { path: dir.to_path_buf() });
        }
        // Under the lock nobody writes; before it, somebody may have begun to.
        let publisher = IndexDir::new(dir).publisher()?;
        if IndexDir::new(dir).pointer()? != current.pointer() {
            return Err(IndexError::Replaced { path: dir.to_path_buf() });
        }
        // Files of a version never change, so two versions may share them; where the disk cannot link, they are copied.
        let bring = |source: &Path, target: &Path, expected: &FileEntry| match fs::hard_link(source, target) {
            Ok(()) => Ok(()),
            Err(_) => compare(source, expected, &copy(source, target, dir)?),
        };
        publish(&current, publisher, dir, bring, |staged| {
            let mut manifest = current.manifest.clone();
            change(&mut manifest, staged)?;
            serde_json::to_vec_pretty(&manifest).map_err(io::Error::other).map_err(IndexError::write(dir))
        })
    })
}

fn publish(
    version: &Version<'_>,
    publisher: Publisher,
    to: &Path,
    bring: impl Fn(&Path, &Path, &FileEntry) -> Result<(), IndexError>,
    manifest: impl Fn(&Path) -> Result<Vec<u8>, IndexError>,
) -> Result<(), IndexError> {
    let staged = publisher.stage()?;
    if version.manifest.sparse.is_some() {
        fs::create_dir(staged.path().join(SPARSE)).map_err(IndexError::write(to))?;
    }
    for (name, expected) in &version.manifest.files {
        bring(&version.dir.join(name), &staged.path().join(name), expected)?;
    }
    let manifest = manifest(staged.path())?;
    fs::write(staged.path().join(MANIFEST), &manifest).map_err(IndexError::write(to))?;
    let Some(mut log) = version.open_log()? else {
        return publisher.publish(staged, &manifest, None).map(drop);
    };
    log.check()?;
    let base = sha256_hex(&manifest);
    publisher.publish(staged, &manifest, Some(&|target| log.copy(target, &base)))?;
    Ok(())
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
