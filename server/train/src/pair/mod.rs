//! Training of models that take a question and a passage in one input: readers (paper §6.1) and rerankers.
//!
//! A question comes with one passage that holds its answer and some that do not, drawn anew in each epoch. A reader
//! learns to choose the first and to mark the answer in it; a reranker learns to score it above the others. An input's
//! scores are what [`step`](super::step) calls its vector, so that texts are encoded in chunks and twice where the
//! tapes of all do not fit into memory.

mod batch;
mod config;
mod data;
mod loss;
mod measure;
mod prepare;
mod start;
mod task;

pub use batch::PairBatch;
pub use config::{PairConfig, PairDataOptions, PairModelOptions, PairObjective, PairTask, RankLoss, Ranking};
pub use loss::{reader_step, reranker_step};
pub use prepare::{PairPrepared, pair_dry_run};
pub use start::{PairKind, PairModel};
pub use task::train_pairs;
