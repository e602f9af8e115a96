//! Readers and writers of the field's files: passages, questions, training items, judgements (qrels) and results.
//!
//! | read | written | formats |
//! |---|---|---|
//! | [`read_passages`], [`stream_passages`] | [`write_corpus`] | `psgs_w100.tsv`, BEIR and Tevatron corpora, SQuAD json |
//! | [`read_questions`] | [`write_questions`] | question TSV, BEIR queries, SQuAD and WebQuestions json, CuratedTREC, plain lines |
//! | [`read_training`] | [`write_training`] | DPR training json |
//! | [`read_tevatron`], [`read_tevatron_ids`] | | Tevatron training lines |
//! | [`read_qrels`] | [`write_qrels`] | TREC and BEIR judgements |
//! | [`read_run`], [`read_scored_run`] | [`write_run`] | TREC runs |
//! | [`read_results`] | [`write_results`] | DPR's retriever result |
//!
//! A file that is read may be gzip-compressed, which its first bytes tell; a file that is written is gzip-compressed
//! when its name ends in `.gz`, and appears whole or not at all. [`convert`] converts between formats of the same
//! meaning. Errors name the file and the place in it.
//!
//! ```
//! use dpr_data::split::{Blocks, SplitOptions, block_id};
//! use dpr_data::{Passage, read_passages};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("documents.tsv");
//! std::fs::write(&path, "id\ttext\ttitle\n7\tCats sleep most of the day and hunt at night.\tCats\n")?;
//! let documents = read_passages(&path)?;
//! assert_eq!((documents[0].id.as_str(), documents[0].title.as_str()), ("7", "Cats"));
//!
//! // A document is retrieved in blocks: of 100 words in the paper, of 5 here, without overlap.
//! let options = SplitOptions::new(5, 0, 1)?;
//! let mut passages = Vec::new();
//! for Passage { id, title, text, .. } in documents {
//!     for block in Blocks::of(&text, &options) {
//!         passages.push(Passage::new(block_id(&id, block.number), title.clone(), block.text));
//!     }
//! }
//! assert_eq!((passages[1].id.as_str(), passages[1].text.as_str()), ("7#1", "day and hunt at night."));
//! # Ok(())
//! # }
//! ```

mod array;
mod beir;
mod convert;
mod error;
mod fields;
mod format;
mod input;
mod lines;
mod literal;
mod metadata;
mod output;
mod passage;
mod qa;
mod qrels;
mod question;
mod read_passages;
mod read_questions;
mod reason;
mod result;
mod run;
pub mod split;
mod squad;
mod tevatron;
mod training;
mod tsv;
mod write;

pub use array::{ArrayItems, ArrayWriter};
pub use convert::{ConvertError, ConvertOptions, Converted, convert};
pub use error::DataError;
pub use format::{FileFormat, UnknownFormatName};
pub use input::read_text;
pub use lines::JsonLines;
pub use literal::{LiteralError, format_list, parse_list};
pub use metadata::{Metadata, MetadataError, Number, Value, ValueSeed};
pub use output::check_not_input;
pub use passage::{CorpusDigest, Passage, control_character, corpus_sha256, parse_passages, write_passages};
pub use qrels::{Qrels, QrelsLayout, read_qrels, write_qrels};
pub use question::{Answers, Gold, Question, normalise_question};
pub use read_passages::{Passages, read_passages, stream_passages};
pub use read_questions::read_questions;
pub use result::{
    ResultWriter, RetrievedContext, RetrieverResult, RetrieverResults, read_results, write_results,
};
pub use run::{RankedQuery, RunHit, read_run, read_scored_run, write_run};
pub use tevatron::{TevatronIds, TevatronItem, TevatronPassage, read_tevatron, read_tevatron_ids};
pub use training::{
    TrainingContext, TrainingItem, TrainingItems, TrainingWriter, read_training, write_training,
};
pub use write::{CorpusLayout, PassageWriter, QuestionLayout, write_corpus, write_questions};
