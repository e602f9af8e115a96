//! How well retrieval finds what it should.

mod recall;
mod retrieval;

pub use recall::{Recall, recall};
pub use retrieval::{EvalError, RetrievalReport, TopK, gold_accuracy, gold_passages};
