//! Passages and their vectors in a Milvus cluster (<https://milvus.io>), where one machine is not enough.
//!
//! A [`MilvusAddress`] names a collection. [`load`] fills it with vectors, from as many machines as there are shards,
//! and goes on where it stopped; [`MilvusIndex`] searches and changes it. Milvus builds an HNSW graph by inner
//! product for each of its segments, and keeps everything on the disks it was given.
//!
//! The collection's description names the model of its vectors, and vectors of another are refused, as an index
//! directory refuses them. Each passage has a digest of its text and its vector, by which a load that goes on
//! sees what is there already.
//!
//! ```
//! use dpr_milvus::MilvusAddress;
//!
//! let address: MilvusAddress = "milvus://db.example.org:19530/wikipedia?ef=320".parse()?;
//! assert_eq!((address.collection(), address.ef()), ("wikipedia", Some(320)));
//! // Command lines are seen by every process of a machine, so that an address with a password is refused.
//! assert!("milvus://root:secret@db.example.org/wikipedia".parse::<MilvusAddress>().is_err());
//! # Ok::<(), dpr_milvus::MilvusError>(())
//! ```
//!
//! A collection is a [`Backend`](dpr_index::search::Backend), as an index directory is:
//!
//! ```no_run
//! use dpr_core::Embedding;
//! use dpr_files::progress::Silent;
//! use dpr_index::search::Backend;
//! use dpr_index::vectors::VectorSet;
//! use dpr_milvus::{LoadOptions, MilvusAddress, MilvusIndex, load};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: MilvusAddress = "milvus://localhost/wikipedia".parse()?;
//! let vectors = VectorSet::read(&["vectors/".into()])?;
//! let report = load(&address, &vectors, &LoadOptions::default(), &Silent)?;
//! println!("{} passages written, {} were there", report.written, report.unchanged);
//!
//! let index: Box<dyn Backend> = Box::new(MilvusIndex::open(&address, None)?);
//! let query = Embedding::new(vec![0.1; index.describe().dim], index.describe().dim)?;
//! for hit in &index.search(&[query], 10, None)?[0] {
//!     println!("{:.3} {}", hit.score, hit.title);
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod backend;
mod batch;
mod client;
mod collection;
mod error;
mod expression;
mod index;
mod load;
mod metadata;

pub use address::MilvusAddress;
pub use collection::Described;
pub use error::MilvusError;
pub use index::{Found, MilvusIndex};
pub use load::{LoadOptions, load};

/// Most passages a search returns, and most vectors in one search.
pub const MAX_K: usize = 16_384;
