//! Writing a site: whole where there is none, by difference where there is one.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::Path;

use dpr_core::private::projection::Projection;
use dpr_files::atomic::{StagedDir, write_file};
use dpr_files::{DirLock, Error as FileError, digest, plain};
use fs_err as fs;
use serde::Serialize;

use super::limits;
use super::manifest::{Content, SITE_FORMAT, SITE_MANIFEST, SiteManifest};
use super::{SiteError, SiteFile};

/// Most bytes of a projection, which is read for an update.
const MOST_PROJECTION: u64 = 1 << 28;

/// Most bytes of a file of centroids, which is read for an update.
const MOST_CENTROIDS: u64 = 1 << 26;

/// Counts of the changes to the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Files that were written, without the manifest.
    pub written: usize,
    /// Their bytes.
    pub written_bytes: u64,
    /// Files that were there.
    pub unchanged: usize,
    /// Files that were removed.
    pub removed: usize,
}

/// Reads the manifest of the site in `out`; `None` where there is nothing.
///
/// # Errors
/// [`FileError`]: a damaged manifest, one of a later format, a folder that holds something else.
pub(super) fn before(out: &Path) -> Result<Option<SiteManifest>, SiteError> {
    let path = out.join(SITE_MANIFEST);
    if !fs::exists(&path).map_err(FileError::read(&path))? {
        refuse_other(out)?;
        return Ok(None);
    }
    Ok(Some(read_manifest(&path)?))
}

/// Reads a manifest.
///
/// # Errors
/// [`FileError`]: one that is missing, damaged, or of a later format.
pub(super) fn read_manifest(path: &Path) -> Result<SiteManifest, FileError> {
    let bytes = plain::read(path, limits::MOST.manifest).map_err(FileError::read(path))?;
    let damaged = |error: serde_json::Error| FileError::corrupt(path, error.to_string());
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    let found = value.get("format_version").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found > u64::from(SITE_FORMAT) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(FileError::NewerFormat { path: path.to_owned(), found, supported: SITE_FORMAT });
    }
    serde_json::from_value(value).map_err(damaged)
}

/// Refuses a folder without a site in which something else is: it would be published with the site.
fn refuse_other(out: &Path) -> Result<(), FileError> {
    if !fs::exists(out).map_err(FileError::write)? {
        return Ok(());
    }
    match fs::read_dir(out).map_err(FileError::write)?.next() {
        None => Ok(()),
        Some(entry) => {
            let name = entry.map_err(FileError::write)?.file_name().to_string_lossy().into_owned();
            Err(FileError::Foreign { path: out.to_path_buf(), name })
        }
    }
}

/// Returns the projection of a site and the passages it was made of; `None` where its file is not as it was written.
pub(super) fn kept(out: &Path, site: &SiteManifest) -> Option<(Projection, usize)> {
    let SiteFile { url, entry } = &site.projection;
    if !is_own(url) || entry.bytes > MOST_PROJECTION || !is_there(out, &site.projection) {
        return None;
    }
    let projection = Projection::from_bytes(&plain::read(&out.join(url), MOST_PROJECTION).ok()?).ok()?;
    ((projection.dim(), projection.rank()) == (site.dim, site.dims)).then_some((projection, site.fitted_on))
}

/// Returns the file of the centroids of a site's buckets, of so many passages at least; `None` where it has none, or
/// their file is not as it was written.
pub(super) fn kept_centroids(out: &Path, site: &SiteManifest, least: usize) -> Option<Vec<u8>> {
    let buckets = site.buckets.as_ref().filter(|buckets| buckets.least == least)?;
    let SiteFile { url, entry } = &buckets.centroids;
    if !is_own(url) || entry.bytes > MOST_CENTROIDS || !is_there(out, &buckets.centroids) {
        return None;
    }
    fs::read(out.join(url)).ok()
}

