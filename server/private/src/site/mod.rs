//! Static sites: an index as plain files for any file host, which pages download and search by themselves.
//!
//! [`fn@export`] writes `dpr-static.json`, which names all other files with their sizes and checksums, and files whose
//! names hold the SHA-256 of their content: a projection, and for each part of the passages its codes and its texts.
//! The question encoder's files lie beside them. A site may hold its passages in [buckets](SiteBuckets) too.

mod buckets;
mod cluster;
mod encoder;
mod error;
mod limits;
mod manifest;
mod parts;
mod publish;
mod read;
mod read_buckets;
mod source;
mod texts;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::private::local::MAX_PASSAGES;
use dpr_core::private::projection::Projection;
use dpr_data::Passage;
use dpr_files::progress::Progress;
use dpr_index::private::{DirectionsError, principal_directions};
use dpr_index::{Snapshot, VectorIndex as _};
use rayon::prelude::*;

pub use buckets::DEFAULT_BUCKET_SIZE;
pub use encoder::SiteEncoder;
pub use error::SiteError;
pub use manifest::{
    SITE_FORMAT, SITE_MANIFEST, SiteBucket, SiteBuckets, SiteFile, SiteManifest, SitePack, SitePart,
};
pub use publish::Written;
pub use read::Site;
pub use read_buckets::{BucketSite, Fetched};
pub use source::SiteReadError;

use manifest::Content;

/// Dimensions of codes where nothing else is said.
pub const DEFAULT_DIMS: usize = 192;

/// Bytes of a pack that can be asked for.
const PACK_BYTES: std::ops::RangeInclusive<usize> = 4096..=4 << 20;

/// Options of exporting a static site.
#[derive(Clone, Debug, Default)]
pub struct SiteOptions {
    /// Principal directions whose coordinates are coded, as far as the vectors have so many; without it
    /// [`DEFAULT_DIMS`].
    pub dims: Option<usize>,
    /// Recomputes the principal directions from these passages even where those of the existing site fit, which changes
    /// the codes of all passages.
    pub refit: bool,
    /// Bytes of a pack of texts, from which pages fetch the texts of the passages that they found; `None` for no packs.
    pub pack_bytes: Option<usize>,
    /// The fewest passages of a bucket, of which pages fetch some whole; `None` for no buckets.
    pub bucket_size: Option<usize>,
    /// A flag that another thread or a signal handler sets to stop the export; the site stays as it was.
    pub stop: Arc<AtomicBool>,
}

/// A site that was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The site's manifest.
    pub manifest: SiteManifest,
    /// The changes to the folder.
    pub written: Written,
    /// `true` if the principal directions of the previous export were kept.
    pub kept_directions: bool,
    /// `true` if the centroids of the previous export's buckets were kept.
    pub kept_centroids: bool,
}

