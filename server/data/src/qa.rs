//! Question files with answers: DPR's TSV (`question`, a Python list), CuratedTREC (`id`, `kind`, `question`, a
//! regular expression), and WebQuestions json (`[{"qId", "answers", "qText"}]`).

use serde::Deserialize;

use super::array::ArrayItems;
use super::fields::{Id, null_is_empty};
use super::input::Input;
use super::lines::{Ids, Lines, line};
use super::{Answers, DataError, Question, literal, question, tsv};

/// Layout of a text file of questions, which its first line decides.
enum Layout {
    Plain,
    Answers,
    CuratedTrec,
}

/// Reads lines of questions, alone or in a table; the first line decides which.
pub(super) fn read_lines(input: Input) -> Result<Vec<Question>, DataError> {
    let mut lines = Lines::new(input);
    let Some((number, first)) = next_plain(&mut lines)? else { return Ok(Vec::new()) };
    let columns = tsv::split(&first).len();
    let layout = match (columns, first.split('\t').count()) {
        (1, _) => Layout::Plain,
        (2, _) => Layout::Answers,
        (_, 4) => Layout::CuratedTrec,
        (got, _) => {
            return Err(DataError::QuestionColumns { path: lines.path().to_path_buf(), line: number, got });
        }
    };
    let (mut questions, mut ids) = (Vec::new(), Ids::default());
    let mut next = Some((number, first));
    while let Some((number, text)) = next {
        let question = match layout {
            Layout::Plain => plain(&lines, number, &text)?,
            Layout::Answers => with_answers(&lines, number, &text)?,
            Layout::CuratedTrec => curated_trec(&lines, number, &text)?,
        };
        ids.insert(&question.id, number, lines.path(), line)?;
        questions.push(question);
        next = match layout {
            Layout::Plain => next_plain(&mut lines)?,
            Layout::Answers | Layout::CuratedTrec => lines.next_record()?,
        };
    }
    Ok(questions)
}

/// Returns the next line that is not empty.
fn next_plain(lines: &mut Lines) -> Result<Option<(usize, String)>, DataError> {
    loop {
        match lines.next()? {
            None => return Ok(None),
            Some((_, text)) if text.trim().is_empty() => {}
            Some((number, text)) => return Ok(Some((number, text.to_owned()))),
        }
    }
}

fn plain(lines: &Lines, number: usize, text: &str) -> Result<Question, DataError> {
    if text.trim_start().starts_with(['{', '[']) {
        return Err(DataError::JsonLine { path: lines.path().to_path_buf(), line: number });
    }
    if text.trim().contains('\t') {
        return Err(DataError::Tab { path: lines.path().to_path_buf(), line: number });
    }
    Ok(Question {
        id: number.to_string(),
        text: question::normalise_question(text),
        answers: Answers::default(),
        gold: None,
    })
}

fn with_answers(lines: &Lines, number: usize, text: &str) -> Result<Question, DataError> {
    let columns = tsv::split(text);
    let [question, answers] = columns.as_slice() else {
        return Err(ragged(lines, number, 2, columns.len(), &["question", "answers"]));
    };
    let answers = literal::parse_list(answers).map_err(|source| DataError::Literal {
        path: lines.path().to_path_buf(),
        line: number,
        source,
    })?;
    Ok(Question {
        id: number.to_string(),
        text: question_text(lines, number, question)?,
        answers: Answers::Texts(answers),
        gold: None,
    })
}

/// Parses a line of CuratedTREC. The line is cut at tabs alone: quotes belong to the question.
fn curated_trec(lines: &Lines, number: usize, text: &str) -> Result<Question, DataError> {
    let columns: Vec<_> = text.split('\t').collect();
    let [id, _, question, pattern] = columns.as_slice() else {
        return Err(ragged(lines, number, 4, columns.len(), &["id", "kind", "question", "pattern"]));
    };
    for (column, field) in [(id, "id"), (pattern, "pattern")] {
        if column.trim().is_empty() {
            return Err(empty(lines, number, field));
        }
    }
    Ok(Question {
        id: id.trim().to_owned(),
        text: question_text(lines, number, question)?,
        answers: Answers::Patterns(vec![(*pattern).to_owned()]),
        gold: None,
    })
}

fn question_text(lines: &Lines, number: usize, text: &str) -> Result<String, DataError> {
    let text = question::normalise_question(text);
    if text.is_empty() { Err(empty(lines, number, "question")) } else { Ok(text) }
}

fn empty(lines: &Lines, number: usize, field: &'static str) -> DataError {
    DataError::EmptyField { path: lines.path().to_path_buf(), place: line(number), field }
}

fn ragged(lines: &Lines, number: usize, expected: usize, got: usize, names: &[&str]) -> DataError {
    DataError::Columns {
        path: lines.path().to_path_buf(),
        line: number,
        expected,
        separator: "tabs",
        got,
        missing: names.get(got).map(|name| (*name).to_owned()),
    }
}

#[derive(Deserialize)]
#[serde(expecting = "a WebQuestions entry `{\"qId\", \"answers\", \"qText\"}`")]
struct WebQuestion {
    #[serde(rename = "qId")]
    id: Id,
    #[serde(default, deserialize_with = "null_is_empty")]
    answers: Vec<String>,
    #[serde(rename = "qText")]
    text: String,
}

pub(super) fn read_web_questions(input: Input) -> Result<Vec<Question>, DataError> {
    let (mut items, mut ids, mut questions) = (ArrayItems::new(input), Ids::default(), Vec::new());
    let say = |item| format!("item {item}");
    while let Some(item) = items.next() {
        let WebQuestion { id: Id(id), answers, text } = item?;
        let (number, text) = (questions.len() + 1, question::normalise_question(&text));
        if text.is_empty() {
            let path = items.path().to_path_buf();
            return Err(DataError::EmptyField { path, place: say(number), field: "qText" });
        }
        ids.insert(&id, number, items.path(), say)?;
        questions.push(Question { id, text, answers: Answers::Texts(answers), gold: None });
    }
    Ok(questions)
}
