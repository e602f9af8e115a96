//! Bucket search: passages lie in buckets of some thousand that are about one thing, and whoever asks fetches a few
//! whole buckets, those that the question is about and decoys, and ranks what is in them by itself.
//!
//! The host of the files sees which buckets are fetched, and nothing else of a question. Which they are depends on the
//! bucket that the question falls into and on the device's key alone: see [`Centroids::fetched`]. What that hides and
//! what it does not is in `docs/privacy.md`.

mod centroids;
mod decoys;
mod file;
mod index;

pub use centroids::{CENTROIDS_FORMAT, Centroids, CentroidsError, MAX_BUCKETS, encode_centroids};
pub use decoys::{MAX_DECOYS, PROBES, Plan, PlanError};
pub use file::{BUCKET_FORMAT, BucketFile, BucketFileError, bucket_bytes, encode_bucket};
pub use index::{BucketError, BucketIndex, Placed};