/// Writes an index, as it is at this moment, as a static site to the folder `out`. A site that is there is updated:
/// files that it has stay, others are written, and `dpr-static.json` is replaced when all of them are there. Files that
/// neither it nor the manifest before names are removed.
///
/// # Errors
/// [`SiteError`]: an encoder of another model, an index that is empty, too large or without spread, dimensions that are
/// not possible, a site too large to be read, a folder with other files in it, [`SiteError::Interrupted`]. The site is
/// then as it was.
pub fn export(
    index: &Snapshot,
    encoder: &SiteEncoder,
    out: &Path,
    options: &SiteOptions,
    progress: &dyn Progress,
) -> Result<Exported, SiteError> {
    let built_by = &index.base().manifest;
    if (encoder.fingerprint.as_str(), encoder.dim) != (&built_by.model_fingerprint, built_by.dim) {
        return Err(SiteError::OtherModel {
            index: built_by.model_fingerprint.clone(),
            index_dim: built_by.dim,
            model: encoder.fingerprint.clone(),
            model_dim: encoder.dim,
        });
    }
    let most = built_by.dim.min(dpr_core::private::codes::MAX_DIMS);
    let dims = options.dims.unwrap_or(DEFAULT_DIMS.min(most));
    if !(1..=most).contains(&dims) {
        return Err(SiteError::Dims { got: dims, most });
    }
    if let Some(got) = options.pack_bytes.filter(|bytes| !PACK_BYTES.contains(bytes)) {
        return Err(SiteError::PackBytes { got, least: *PACK_BYTES.start(), most: *PACK_BYTES.end() });
    }
    match index.len() {
        0 => return Err(SiteError::Empty),
        got if got > MAX_PASSAGES => return Err(SiteError::TooMany { got, most: MAX_PASSAGES }),
        _ => {}
    }
    if let Some(size) = options.bucket_size {
        buckets::sizes(index.len(), size)?;
    }
    let go_on = || if options.stop.load(Ordering::Relaxed) { Err(SiteError::Interrupted) } else { Ok(()) };

    progress.start("exporting a static site", "steps", 5);
    let before = publish::before(out)?;
    let rows = index.passages().collect::<Result<Vec<(Passage, &[f32])>, _>>()?;
    let old = before.as_ref().filter(|site| !options.refit && site.codes_like(built_by, dims, rows.len()));
    let frame = frame(&rows, built_by.dim, dims, old.and_then(|site| publish::kept(out, site)))?;
    go_on()?;
    progress.advance(1);

    let parts = parts::cut(&rows);
    let made: Vec<Made> = parts
        .par_iter()
        .map(|part| {
            go_on()?;
            let codes = parts::codes(&frame.projection, part);
            let packs = options.pack_bytes.map(|bytes| parts::packs(part, bytes)).transpose()?;
            let packs = packs.unwrap_or_default();
            Ok(Made { passages: part.len(), codes, texts: parts::texts(part)?, packs })
        })
        .collect::<Result<_, SiteError>>()?;
    progress.advance(1);
    let kept_centroids = |size| {
        let site = before.as_ref().filter(|_| frame.kept)?;
        publish::kept_centroids(out, site, size)
    };
    let buckets = options
        .bucket_size
        .map(|size| buckets::make(&frame.projection, &rows, size, kept_centroids(size), &go_on));
    let buckets = buckets.transpose()?;
    let kept_centroids = buckets.as_ref().is_some_and(|buckets| buckets.kept);
    progress.advance(1);

    let projection = Content::new("projection", "bin", frame.projection.to_bytes());
    let mut contents = encoder.contents();
    let model = contents.first().map(Content::entry).ok_or(SiteError::NoWeights)?;
    let files = contents.iter().skip(1).map(Content::entry).collect();
    let manifest = SiteManifest {
        format_version: if buckets.is_some() { SITE_FORMAT } else { 1 },
        passages: rows.len(),
        dim: built_by.dim,
        dims: frame.projection.rank(),
        bits: 4,
        model_fingerprint: built_by.model_fingerprint.clone(),
        index_version: index.base().version().to_owned(),
        model,
        encoder: files,
        projection: projection.entry(),
        fitted_on: frame.fitted_on,
        pack_bytes: options.pack_bytes,
        parts: made.iter().map(Made::entry).collect(),
        buckets: buckets.as_ref().map(buckets::Made::entry),
        created_by: format!("dpr {}", env!("CARGO_PKG_VERSION")),
    };
    drop(rows);
    contents.push(projection);
    for Made { codes, texts, packs, .. } in made {
        contents.extend([codes, texts]);
        contents.extend(packs.into_iter().map(|(_, pack)| pack));
    }
    contents.extend(buckets.into_iter().flat_map(buckets::Made::contents));
    go_on()?;
    progress.advance(1);
    let written = publish::publish(out, before.as_ref(), &contents, &manifest, &go_on)?;
    progress.advance(1);
    progress.finish();
    Ok(Exported { manifest, written, kept_directions: frame.kept, kept_centroids })
}

/// The files of a part.
struct Made {
    passages: usize,
    codes: Content,
    texts: Content,
    /// The packs, with the passages in each.
    packs: Vec<(usize, Content)>,
}

impl Made {
    /// Returns the part as the manifest names it.
    fn entry(&self) -> SitePart {
        let pack = |(passages, pack): &(usize, Content)| SitePack { passages: *passages, file: pack.entry() };
        SitePart {
            passages: self.passages,
            codes: self.codes.entry(),
            texts: self.texts.entry(),
            packs: self.packs.iter().map(pack).collect(),
        }
    }
}

/// The directions in which passages are coded.
struct Frame {
    projection: Projection,
    /// Passages that they were made of.
    fitted_on: usize,
    /// `true` if they are those of the previous export.
    kept: bool,
}

/// Returns the directions of the site before where there are some that fit: with others, every code would be another
/// one, and pages would download all of them again.
fn frame(
    rows: &[(Passage, &[f32])],
    dim: usize,
    dims: usize,
    kept: Option<(Projection, usize)>,
) -> Result<Frame, SiteError> {
    if let Some((projection, fitted_on)) = kept {
        return Ok(Frame { projection, fitted_on, kept: true });
    }
    let vectors: Vec<&[f32]> = rows.iter().map(|(_, vector)| *vector).collect();
    let (projection, _) = principal_directions(&vectors, dim)?;
    let projection = projection.first(dims).map_err(DirectionsError::from)?;
    Ok(Frame { projection, fitted_on: rows.len(), kept: false })
}

#[cfg(test)]
mod bucket_tests;
#[cfg(test)]
mod tests;
