//! A question, and reading a list of them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::input::{Format, Input};
use super::lines::Lines;
use super::{DataError, beir, squad};

/// A question, with what is known of its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Unique in its file; the line number in a plain file.
    pub id: String,
    /// The question, U+2019 replaced by an apostrophe.
    pub text: String,
    /// Accepted answers, as the file lists them; empty when it lists none.
    pub answers: Vec<String>,
    /// Id of the passage the question was asked about, where the file says so.
    pub gold: Option<String>,
}

/// Reads questions, in the order of the file: SQuAD json (gold is the paragraph's id as [`read_passages`] makes
/// it), BEIR `queries.jsonl`, or plain lines (empty ones are skipped). Each also gzip-compressed.
///
/// [`read_passages`]: super::read_passages
///
/// # Errors
/// [`DataError`] with the file and the place, as [`read_passages`]; a plain line that holds a tab is refused,
/// since it is a table of another format.
pub fn read_questions(path: &Path) -> Result<Vec<Question>, DataError> {
    let input = Input::open(path)?;
    let questions = match input.format {
        Format::Squad => squad::read_questions(input)?,
        Format::JsonLines => beir::read_questions(input)?,
        Format::Tsv | Format::Plain => read_plain(input)?,
    };
    if questions.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), what: "questions" });
    }
    Ok(questions)
}

fn read_plain(input: Input) -> Result<Vec<Question>, DataError> {
    let mut lines = Lines::new(input);
    let mut questions = Vec::new();
    while let Some((number, text)) = lines.next()? {
        let text = text.trim();
        if text.contains('\t') {
            return Err(DataError::Tab { path: lines.path().to_path_buf(), line: number });
        }
        if !text.is_empty() {
            let (id, text) = (number.to_string(), normalise(text));
            questions.push(Question { id, text, answers: Vec::new(), gold: None });
        }
    }
    Ok(questions)
}

/// The question as DPR encodes it: question sets type the apostrophe as U+2019, passages do not.
pub(super) fn normalise(text: &str) -> String {
    text.trim().replace('\u{2019}', "'")
}
