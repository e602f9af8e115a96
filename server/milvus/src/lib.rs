//! Passages and their vectors in a Milvus cluster (<https://milvus.io>), where one machine is not enough.
//!
//! A [`MilvusAddress`] names a collection. [`load`] fills it with vectors, from as many machines as there are shards, and
//! goes on where it stopped; [`MilvusIndex`] searches and changes it. Milvus builds an HNSW graph by inner product for
//! each of its segments, and keeps everything on the disks it was given.
//!
//! The collection's description names the model of its vectors, and vectors of another are refused, as an index
//! directory refuses them. Each passage has a digest of its text and its vector, by which a load that goes on
//! sees what is there already.

mod address;
mod backend;
mod batch;
mod client;
mod collection;
mod error;
mod index;
mod load;

pub use address::MilvusAddress;
pub use collection::Described;
pub use error::MilvusError;
pub use index::{Found, MilvusIndex};
pub use load::{LoadOptions, Report, load};

/// Most passages a search returns, and most vectors in one search.
pub const MAX_K: usize = 16_384;
