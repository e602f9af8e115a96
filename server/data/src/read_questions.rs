//! Reading questions: tells the format of a file and hands the file to the reader of that format.

use std::path::Path;

use super::format;
use super::input::{Format, Input};
use super::{DataError, FileFormat, Question, beir, qa, squad};

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
/// [`DataError`] with the file and the place, as [`read_passages`]; [`DataError::NotQuestions`] for training data and
/// rankings, which hold questions too. A list literal is parsed, never evaluated; patterns are taken as they stand.
pub fn read_questions(path: &Path) -> Result<Vec<Question>, DataError> {
    read(Input::open(path)?)
}

pub(super) fn read(mut input: Input) -> Result<Vec<Question>, DataError> {
    refuse_other(&mut input)?;
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

/// Refuses training data and rankings by their beginning: they hold questions too, and would be taken for WebQuestions
/// json or for lines of text.
fn refuse_other(input: &mut Input) -> Result<(), DataError> {
    if !input.is_json_array()? {
        return Ok(());
    }
    let start = String::from_utf8_lossy(input.peek()?).into_owned();
    let found = match format::array(&start) {
        Some(FileFormat::DprTraining) => "DPR training json",
        Some(FileFormat::DprResult) => "DPR's retriever result",
        _ => return Ok(()),
    };
    Err(DataError::NotQuestions { path: input.path.clone(), found })
}
