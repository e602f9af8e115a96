//! Writers of passages and questions in the field's formats, one at a time.

use std::path::Path;

use serde::Serialize;

use super::literal::format_list;
use super::output::{Output, write_whole};
use super::{DataError, Metadata, Passage, Question, tsv};

const NO_ID: &str = "its id is empty, and TSV needs one";
const NO_TEXT: &str = "its text is empty, and TSV needs one: fill it in, or write jsonl";

/// Layout of a corpus on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorpusLayout {
    /// `psgs_w100.tsv`: header `id text title`, quoted as Python's csv writer does.
    Tsv,
    /// BEIR `corpus.jsonl`: `_id`, `title`, `text`, and `metadata` where there is any. The only layout that holds it.
    Beir,
    /// Tevatron version 1: `docid`, `title`, `text`.
    TevatronV1,
    /// Tevatron version 2: `docid` and `document_text`, which is the title, a space, and the text.
    Tevatron,
}

/// Layout of questions on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionLayout {
    /// `question<TAB>['answer', ...]`, the list as Python writes it. Without ids.
    Tsv,
    /// BEIR `queries.jsonl`: `_id`, `text`. Without answers.
    Beir,
}

/// Writer of a corpus, which takes passages in order.
pub struct PassageWriter<'a> {
    out: &'a mut Output<'a>,
    layout: CorpusLayout,
    count: usize,
}

impl std::fmt::Debug for PassageWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassageWriter").field("layout", &self.layout).field("count", &self.count).finish()
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "_id")]
    id: &'a str,
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
}

#[derive(Serialize)]
struct TevatronDocument<'a> {
    docid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_text: Option<String>,
}

impl PassageWriter<'_> {
    /// Appends a passage.
    ///
    /// # Errors
    /// [`DataError::Unwritable`] for a line end or an empty text in a TSV file, and [`DataError::Write`].
    pub fn write(&mut self, passage: &Passage) -> Result<(), DataError> {
        let Passage { id, title, text, metadata } = passage;
        self.count += 1;
        match self.layout {
            CorpusLayout::Tsv => {
                check_row(self.out.path(), &format!("passage {id:?}"), &[id, text, title])?;
                for (value, why) in [(id, NO_ID), (text, NO_TEXT)] {
                    if value.trim().is_empty() {
                        let path = self.out.path().to_path_buf();
                        return Err(DataError::Unwritable { path, item: format!("passage {id:?}"), why });
                    }
                }
                self.out.bytes(tsv::row(&[id, text, title]).as_bytes())
            }
            CorpusLayout::Beir => self.out.json_line(&Document { id, title, text, metadata }),
            CorpusLayout::TevatronV1 => self.out.json_line(&TevatronDocument {
                docid: id,
                title: Some(title),
                text: Some(text),
                document_text: None,
            }),
            CorpusLayout::Tevatron => {
                let joined = if title.is_empty() { text.clone() } else { format!("{title} {text}") };
                self.out.json_line(&TevatronDocument {
                    docid: id,
                    title: None,
                    text: None,
                    document_text: Some(joined),
                })
            }
        }
    }
}

/// Writes a corpus whole or not at all; gzip-compressed when the name ends in `.gz`. `fill` gets the writer.
/// Returns the number of passages.
///
/// # Errors
/// The error that `fill` returns, or [`DataError::Write`]; the file at `path` is then unchanged.
pub fn write_corpus<E: From<DataError>>(
    path: &Path,
    layout: CorpusLayout,
    fill: impl FnOnce(&mut PassageWriter<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    write_whole(path, |out| {
        if layout == CorpusLayout::Tsv {
            out.bytes(tsv::row(&["id", "text", "title"]).as_bytes())?;
        }
        let mut writer = PassageWriter { out, layout, count: 0 };
        fill(&mut writer)?;
        Ok(writer.count)
    })
}

/// Writes questions whole or not at all; gzip-compressed when the name ends in `.gz`.
///
/// # Errors
/// [`DataError::Unwritable`] for a line end in a question of a TSV file, and [`DataError::Write`]; the file at `path`
/// is then unchanged.
pub fn write_questions(path: &Path, layout: QuestionLayout, questions: &[Question]) -> Result<(), DataError> {
    #[derive(Serialize)]
    struct Query<'a> {
        #[serde(rename = "_id")]
        id: &'a str,
        text: &'a str,
    }

    write_whole(path, |out| {
        for Question { id, text, answers, .. } in questions {
            match layout {
                QuestionLayout::Tsv => {
                    check_row(out.path(), &format!("question {id:?}"), &[text])?;
                    out.bytes(tsv::row(&[text, &format_list(answers.as_slice())]).as_bytes())?;
                }
                QuestionLayout::Beir => out.json_line(&Query { id, text })?,
            }
        }
        Ok(())
    })
}

/// Line ends inside quotes would be good CSV, but most readers of these files go line by line.
fn check_row(path: &Path, item: &str, columns: &[&str]) -> Result<(), DataError> {
    if columns.iter().any(|column| column.contains(['\n', '\r'])) {
        return Err(DataError::Unwritable {
            path: path.to_path_buf(),
            item: item.to_owned(),
            why: "it holds a line end, which TSV has no place for: put a space there, or write jsonl",
        });
    }
    Ok(())
}
