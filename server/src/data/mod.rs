//! Passages and questions, and the files they come in.
//!
//! [`read_passages`] takes `psgs_w100.tsv` order, BEIR `corpus.jsonl` and SQuAD json; [`read_questions`] SQuAD
//! json, BEIR `queries.jsonl` and plain lines. Each may be gzip-compressed, told by its first bytes. What is
//! wrong with a file is said with its name and the place in it.

mod beir;
mod error;
mod input;
mod lines;
mod passage;
mod question;
mod squad;
mod tsv;

pub use error::DataError;
pub use passage::{Passage, corpus_sha256, read_passages};
pub(crate) use passage::{parse_passages, write_passages};
pub use question::{Question, read_questions};
