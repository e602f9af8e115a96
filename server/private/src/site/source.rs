//! The files of a site where they are read: each has the size and the SHA-256 that the manifest names.

use std::path::{Path, PathBuf};

use dpr_core::model::sha256_hex;
use dpr_core::private::bucket::{BucketError, PlanError};
use dpr_core::private::local::{LocalError, MAX_PASSAGES};
use dpr_core::private::projection::Projection;
use dpr_files::{Error as FileError, plain, relative};

use super::limits;
use super::manifest::{SITE_MANIFEST, SiteFile, SiteManifest};
use super::publish::{is_own, read_manifest};

/// A static site that cannot be read or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteReadError {
    /// A file cannot be read, or the manifest is damaged or of a later format.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that is not what the manifest says, or makes no sense.
    #[error("{path} is damaged: {reason}; export the site again, or copy it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault that was found.
        reason: String,
    },
    /// A site without buckets.
    #[error("{path} has no buckets: export the site with buckets")]
    NoBuckets {
        /// The manifest.
        path: PathBuf,
    },
    /// A number of buckets that cannot be fetched.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A question that does not fit the site.
    #[error(transparent)]
    Question(#[from] LocalError),
    /// A question that does not fit the site's buckets.
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

/// The folder of a site.
#[derive(Debug)]
pub(super) struct SiteDir {
    /// The manifest's path.
    pub(super) path: PathBuf,
    dir: PathBuf,
    pub(super) manifest: SiteManifest,
}

impl SiteDir {
    /// Reads the manifest, `dpr-static.json` or a folder with one.
    pub(super) fn open(path: &Path) -> Result<Self, SiteReadError> {
        let path = if path.is_dir() { path.join(SITE_MANIFEST) } else { path.to_owned() };
        let manifest = read_manifest(&path)?;
        let dir = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let site = Self { path, dir, manifest };
        let SiteManifest { bits, passages, .. } = site.manifest;
        if bits != 4 {
            return Err(site.damaged(format!("its codes have {bits} bits, this release reads 4")));
        }
        if !(1..=MAX_PASSAGES).contains(&passages) {
            let reason = format!("it says {passages} passages, 1 to {MAX_PASSAGES} are possible");
            return Err(site.damaged(reason));
        }
        Ok(site)
    }

    /// Returns the error of a manifest that makes no sense.
    pub(super) fn damaged(&self, reason: String) -> SiteReadError {
        SiteReadError::Damaged { path: self.path.clone(), reason }
    }

    /// Reads a file that has the size and the SHA-256 that the manifest names, and returns its path too.
    pub(super) fn read(&self, file: &SiteFile) -> Result<(PathBuf, Vec<u8>), SiteReadError> {
        if !is_own(&file.url) {
            return Err(self.damaged(format!("`{}` is not a name of its files", file.url)));
        }
        let path = self.dir.join(&file.url);
        Ok((path.clone(), checked(path, file)?))
    }

    /// Reads the projection.
    pub(super) fn projection(&self) -> Result<Projection, SiteReadError> {
        let (path, bytes) = self.read(&self.manifest.projection)?;
        let projection = Projection::from_bytes(&bytes).map_err(|error| wrong(path.clone(), &error))?;
        let (got, expected) =
            ((projection.rank(), projection.dim()), (self.manifest.dims, self.manifest.dim));
        if got != expected {
            let reason = format!("its shape is {got:?}, the manifest says {expected:?}");
            return Err(SiteReadError::Damaged { path, reason });
        }
        Ok(projection)
    }
}

/// Returns the error of a file that makes no sense.
pub(super) fn wrong(path: PathBuf, error: &dyn std::error::Error) -> SiteReadError {
    SiteReadError::Damaged { path, reason: error.to_string() }
}

/// Reads a file that has the size and the SHA-256 that the manifest names.
fn checked(path: PathBuf, file: &SiteFile) -> Result<Vec<u8>, SiteReadError> {
    let length = relative::size(&path).map_err(FileError::read(&path))?;
    let damaged = |reason: String| SiteReadError::Damaged { path: path.clone(), reason };
    if length != file.entry.bytes || length > limits::MOST.file {
        let (expected, most) = (file.entry.bytes, limits::MOST.file);
        return Err(damaged(format!("it has {length} bytes, {expected} were expected, {most} are possible")));
    }
    let bytes = plain::read(&path, length).map_err(FileError::read(&path))?;
    match sha256_hex(&bytes) == file.entry.sha256 {
        true => Ok(bytes),
        false => Err(damaged("its SHA-256 is not the one in its name".to_owned())),
    }
}
