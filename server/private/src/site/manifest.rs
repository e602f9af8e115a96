//! The manifest of a static site, `dpr-static.json`, and the files that it names.

use std::io::Write;
use std::path::PathBuf;

use dpr_core::model::{FileEntry, sha256_hex};
use dpr_index::IndexManifest;
use serde::{Deserialize, Serialize};

/// The newest format of the manifest: 2, which sites with buckets have. Others have 1.
pub const SITE_FORMAT: u32 = 2;

/// The manifest's file name.
pub const SITE_MANIFEST: &str = "dpr-static.json";

/// A file of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteFile {
    /// Its name in the folder of the manifest, which holds the SHA-256.
    pub url: String,
    /// Its size and checksum.
    #[serde(flatten)]
    pub entry: FileEntry,
}

/// The texts of some passages of a part, in a file of a fixed number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SitePack {
    /// Number of passages in the pack.
    pub passages: usize,
    /// Their ids, titles, texts and metadata, compressed and padded.
    #[serde(flatten)]
    pub file: SiteFile,
}

/// Some passages, one after another, of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SitePart {
    /// Number of passages in the part.
    pub passages: usize,
    /// Their vectors' [codes](dpr_core::private::codes).
    pub codes: SiteFile,
    /// Their ids, titles, texts and metadata, compressed.
    pub texts: SiteFile,
    /// The same texts in packs, for pages that do not download all of them. Empty where the site has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packs: Vec<SitePack>,
}

/// A bucket: passages that are about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteBucket {
    /// Number of passages in the bucket.
    pub passages: usize,
    /// Their [codes and texts](dpr_core::private::bucket::BucketFile).
    #[serde(flatten)]
    pub file: SiteFile,
}

/// The passages of a site once more, in buckets: pages that do not download all of them fetch some buckets whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteBuckets {
    /// The fewest passages of a bucket.
    pub least: usize,
    /// The [middle of each bucket](dpr_core::private::bucket::Centroids), in the order of the buckets.
    pub centroids: SiteFile,
    /// The buckets, all of one number of bytes.
    pub files: Vec<SiteBucket>,
}

impl SiteBuckets {
    /// Returns the bytes of a bucket.
    pub fn bytes(&self) -> u64 {
        self.files.first().map_or(0, |bucket| bucket.file.entry.bytes)
    }
}

/// `dpr-static.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteManifest {
    /// At most [`SITE_FORMAT`].
    pub format_version: u32,
    /// Passages in all parts.
    pub passages: usize,
    /// Numbers in a vector of the model.
    pub dim: usize,
    /// Numbers in a code: rows of the projection.
    pub dims: usize,
    /// Bits of a number in a code.
    pub bits: u32,
    /// Fingerprint of the model that encoded the passages.
    pub model_fingerprint: String,
    /// Fingerprint of the index version that the site was exported from, without its updates.
    pub index_version: String,
    /// The question encoder's manifest, of the form that `GET /v1/model` has.
    pub model: SiteFile,
    /// The files that it names.
    pub encoder: Vec<SiteFile>,
    /// The directions in which vectors are coded.
    pub projection: SiteFile,
    /// Passages that the directions were made of, in this export or an earlier one.
    pub fitted_on: usize,
    /// Bytes of a pack, where the site has packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_bytes: Option<usize>,
    /// The passages, in order.
    pub parts: Vec<SitePart>,
    /// The passages in buckets, where the site has buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<SiteBuckets>,
    /// The program that made it, as `dpr 0.1.0`.
    pub created_by: String,
}

impl SiteManifest {
    /// Returns all files that the manifest names.
    pub fn files(&self) -> impl Iterator<Item = &SiteFile> {
        let parts = self.parts.iter().flat_map(|part| {
            [&part.codes, &part.texts].into_iter().chain(part.packs.iter().map(|pack| &pack.file))
        });
        let buckets = self.buckets.iter().flat_map(|buckets| {
            [&buckets.centroids].into_iter().chain(buckets.files.iter().map(|bucket| &bucket.file))
        });
        [&self.model, &self.projection].into_iter().chain(&self.encoder).chain(parts).chain(buckets)
    }

    /// Returns the bytes of everything but the question encoder.
    pub fn passage_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.codes.entry.bytes + part.texts.entry.bytes);
        parts.sum::<u64>() + self.projection.entry.bytes
    }

    /// Returns the bytes that a page downloads before the first question, beside the question encoder, where it fetches
    /// buckets; 0 where the site has none.
    pub fn centroid_bytes(&self) -> u64 {
        self.buckets.as_ref().map_or(0, |buckets| buckets.centroids.entry.bytes + self.projection.entry.bytes)
    }

    /// Returns `true` if `passages` vectors of an index can be coded in the directions of this site: they are of one
    /// model, and not so many more or fewer that they may lie in other directions.
    pub(super) fn codes_like(&self, index: &IndexManifest, dims: usize, passages: usize) -> bool {
        let model = (self.model_fingerprint.as_str(), self.dim, self.dims);
        let near =
            self.fitted_on <= passages.saturating_mul(2) && passages <= self.fitted_on.saturating_mul(2);
        model == (&index.model_fingerprint, index.dim, dims) && near
    }
}

/// The content of a file.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// In memory.
    Bytes(Vec<u8>),
    /// To be copied from here.
    Path(PathBuf),
}

/// A file of a site before it is written.
#[derive(Clone, Debug)]
pub(super) struct Content {
    file: SiteFile,
    source: Source,
}

impl Content {
    /// Makes a file of these bytes, called `kind.SHA-256.extension`.
    pub(super) fn new(kind: &str, extension: &str, bytes: Vec<u8>) -> Self {
        let entry = FileEntry { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) };
        Self { file: named(kind, extension, entry), source: Source::Bytes(bytes) }
    }

    /// Makes a copy of a file that was checked.
    pub(super) fn copied(kind: &str, extension: &str, path: PathBuf, entry: FileEntry) -> Self {
        Self { file: named(kind, extension, entry), source: Source::Path(path) }
    }

    /// Returns the file as the manifest names it.
    pub(super) fn entry(&self) -> SiteFile {
        self.file.clone()
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        &self.file.url
    }

    /// Returns its size and checksum.
    pub(super) fn expected(&self) -> &FileEntry {
        &self.file.entry
    }

    /// Writes its bytes to `out`.
    pub(super) fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match &self.source {
            Source::Bytes(bytes) => out.write_all(bytes),
            Source::Path(path) => std::io::copy(&mut fs_err::File::open(path)?, out).map(drop),
        }
    }
}

fn named(kind: &str, extension: &str, entry: FileEntry) -> SiteFile {
    SiteFile { url: format!("{kind}.{}.{extension}", entry.sha256), entry }
}
