//! Sizes up to which a site is read, here and in a page: a larger one is not written.

use super::SiteError;
use super::manifest::SiteManifest;

/// The greatest sizes, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The manifest.
    pub(super) manifest: u64,
    /// A file of passages.
    pub(super) file: u64,
    /// The codes and the texts of all parts together, where they are searched on this machine.
    pub(super) parts: u64,
}

/// The sizes up to which a site is read.
pub(super) const MOST: Limits = Limits { manifest: 16 << 20, file: 1 << 28, parts: 1 << 31 };

/// Refuses a site that would not be read, whose manifest has so many bytes.
pub(super) fn check(manifest: &SiteManifest, bytes: u64, most: &Limits) -> Result<(), SiteError> {
    let within = |what: &str, bytes: u64, most: u64, fix: &'static str| match bytes <= most {
        true => Ok(()),
        false => Err(SiteError::TooLarge { what: what.to_owned(), bytes, most, fix }),
    };
    if bytes > most.manifest {
        return Err(SiteError::Manifest { bytes, most: most.manifest });
    }
    let is_of_encoder =
        |url: &str| manifest.model.url == url || manifest.encoder.iter().any(|file| file.url == url);
    for file in manifest.files().filter(|file| !is_of_encoder(&file.url)) {
        within(&file.url, file.entry.bytes, most.file, "make smaller buckets, or split the passages")?;
    }
    // A search of buckets or packs reads a few files, so that their sum has no limit.
    if manifest.buckets.is_some() || manifest.pack_bytes.is_some() {
        return Ok(());
    }
    let parts = manifest.parts.iter().flat_map(|part| [part.codes.entry.bytes, part.texts.entry.bytes]);
    let parts = parts.fold(0, u64::saturating_add);
    within("all codes and texts together", parts, most.parts, "let a server search the index, or split it")
}

#[cfg(test)]
mod tests {
    use dpr_files::progress::Silent;

    use super::super::tests::{encoder, index};
    use super::super::{SiteOptions, export};
    use super::*;

    #[test]
    fn a_site_that_would_not_be_read_is_refused_with_the_size_and_the_fix() {
        let (root, (_dir, index)) = (tempfile::tempdir().unwrap(), index(0..400));
        let options = SiteOptions { pack_bytes: Some(4096), ..SiteOptions::default() };
        let site = export(&index, &encoder(), &root.path().join("dpr"), &options, &Silent).unwrap();
        check(&site.manifest, 1000, &Limits { manifest: 1000, ..MOST }).unwrap();
        let whole = SiteManifest { pack_bytes: None, ..site.manifest };
        for (bytes, most, expected) in [
            (1000, Limits { manifest: 999, ..MOST }, "1000 bytes, 999 can be read: make fewer"),
            (1000, Limits { file: 4095, ..MOST }, "bytes, 4095 can be read: make smaller buckets"),
            (1000, Limits { parts: 99, ..MOST }, "bytes, 99 can be read: let a server search"),
        ] {
            let error = check(&whole, bytes, &most).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_site_of_buckets_or_packs_may_be_larger_than_what_is_searched_at_once() {
        let (root, (_dir, index)) = (tempfile::tempdir().unwrap(), index(0..400));
        let (packs, buckets) = (
            SiteOptions { pack_bytes: Some(4096), ..SiteOptions::default() },
            SiteOptions { bucket_size: Some(100), ..SiteOptions::default() },
        );
        for (name, options) in [("packs", packs), ("buckets", buckets)] {
            let site = export(&index, &encoder(), &root.path().join(name), &options, &Silent).unwrap();
            check(&site.manifest, 1000, &Limits { parts: 99, ..MOST }).unwrap();
        }
    }
}