/// Writes the files and then the manifest: nothing of a site that would be too large to be read.
pub(super) fn publish(
    out: &Path,
    before: Option<&SiteManifest>,
    contents: &[Content],
    manifest: &SiteManifest,
    go_on: &dyn Fn() -> Result<(), SiteError>,
) -> Result<Written, SiteError> {
    let json = serde_json::to_vec_pretty(manifest).map_err(|error| FileError::write(error.into()))?;
    limits::check(manifest, json.len() as u64, &limits::MOST)?;
    let mut report = Written::default();
    let Some(before) = before else {
        let staged = StagedDir::beside(out).map_err(FileError::write)?;
        for content in contents {
            go_on()?;
            if write(staged.path(), content)? {
                report.written += 1;
                report.written_bytes += content.expected().bytes;
            }
        }
        fs::write(staged.path().join(SITE_MANIFEST), json).map_err(FileError::write)?;
        staged.publish().map_err(|error| unpublished(out, error))?;
        return Ok(report);
    };
    let Some(_lock) = DirLock::acquire_as(out, "an export").map_err(FileError::write)? else {
        return Err(FileError::Busy { path: out.to_path_buf(), holder: DirLock::holder(out) }.into());
    };
    // What it names now must stay for those who have begun to read it.
    if read_manifest(&out.join(SITE_MANIFEST))? != *before {
        return Err(SiteError::Changed { dir: out.to_path_buf() });
    }
    for content in contents {
        go_on()?;
        match write(out, content)? {
            true => {
                report.written += 1;
                report.written_bytes += content.expected().bytes;
            }
            false => report.unchanged += 1,
        }
    }
    go_on()?;
    write_file(&out.join(SITE_MANIFEST), |file| file.write_all(&json)).map_err(FileError::write)?;
    report.removed = remove_old(out, before, manifest);
    Ok(report)
}

/// Returns the error of a first export that could not be put in its place: where a site is there now, another export
/// was quicker.
fn unpublished(out: &Path, error: io::Error) -> SiteError {
    let is_taken = matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists);
    match is_taken && out.join(SITE_MANIFEST).exists() {
        true => SiteError::Changed { dir: out.to_path_buf() },
        false => FileError::write(error).into(),
    }
}

/// Writes a file that is not there as it should be, and returns whether it was written. What is written is compared
/// with the checksum that is in its name.
fn write(dir: &Path, content: &Content) -> Result<bool, SiteError> {
    if is_there(dir, &content.entry()) {
        return Ok(false);
    }
    let path = dir.join(content.name());
    write_file(&path, |file| {
        let mut out = digest::Writer::new(file);
        content.write(&mut out)?;
        match out.finish() == *content.expected() {
            true => Ok(()),
            false => Err(io::Error::other("the file that is copied has changed")),
        }
    })
    .map_err(FileError::write)?;
    Ok(true)
}

/// Returns `true` if a file is there as it was written.
fn is_there(dir: &Path, file: &SiteFile) -> bool {
    let path = dir.join(&file.url);
    let same_size = fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == file.entry.bytes);
    same_size && digest::of_file(&path).is_ok_and(|found| found == file.entry)
}

/// Returns `true` for a name that this module gives: `kind.SHA-256.extension`.
pub(super) fn is_own(name: &str) -> bool {
    let parts: Vec<&str> = name.rsplitn(3, '.').collect();
    let [extension, digest, kind] = parts.as_slice() else { return false };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    ["bin", "json"].contains(extension)
        && digest.len() == 64
        && digest.bytes().all(is_hex)
        && !kind.is_empty()
        && kind.bytes().all(is_plain)
}

/// Removes files of earlier exports that neither of these manifests names: who began to read the one before can go on.
/// What cannot be removed is left to the next export.
fn remove_old(out: &Path, before: &SiteManifest, now: &SiteManifest) -> usize {
    let named: HashSet<&str> = before.files().chain(now.files()).map(|file| file.url.as_str()).collect();
    let names = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let old = names.filter(|name| name.to_str().is_some_and(|name| is_own(name) && !named.contains(name)));
    old.filter(|name| fs::remove_file(out.join(name)).is_ok()).count()
}
