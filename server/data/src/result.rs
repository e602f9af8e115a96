//! DPR's retriever result json: for each question the passages found, best first, and which hold an answer. It is
//! what DPR's reader and its evaluation take.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::DataError;
use super::array::{ArrayItems, ArrayWriter, write_array};
use super::fields::{Id, Score, null_is_empty};

/// A question with the passages retrieved for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a retriever result `{\"question\", \"answers\", \"ctxs\"}`")]
pub struct RetrieverResult {
    /// The question.
    pub question: String,
    /// Accepted answers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub answers: Vec<String>,
    /// The passages, best first.
    pub ctxs: Vec<RetrievedContext>,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RawContext")]
pub struct RetrievedContext {
    /// Its id in the corpus.
    pub id: String,
    /// The article's title; empty when there is none.
    pub title: String,
    /// The text.
    pub text: String,
    /// The passage's score, in the retriever's units.
    pub score: f32,
    /// `true` if the text holds one of the answers.
    pub has_answer: bool,
}

#[derive(Deserialize)]
#[serde(expecting = "a passage `{\"id\", \"title\", \"text\", \"score\", \"has_answer\"}`")]
struct RawContext {
    id: Id,
    #[serde(default, deserialize_with = "null_is_empty")]
    title: String,
    text: String,
    score: Score,
    has_answer: bool,
}

impl From<RawContext> for RetrievedContext {
    fn from(raw: RawContext) -> Self {
        Self {
            id: raw.id.0,
            title: raw.title,
            text: raw.text,
            score: raw.score.0,
            has_answer: raw.has_answer,
        }
    }
}

/// The questions of a retriever result, each with its passages. After an error there are no more.
#[derive(Debug)]
pub struct RetrieverResults {
    items: ArrayItems<RetrieverResult>,
}

impl Iterator for RetrieverResults {
    type Item = Result<RetrieverResult, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.items.next()? {
            Ok(result) if result.question.trim().is_empty() => Some(Err(self.items.empty_field("question"))),
            result => Some(result),
        }
    }
}

/// Reads a retriever result question by question, plain or gzip-compressed. Scores may be strings, as DPR writes
/// them.
///
/// # Errors
/// [`DataError`], here when the file cannot be opened, else from the iterator: bad JSON or a missing field with its
/// line, column and item, invalid UTF-8, an empty question, a file that is cut short.
pub fn read_results(path: &Path) -> Result<RetrieverResults, DataError> {
    Ok(RetrieverResults { items: ArrayItems::open(path)? })
}

/// Writer of a retriever result, which takes the questions in order.
pub type ResultWriter<'a> = ArrayWriter<'a, RetrieverResult>;

/// Writes a retriever result, a question a line, whole or not at all; gzip-compressed when the name ends in `.gz`.
/// Returns the number of questions.
///
/// # Errors
/// The error that `fill` returns, or [`DataError::Write`]; the file at `path` is then unchanged.
pub fn write_results<E: From<DataError>>(
    path: &Path,
    fill: impl FnOnce(&mut ResultWriter<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    write_array(path, fill)
}
