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
//! ```
//! use dpr_core::DeviceChoice;
//! use dpr_data::Passage;
//! use dpr_encode::model::{ImportOptions, ModelDir, import};
//! use dpr_encode::{PipelineOptions, encode_passages, encode_questions};
//! use dpr_files::progress::Silent;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let hugging_face = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dpr-tiny");
//! # let dir = tempfile::tempdir()?;
//! # let out = dir.path().join("model");
//! // Two Hugging Face directories, a question encoder and a passage encoder, become one model directory.
//! let (question, passage) = (hugging_face.join("question"), hugging_face.join("ctx"));
//! import(&question, Some(&passage), &out, &ImportOptions::default())?;
//!
//! let model = ModelDir::open(&out)?;
//! let (questions, passages) =
//!     (model.question_encoder(DeviceChoice::Cpu)?, model.passage_encoder(DeviceChoice::Cpu)?);
//! let options = PipelineOptions::for_device(passages.device_name(), None, None);
//! let text = |id: &str, text: &str| Passage::new(id, "", text);
//! let corpus = [text("1", "Cats sleep most of the day."), text("2", "Dogs bark at strangers.")];
//! let vectors = encode_passages(&passages, &corpus, options, &Silent)?;
//! let asked = encode_questions(&questions, &["What sleeps most of the day?"], options, &Silent)?;
//! assert_eq!((vectors.len(), vectors[0].dim(), asked[0].dim()), (2, 32, 32));
//! # Ok(())
//! # }
//! ```
//!
//! [`encode_corpus`] does the same for a corpus, into a directory that `dpr-index` reads.
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
mod update;

pub use corpus::{CorpusShard, EncodeOptions, EncodeSummary, PART_SIZE, encode_corpus, encode_shard};
pub use error::EncodingError;
pub use in_memory::{encode_passages, encode_passages_until, encode_questions};
pub use pipeline::{Encoded, PipelineOptions, WritePart, encode_rows};
pub use rows::{PassageRows, QuestionRows, Rows};
pub use update::{EncodePassages, PassageUpdater, UpdateError};

pub use dpr_index::vectors::{Shard, ShardError};
