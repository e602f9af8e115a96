//! A question, and reading a list of them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::input::{Format, Input};
use super::{DataError, beir, qa, squad};

/// A question, with what is known of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Unique in its file; the line number where the file has no ids.
    pub id: String,
    /// The question, U+2019 replaced by an apostrophe.
    pub text: String,
    /// Accepted answers, as the file lists them; none when it lists none.
    pub answers: Answers,
    /// The passage the question was asked about, where the file says so.
    pub gold: Option<Gold>,
}

/// The passage a question was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gold {
    /// Its id in its own file. Other files have other passages of the same id.
    pub id: String,
    /// Its text.
    pub text: Arc<str>,
    /// Where the first answer stands in the text, in bytes; `None` where the file does not say, or wrongly.
    pub answer: Option<Range<usize>>,
}

/// What counts as an answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Texts, any of which may stand in a passage.
    Texts(Vec<String>),
    /// Regular expressions, any of which may match one (CuratedTREC).
    Patterns(Vec<String>),
}

impl Answers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The texts or patterns.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::Texts(list) | Self::Patterns(list) => list,
        }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::Texts(Vec::new())
    }
}

/// Reads questions, in the order of the file, each kind also gzip-compressed:
///
/// * SQuAD json (gold is the paragraph's id as [`read_passages`] makes it) and WebQuestions json;
/// * BEIR `queries.jsonl`, and Tevatron's lines of queries;
/// * lines of text: `question<TAB>['answer', ...]` (a Python list literal, CSV-quoted or not), CuratedTREC's
///   `id<TAB>kind<TAB>question<TAB>pattern`, or the question alone (empty lines are skipped). The first line decides.
///   Where the file has no ids, the id is the line's number, from 1.
///
/// [`read_passages`]: super::read_passages
///
/// # Errors
/// [`DataError`] with the file and the place, as [`read_passages`]. A list literal is parsed, never evaluated;
/// patterns are taken as they stand.
pub fn read_questions(path: &Path) -> Result<Vec<Question>, DataError> {
    read(Input::open(path)?)
}

pub(super) fn read(mut input: Input) -> Result<Vec<Question>, DataError> {
    let path = input.path.clone();
    let format = input.format;
    let questions = match format {
        Format::Json if input.is_json_array()? => qa::read_web_questions(input)?,
        Format::Json => squad::read_questions(input)?,
        Format::JsonLines => beir::read_questions(input)?,
        Format::Tsv | Format::Plain => qa::read_lines(input)?,
    };
    if questions.is_empty() {
        return Err(DataError::Empty { path, what: "questions" });
    }
    Ok(questions)
}

/// The question as DPR encodes it, without space around it: people and question sets type the apostrophe as U+2019,
/// passages do not.
pub fn normalise_question(text: &str) -> String {
    text.trim().replace('\u{2019}', "'")
}
