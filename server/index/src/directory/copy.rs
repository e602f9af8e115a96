//! Copies of a version: snapshots in another directory, of which every byte is checked on the way, and versions of the
//! same directory with another manifest. The updates in the write-ahead log are copied too.

use std::io::{self, Write as _};
use std::path::Path;

use dpr_core::model::{FileEntry, sha256_hex};
use fs_err as fs;

use super::pointer::{MANIFEST, Publisher, SPARSE};
use super::version::{Version, newest};
use crate::{BuildError, FileError, IndexDir, IndexManifest};
use dpr_files::{digest, plain};

/// Copies the version in use of the index directory `from` into `to`, as its newest version, with the updates that
/// were acknowledged since. An index in `to` stays in use until the copy is whole and on disk, and when anything
/// fails; the one in `from` may be replaced meanwhile.
///
/// # Errors
/// [`BuildError`]: no index in `from`, a damaged file of it, an unwritable, foreign or busy `to`, a full disk.
pub fn copy_index(from: &Path, to: &Path) -> Result<IndexManifest, BuildError> {
    newest(from, |version| {
        let publisher = IndexDir::new(to).publisher()?;
        let bring = |source: &Path, target: &Path, expected: &FileEntry| {
            digest::check_size(source, expected)?;
            digest::check(source, expected, &copy(source, target)?)
        };
        publish(&version, publisher, bring, |_| Ok(version.bytes.clone()))?;
        Ok(version.manifest)
    })
}

/// Publishes the version in use, which must still be `version`, with another manifest and the same files; `change` may
/// put more files into the folder it is given.
pub(crate) fn publish_with(
    dir: &Path,
    version: &str,
    change: impl Fn(&mut IndexManifest, &Path) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    newest(dir, |current| {
        if current.sha256 != version {
            return Err(BuildError::Replaced { path: dir.to_path_buf() });
        }
        // Under the lock nobody writes; before it, somebody may have begun to.
        let publisher = IndexDir::new(dir).publisher()?;
        if IndexDir::new(dir).pointer()? != current.pointer() {
            return Err(BuildError::Replaced { path: dir.to_path_buf() });
        }
        // Files of a version never change, so that two versions may share them; they are copied where the disk cannot link.
        let bring = |source: &Path, target: &Path, expected: &FileEntry| match fs::hard_link(source, target) {
            Ok(()) => Ok(()),
            Err(_) => digest::check(source, expected, &copy(source, target)?),
        };
        publish(&current, publisher, bring, |staged| {
            let mut manifest = current.manifest.clone();
            change(&mut manifest, staged)?;
            let json = serde_json::to_vec_pretty(&manifest).map_err(io::Error::other);
            Ok(json.map_err(FileError::write)?)
        })
    })
}

fn publish(
    version: &Version<'_>,
    publisher: Publisher,
    bring: impl Fn(&Path, &Path, &FileEntry) -> Result<(), FileError>,
    manifest: impl Fn(&Path) -> Result<Vec<u8>, BuildError>,
) -> Result<(), BuildError> {
    let staged = publisher.stage()?;
    if version.manifest.sparse.is_some() {
        fs::create_dir(staged.path().join(SPARSE)).map_err(FileError::write)?;
    }
    for (name, expected) in &version.manifest.files {
        bring(&version.dir.join(name), &staged.path().join(name), expected)?;
    }
    let manifest = manifest(staged.path())?;
    fs::write(staged.path().join(MANIFEST), &manifest).map_err(FileError::write)?;
    let Some(mut log) = version.open_log()? else {
        publisher.publish(staged, &manifest, None)?;
        return Ok(());
    };
    log.check()?;
    let base = sha256_hex(&manifest);
    publisher.publish(staged, &manifest, Some(&|target| log.copy(target, &base)))?;
    Ok(())
}

/// Copies one file and returns its size and digest.
fn copy(source: &Path, target: &Path) -> Result<FileEntry, FileError> {
    let mut reader = plain::open(source).map_err(FileError::read(source))?;
    let file = fs::File::create_new(target).map_err(FileError::write)?;
    let mut file = io::BufWriter::with_capacity(1 << 20, file);
    let mut writer = digest::Writer::new(&mut file);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = io::Read::read(&mut reader, &mut buffer).map_err(FileError::read(source))?;
        if read == 0 {
            break;
        }
        writer.write_all(&buffer[..read]).map_err(FileError::write)?;
    }
    let found = writer.finish();
    file.flush().map_err(FileError::write)?;
    Ok(found)
}
