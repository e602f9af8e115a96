//! Vectors directories: what encoding writes and building an index reads.
//!
//! Encoding takes hours on a large corpus, so [`VectorsWriter`] keeps finished parts and a second start does the
//! rest; the result is byte for byte what one run would have written. [`VectorSet`] reads one or more finished
//! directories, the shards of a corpus, as one.
//!
//! ```text
//! DIR/spec.json                what is encoded by which model, while parts are missing
//! DIR/parts/vectors.f32        all rows, [count, dim], little-endian f32, while parts are missing
//! DIR/parts/part-000012.sha256 the digest of a part's rows, written after them: a part without it is done again
//! DIR/vectors.f32              that file, once all parts are there: rows are written once
//! DIR/passages.jsonl           the passages, in the order of the rows
//! DIR/manifest.json            counts, sizes and digests; written last, so it means "finished"
//! ```

pub(crate) mod blocks;
mod error;
mod manifest;
mod matrix;
mod parts;
pub(crate) mod rows;
mod set;
mod shard;
mod writer;

pub use error::VectorsError;
pub use manifest::{VectorsManifest, VectorsSpec};
pub use matrix::Matrix;
pub use rows::Rows;
pub use set::{PASSAGES, VectorSet};
pub use shard::{Shard, ShardError};
pub use writer::VectorsWriter;

pub(crate) use matrix::{GROUP, LOOK_ROWS, is_squared_norm, overflow, squared_norm};
