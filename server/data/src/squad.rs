//! SQuAD v1.1 json files (Rajpurkar et al. 2016), also KorQuAD and SQuADShifts: articles of paragraphs of questions. In
//! SQuAD 2.0 (Rajpurkar et al. 2018) a question that its paragraph does not answer lists no answers.

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use super::fields::{Id, null_is_empty};
use super::input::{Input, MAX_JSON_BYTES};
use super::lines::Ids;
use super::reason::reason;
use super::{Answers, DataError, Gold, Passage, Question, question};

#[derive(Deserialize)]
#[serde(expecting = "a SQuAD document `{\"data\": [...]}`")]
struct Document {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    #[serde(default, deserialize_with = "null_is_empty")]
    title: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    #[serde(default)]
    qas: Vec<SquadQuestion>,
}

#[derive(Deserialize)]
struct SquadQuestion {
    id: Id,
    question: String,
    #[serde(default)]
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    /// In characters.
    #[serde(default)]
    answer_start: Option<i64>,
}

impl Answer {
    /// Returns the answer's range of bytes in `context`, if the file gives its position correctly.
    fn range(&self, context: &str) -> Option<Range<usize>> {
        let start = usize::try_from(self.answer_start?).ok()?;
        let (from, _) = context.char_indices().nth(start)?;
        context[from..].starts_with(&self.text).then(|| from..from + self.text.len())
    }
}

pub(super) fn read_passages(mut input: Input) -> Result<Vec<Passage>, DataError> {
    let mut passages = Vec::new();
    for (a, article) in read(&mut input)?.into_iter().enumerate() {
        let title = article.title.replace('_', " ");
        for (p, paragraph) in article.paragraphs.into_iter().enumerate() {
            if paragraph.context.trim().is_empty() {
                let place = format!("article {a}, paragraph {p}");
                return Err(DataError::EmptyField { path: input.path, place, field: "context" });
            }
            passages.push(Passage::new(id(a, p), title.clone(), paragraph.context));
        }
    }
    Ok(passages)
}

pub(super) fn read_questions(mut input: Input) -> Result<Vec<Question>, DataError> {
    let mut questions = Vec::new();
    let mut ids = Ids::default();
    let say = |(a, p, q)| format!("article {a}, paragraph {p}, question {q}");
    for (a, article) in read(&mut input)?.into_iter().enumerate() {
        for (p, paragraph) in article.paragraphs.into_iter().enumerate() {
            let context: Arc<str> = paragraph.context.into();
            for (q, qa) in paragraph.qas.into_iter().enumerate() {
                if qa.question.trim().is_empty() {
                    let place = say((a, p, q));
                    return Err(DataError::EmptyField { path: input.path, place, field: "question" });
                }
                ids.insert(&qa.id.0, (a, p, q), &input.path, say)?;
                let answer = qa.answers.first().and_then(|answer| answer.range(&context));
                questions.push(Question {
                    id: qa.id.0,
                    text: question::normalise_question(&qa.question),
                    answers: Answers::Texts(qa.answers.into_iter().map(|answer| answer.text).collect()),
                    gold: Some(Gold { id: id(a, p), text: Arc::clone(&context), answer }),
                });
            }
        }
    }
    Ok(questions)
}

fn id(article: usize, paragraph: usize) -> String {
    format!("{article}-{paragraph}")
}

fn read(input: &mut Input) -> Result<Vec<Article>, DataError> {
    let text = input.read_text(MAX_JSON_BYTES)?;
    let document: Document = serde_json::from_str(&text).map_err(|e| DataError::Json {
        path: input.path.clone(),
        line: e.line(),
        column: e.column(),
        reason: reason(&e),
    })?;
    Ok(document.data)
}
