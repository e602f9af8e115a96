//! BEIR and Tevatron files with one JSON object a line: BEIR's `corpus.jsonl` (`_id`, `title`, `text`, `metadata`) and
//! `queries.jsonl` (`_id`, `text`), and the same under Tevatron's names (`docid` and `document_text`, `query_id` and
//! `query` or `query_text`). A corpus may also be a `passages.jsonl` of `dpr`, whose ids are called `id`.

use serde::Deserialize;

use super::fields::{Id, flat_metadata, null_is_empty};
use super::input::Input;
use super::lines::{Ids, Lines, check_id, line};
use super::{Answers, DataError, Metadata, Passage, Question, question};

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "_id")]
    id: Option<Id>,
    /// Tevatron's name of the id; where the line has `_id` too, that is the id.
    docid: Option<Id>,
    /// The id of a `passages.jsonl`; other files may use the name for something else.
    #[serde(rename = "id")]
    own_id: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "null_is_empty")]
    title: String,
    #[serde(alias = "document_text")]
    text: String,
    #[serde(default, deserialize_with = "flat_metadata")]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Query {
    #[serde(rename = "_id", alias = "query_id")]
    id: Id,
    #[serde(alias = "query", alias = "query_text")]
    text: String,
    /// Tevatron's, where the set has answers.
    #[serde(default, deserialize_with = "null_is_empty")]
    answers: Vec<String>,
}

/// Reader of passages one at a time, which keeps only their ids.
pub(super) struct Reader {
    lines: Lines,
    ids: Ids<usize>,
}

impl Reader {
    pub(super) fn new(input: Input) -> Self {
        Self { lines: Lines::new(input), ids: Ids::default() }
    }

    /// Returns the next passage. A document may have only a title (some of TREC-COVID's do), but must have a title or
    /// a text.
    pub(super) fn next(&mut self) -> Result<Option<Passage>, DataError> {
        let Some((number, document)) = self.lines.next_object()? else { return Ok(None) };
        let Document { id, docid, own_id, title, text, metadata } = document;
        let own_id = || own_id.and_then(|id| serde_json::from_value(id).ok());
        let id = id.or(docid).or_else(own_id).unwrap_or(Id(String::new()));
        let is_empty = text.trim().is_empty() && title.trim().is_empty();
        let id = check(&self.lines, &mut self.ids, number, id, is_empty)?;
        check_id(&id, number, self.lines.path())?;
        Ok(Some(Passage::new(id, title, text).with_metadata(metadata)))
    }
}

pub(super) fn read_questions(input: Input) -> Result<Vec<Question>, DataError> {
    let (mut lines, mut ids, mut questions) = (Lines::new(input), Ids::default(), Vec::new());
    while let Some((number, Query { id, text, answers })) = lines.next_object()? {
        let id = check(&lines, &mut ids, number, id, text.trim().is_empty())?;
        let text = question::normalise_question(&text);
        questions.push(Question { id, text, answers: Answers::Texts(answers), gold: None });
    }
    Ok(questions)
}

fn check(
    lines: &Lines,
    ids: &mut Ids<usize>,
    number: usize,
    Id(id): Id,
    is_empty: bool,
) -> Result<String, DataError> {
    for (missing, field) in [(id.trim().is_empty(), "_id"), (is_empty, "text")] {
        if missing {
            return Err(DataError::EmptyField {
                path: lines.path().to_path_buf(),
                place: line(number),
                field,
            });
        }
    }
    ids.insert(&id, number, lines.path(), line)?;
    Ok(id)
}
