//! DPR training json files: an array of questions with passages that answer them and passages that do not (paper
//! §3.2, §4.2). Read and written item by item, so that a file of many gigabytes needs the memory of one item.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::array::{ArrayItems, ArrayWriter, write_array};
use super::fields::{Id, Score, null_is_empty};
use super::{DataError, question};

/// A question to train on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a training item `{\"question\", \"answers\", \"positive_ctxs\", ...}`")]
pub struct TrainingItem {
    /// The set it comes from, where the file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The question, U+2019 replaced by an apostrophe.
    pub question: String,
    /// Accepted answers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub answers: Vec<String>,
    /// Passages that answer the question, the best first.
    #[serde(deserialize_with = "null_is_empty")]
    pub positive_ctxs: Vec<TrainingContext>,
    /// Passages that do not answer it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub negative_ctxs: Vec<TrainingContext>,
    /// Hard negatives: passages that look like an answer but are not one, the hardest first.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub hard_negative_ctxs: Vec<TrainingContext>,
}

/// A passage beside a question to train on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "RawContext")]
pub struct TrainingContext {
    /// The article's title; empty when there is none.
    pub title: String,
    /// The text.
    pub text: String,
    /// The passage's score for the question where it was found, in that retriever's units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The passage's id in the corpus in which it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passage_id: Option<String>,
}

/// A passage as the released files have it, with the id under either name.
#[derive(Deserialize)]
#[serde(expecting = "a passage `{\"title\", \"text\", ...}`")]
struct RawContext {
    #[serde(default, deserialize_with = "null_is_empty")]
    title: String,
    text: String,
    score: Option<Score>,
    passage_id: Option<Id>,
    psg_id: Option<Id>,
}

impl From<RawContext> for TrainingContext {
    fn from(raw: RawContext) -> Self {
        Self {
            title: raw.title,
            text: raw.text,
            score: raw.score.map(|score| score.0),
            passage_id: raw.passage_id.or(raw.psg_id).map(|id| id.0),
        }
    }
}

/// The items of a training file. After an error there are no more.
#[derive(Debug)]
pub struct TrainingItems {
    items: ArrayItems<TrainingItem>,
}

impl Iterator for TrainingItems {
    type Item = Result<TrainingItem, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match self.items.next()? {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        };
        let question = question::normalise_question(&item.question);
        if question.is_empty() {
            return Some(Err(self.items.empty_field("question")));
        }
        Some(Ok(TrainingItem { question, ..item }))
    }
}

/// Reads DPR training json, plain or gzip-compressed. Fields that are not in [`TrainingItem`] are ignored.
///
/// # Errors
/// [`DataError`], here when the file cannot be opened, else from the iterator: bad JSON or a missing field with its
/// line, column and item, invalid UTF-8, an empty question, a file that is cut short.
pub fn read_training(path: &Path) -> Result<TrainingItems, DataError> {
    Ok(TrainingItems { items: ArrayItems::open(path)? })
}

/// Writer of a training file, which takes the items in order.
pub type TrainingWriter<'a> = ArrayWriter<'a, TrainingItem>;

/// Writes DPR training json, an item a line, whole or not at all; gzip-compressed when the name ends in `.gz`.
/// Returns the number of items.
///
/// ```no_run
/// # use dpr_data::{DataError, read_training, write_training};
/// write_training("small.json.gz".as_ref(), |out| {
///     for item in read_training("train.json".as_ref())?.take(1000) {
///         out.write(&item?)?;
///     }
///     Ok::<(), DataError>(())
/// })?;
/// # Ok::<(), DataError>(())
/// ```
///
/// # Errors
/// The error that `fill` returns, or [`DataError::Write`]; the file at `path` is then unchanged.
pub fn write_training<E: From<DataError>>(
    path: &Path,
    fill: impl FnOnce(&mut TrainingWriter<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    write_array(path, fill)
}
