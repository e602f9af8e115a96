//! Buckets of a site: its passages once more, in clusters, each with its codes and texts in one file.

use dpr_core::private::bucket::{Centroids, MAX_BUCKETS, bucket_bytes, encode_bucket, encode_centroids};
use dpr_core::private::projection::Projection;
use rayon::prelude::*;

use super::SiteError;
use super::cluster::{Sizes, assign, centroids};
use super::manifest::{Content, SiteBucket, SiteBuckets};
use super::parts::{self, Row};

/// Passages of a bucket, at least, where nothing else is said.
pub const DEFAULT_BUCKET_SIZE: usize = 1000;

/// The fewest passages of a bucket that can be asked for.
const LEAST: usize = 10;

/// Buckets before they are written.
pub(super) struct Made {
    least: usize,
    centroids: Content,
    /// Each bucket with the number of its passages.
    buckets: Vec<(usize, Content)>,
    /// `true` if the centroids are those of the previous export.
    pub(super) kept: bool,
}

impl Made {
    /// Returns the buckets as the manifest names them.
    pub(super) fn entry(&self) -> SiteBuckets {
        let bucket =
            |(passages, file): &(usize, Content)| SiteBucket { passages: *passages, file: file.entry() };
        SiteBuckets {
            least: self.least,
            centroids: self.centroids.entry(),
            files: self.buckets.iter().map(bucket).collect(),
        }
    }

    /// Returns the files.
    pub(super) fn contents(self) -> impl Iterator<Item = Content> {
        std::iter::once(self.centroids).chain(self.buckets.into_iter().map(|(_, bucket)| bucket))
    }
}

/// Returns the sizes of buckets of at least `size` of these passages.
///
/// # Errors
/// [`SiteError::BucketSize`] where that makes fewer than two buckets, or too many.
pub(super) fn sizes(passages: usize, size: usize) -> Result<Sizes, SiteError> {
    let least = LEAST.max((passages * 4).div_ceil(5 * MAX_BUCKETS));
    let refused = SiteError::BucketSize { got: size, least, most: passages / 2 };
    if size < least {
        return Err(refused);
    }
    Sizes::of(passages, size).filter(|sizes| sizes.clusters <= MAX_BUCKETS).ok_or(refused)
}

/// Makes buckets of at least `size` passages. With the centroids of the previous export, those of which no passage was
/// added or removed stay as they were, and so do the decoys of every device.
pub(super) fn make(
    projection: &Projection,
    rows: &[Row<'_>],
    size: usize,
    kept: Option<Vec<u8>>,
    go_on: &(dyn Fn() -> Result<(), SiteError> + Sync),
) -> Result<Made, SiteError> {
    let new = sizes(rows.len(), size)?;
    let dims = projection.rank();
    let directions: Vec<f32> =
        rows.par_iter().flat_map_iter(|(_, vector)| of_length_1(projection.centred(vector))).collect();
    let read = |bytes: &[u8]| Centroids::from_bytes(bytes).ok().filter(|centroids| centroids.dims() == dims);
    let kept = kept.and_then(|bytes| {
        let centroids = read(&bytes)?;
        Some((Sizes::kept(rows.len(), centroids.len(), size)?, centroids.directions(), bytes))
    });
    let is_kept = kept.is_some();
    let (sizes, middles, bytes) = match kept {
        Some(kept) => kept,
        None => {
            go_on()?;
            let bytes = encode_centroids(&centroids(&directions, dims, new), dims);
            // As pages and the next export read them.
            let middles = read(&bytes).map_or_else(Vec::new, |centroids| centroids.directions());
            (new, middles, bytes)
        }
    };
    go_on()?;
    let clusters = assign(&directions, dims, &middles, sizes);
    drop(directions);
    let contents: Vec<(usize, Vec<u8>, Vec<u8>)> = clusters
        .par_iter()
        .map(|members| {
            go_on()?;
            let part: Vec<Row<'_>> = members.iter().map(|row| rows[*row as usize].clone()).collect();
            Ok((part.len(), parts::code_bytes(projection, &part), parts::text_bytes(&part)?))
        })
        .collect::<Result<_, SiteError>>()?;
    let length = contents.iter().map(|(_, codes, texts)| bucket_bytes(codes, texts)).max().unwrap_or(0);
    let buckets = contents.into_iter().map(|(passages, codes, texts)| {
        (passages, Content::new("bucket", "bin", encode_bucket(passages, &codes, &texts, length)))
    });
    let centroids = Content::new("centroids", "bin", bytes);
    Ok(Made { least: size, centroids, buckets: buckets.collect(), kept: is_kept })
}

/// Returns the direction of a vector; zeros for one that has none.
fn of_length_1(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}
