//! Tevatron training files, a JSON object a line: version 1 carries the passages, version 2 their ids and keeps the
//! texts in a corpus (`docid`, `document_text`).

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::fields::{Id, null_is_empty};
use super::lines::JsonLines;
use super::{DataError, Passage, TrainingContext, TrainingItem, question};

/// A line of version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawItem")]
pub struct TevatronItem {
    /// Unique in its file.
    pub query_id: String,
    /// The question, U+2019 replaced by an apostrophe.
    pub query: String,
    /// Accepted answers, where the set has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// Passages that answer the question.
    pub positive_passages: Vec<TevatronPassage>,
    /// Passages that do not: hard negatives, since Tevatron takes the other questions' passages as the easy ones.
    pub negative_passages: Vec<TevatronPassage>,
}

/// A passage of version 1, in a training line or a line of its corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawPassage")]
pub struct TevatronPassage {
    /// Unique in its corpus.
    pub docid: String,
    /// The article's title; empty when there is none.
    pub title: String,
    /// The text.
    pub text: String,
}

/// A line of version 2: ids of a corpus in the place of passages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawIds")]
pub struct TevatronIds {
    /// Unique in its file.
    pub query_id: String,
    /// The question, U+2019 replaced by an apostrophe.
    pub query_text: String,
    /// Passages that answer the question.
    pub positive_document_ids: Vec<String>,
    /// Passages that do not.
    pub negative_document_ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(
    expecting = "a Tevatron line `{\"query_id\", \"query\", \"positive_passages\", \"negative_passages\"}`"
)]
struct RawItem {
    query_id: Id,
    query: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    answers: Vec<String>,
    positive_passages: Vec<TevatronPassage>,
    #[serde(default, deserialize_with = "null_is_empty")]
    negative_passages: Vec<TevatronPassage>,
}

#[derive(Deserialize)]
#[serde(expecting = "a passage `{\"docid\", \"title\", \"text\"}`")]
struct RawPassage {
    docid: Id,
    #[serde(default, deserialize_with = "null_is_empty")]
    title: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(expecting = "a Tevatron line `{\"query_id\", \"query_text\", \"positive_document_ids\", ...}`")]
struct RawIds {
    query_id: Id,
    query_text: String,
    positive_document_ids: Vec<Id>,
    #[serde(default, deserialize_with = "null_is_empty")]
    negative_document_ids: Vec<Id>,
}

impl From<RawItem> for TevatronItem {
    fn from(raw: RawItem) -> Self {
        Self {
            query_id: raw.query_id.0,
            query: question::normalise_question(&raw.query),
            answers: raw.answers,
            positive_passages: raw.positive_passages,
            negative_passages: raw.negative_passages,
        }
    }
}

impl From<RawPassage> for TevatronPassage {
    fn from(raw: RawPassage) -> Self {
        Self { docid: raw.docid.0, title: raw.title, text: raw.text }
    }
}

impl From<RawIds> for TevatronIds {
    fn from(raw: RawIds) -> Self {
        let texts = |ids: Vec<Id>| ids.into_iter().map(|id| id.0).collect();
        Self {
            query_id: raw.query_id.0,
            query_text: question::normalise_question(&raw.query_text),
            positive_document_ids: texts(raw.positive_document_ids),
            negative_document_ids: texts(raw.negative_document_ids),
        }
    }
}

impl TevatronItem {
    /// Returns the item for training. DPR's format has no place for the query's id.
    pub fn into_training(self) -> TrainingItem {
        let contexts = |passages: Vec<TevatronPassage>| {
            let context = |passage: TevatronPassage| TrainingContext {
                title: passage.title,
                text: passage.text,
                score: None,
                passage_id: Some(passage.docid),
            };
            passages.into_iter().map(context).collect()
        };
        TrainingItem {
            dataset: None,
            question: self.query,
            answers: self.answers,
            positive_ctxs: contexts(self.positive_passages),
            negative_ctxs: Vec::new(),
            hard_negative_ctxs: contexts(self.negative_passages),
        }
    }

    /// Returns the item as a line of version 1, which has no place for the set's name, for scores and for easy
    /// negatives. `None` when a positive or hard negative has no id.
    pub fn from_training(query_id: String, item: TrainingItem) -> Option<Self> {
        let passages = |contexts: Vec<TrainingContext>| -> Option<Vec<TevatronPassage>> {
            let passage = |context: TrainingContext| {
                let docid = context.passage_id?;
                Some(TevatronPassage { docid, title: context.title, text: context.text })
            };
            contexts.into_iter().map(passage).collect()
        };
        Some(Self {
            query_id,
            query: item.question,
            answers: item.answers,
            positive_passages: passages(item.positive_ctxs)?,
            negative_passages: passages(item.hard_negative_ctxs)?,
        })
    }
}

impl TevatronIds {
    /// Returns the line with the passages that its ids name.
    ///
    /// # Errors
    /// The first id that is not in `passages`.
    pub fn resolve(self, passages: &HashMap<String, Passage>) -> Result<TevatronItem, String> {
        let find = |ids: Vec<String>| -> Result<Vec<TevatronPassage>, String> {
            let find = |docid: String| match passages.get(&docid) {
                Some(Passage { title, text, .. }) => {
                    Ok(TevatronPassage { docid, title: title.clone(), text: text.clone() })
                }
                None => Err(docid),
            };
            ids.into_iter().map(find).collect()
        };
        Ok(TevatronItem {
            query_id: self.query_id,
            query: self.query_text,
            answers: Vec::new(),
            positive_passages: find(self.positive_document_ids)?,
            negative_passages: find(self.negative_document_ids)?,
        })
    }
}

impl From<TevatronItem> for TevatronIds {
    /// Keeps the ids of the passages; their texts belong in a corpus.
    fn from(item: TevatronItem) -> Self {
        let ids =
            |passages: Vec<TevatronPassage>| passages.into_iter().map(|passage| passage.docid).collect();
        Self {
            query_id: item.query_id,
            query_text: item.query,
            positive_document_ids: ids(item.positive_passages),
            negative_document_ids: ids(item.negative_passages),
        }
    }
}

/// Reads version 1 line by line, plain or gzip-compressed.
///
/// # Errors
/// [`DataError`], here when the file cannot be opened, else from the iterator, with the line and the column.
pub fn read_tevatron(path: &Path) -> Result<JsonLines<TevatronItem>, DataError> {
    JsonLines::open(path)
}

/// Reads version 2 line by line, plain or gzip-compressed.
///
/// # Errors
/// As [`read_tevatron`].
pub fn read_tevatron_ids(path: &Path) -> Result<JsonLines<TevatronIds>, DataError> {
    JsonLines::open(path)
}
