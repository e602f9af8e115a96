//! Encoding of passages and questions into vectors, on every core.
//!
//! Texts are tokenised, sorted by length inside a part of [`PART_SIZE`] rows and cut into batches of a bounded
//! number of tokens, so that little of a batch is padding. Workers take batches from a queue that spans
//! parts, and a part is handed on (to the vectors on disk) when its last batch is done: no core waits at the
//! end of a part, and Ctrl-C loses at most the parts that are open.
//!
//! [`model`] is the model directory: opened, imported from Hugging Face layouts, exported for browsers.
//! [`PassageUpdater`] encodes passages on their way into an index that is being searched.
//!
//! Batches depend on the part alone, not on threads or on what was encoded before, so that an interrupted run
//! that continues writes what an undisturbed one would.

mod batches;
mod corpus;
mod error;
mod in_memory;
pub mod model;
mod pipeline;
mod queue;
mod rows;
mod shard;
mod update;

pub use corpus::{EncodeOptions, EncodeSummary, PART_SIZE, encode_corpus};
pub use error::EncodingError;
pub use in_memory::{encode_passages, encode_questions};
pub use pipeline::{Encoded, PipelineOptions, WritePart, encode_rows};
pub use rows::{PassageRows, QuestionRows, Rows};
pub use shard::{Shard, ShardError};
pub use update::{PassageUpdater, UpdateError};
