//! BEIR: one JSON object a line, `corpus.jsonl` with `_id`, `title`, `text` and `queries.jsonl` with `_id`, `text`.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::input::Input;
use super::lines::{Ids, Lines, line};
use super::{DataError, Passage, Question, question};

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "_id")]
    id: Id,
    #[serde(default)]
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct Query {
    #[serde(rename = "_id")]
    id: Id,
    text: String,
}

/// Some collections write their ids as numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(u64),
}

impl Id {
    fn into_string(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Documents may have only a title (TREC-COVID's do), but not neither.
pub(super) fn read_passages(input: Input) -> Result<Vec<Passage>, DataError> {
    let (mut lines, mut ids, mut passages) = (Lines::new(input), Ids::default(), Vec::new());
    while let Some((number, Document { id, title, text })) = next_object(&mut lines)? {
        let is_empty = text.trim().is_empty() && title.trim().is_empty();
        let id = check(&lines, &mut ids, number, id, is_empty)?;
        passages.push(Passage { id, title, text });
    }
    Ok(passages)
}

pub(super) fn read_questions(input: Input) -> Result<Vec<Question>, DataError> {
    let (mut lines, mut ids, mut questions) = (Lines::new(input), Ids::default(), Vec::new());
    while let Some((number, Query { id, text })) = next_object(&mut lines)? {
        let id = check(&lines, &mut ids, number, id, text.trim().is_empty())?;
        questions.push(Question { id, text: question::normalise(&text), answers: Vec::new(), gold: None });
    }
    Ok(questions)
}

fn next_object<T: DeserializeOwned>(lines: &mut Lines) -> Result<Option<(usize, T)>, DataError> {
    let Some((number, text)) = lines.next_record()? else { return Ok(None) };
    match serde_json::from_str(&text) {
        Ok(object) => Ok(Some((number, object))),
        Err(e) => {
            let path = lines.path().to_path_buf();
            // serde_json counts lines within the text it was given, which is one.
            let reason = e.to_string();
            let reason =
                reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason).to_owned();
            Err(DataError::Json { path, line: number, column: e.column(), reason })
        }
    }
}

fn check(
    lines: &Lines,
    ids: &mut Ids<usize>,
    number: usize,
    id: Id,
    is_empty: bool,
) -> Result<String, DataError> {
    let id = id.into_string();
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
