//! Documents that stand one a line: `psgs_w100.tsv` layout and BEIR `corpus.jsonl`, read as a stream.

use std::borrow::Cow;

use serde::Deserialize;

use super::SplitError;
use super::file::{File, Kind};
use super::source::Document;
use crate::data::DataError;

const COLUMNS: [&str; 3] = ["id", "text", "title"];

/// The documents of one file; only the current one is in memory.
pub(super) struct Records {
    file: File,
    /// The current line, with its end, and its number from 1.
    line: Vec<u8>,
    pub(super) number: usize,
    format: Format,
}

enum Format {
    Tsv {
        /// What the header calls the columns.
        names: Vec<String>,
        /// Where `id`, `text` and `title` are.
        at: [usize; 3],
    },
    JsonLines,
}

#[derive(Deserialize)]
struct BeirDocument {
    #[serde(rename = "_id")]
    id: BeirId,
    #[serde(default)]
    title: String,
    text: String,
}

/// Some collections write their ids as numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum BeirId {
    Text(String),
    Number(u64),
}

impl Records {
    /// Starts at the first document of a file of `kind`, which is not one document.
    pub(super) fn new(file: File, kind: Kind) -> Result<Self, SplitError> {
        let mut records = Self { file, line: Vec::new(), number: 0, format: Format::JsonLines };
        if kind == Kind::Tsv && records.advance()? {
            let header = records.text()?;
            let names: Vec<_> = columns(header).iter().map(|name| name.trim().to_ascii_lowercase()).collect();
            let at = COLUMNS.map(|column| names.iter().position(|name| name == column));
            let [Some(id), Some(text), Some(title)] = at else {
                let found = header.chars().take(60).collect();
                return Err(DataError::Header { path: records.file.path.clone(), found }.into());
            };
            records.format = Format::Tsv { names, at: [id, text, title] };
        }
        Ok(records)
    }

    /// The next document, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Document>, SplitError> {
        if !self.advance()? {
            return Ok(None);
        }
        let document = match &self.format {
            Format::Tsv { names, at } => self.tsv(names, *at)?,
            Format::JsonLines => self.json()?,
        };
        // A BEIR document may have only a title, but not neither.
        let is_tsv = matches!(self.format, Format::Tsv { .. });
        let is_empty = document.text.trim().is_empty() && (is_tsv || document.title.trim().is_empty());
        let id_field = if is_tsv { "id" } else { "_id" };
        for (missing, field) in [(document.id.trim().is_empty(), id_field), (is_empty, "text")] {
            if missing {
                let place = format!("line {}", self.number);
                return Err(DataError::EmptyField { path: self.file.path.clone(), place, field }.into());
            }
        }
        if document.id.chars().any(char::is_control) {
            let Document { id, .. } = document;
            return Err(SplitError::Id { path: self.file.path.clone(), line: self.number, id });
        }
        Ok(Some(document))
    }

    fn tsv(&self, names: &[String], [id, text, title]: [usize; 3]) -> Result<Document, DataError> {
        let columns = columns(self.text()?);
        if columns.len() != names.len() {
            return Err(DataError::Columns {
                path: self.file.path.clone(),
                line: self.number,
                expected: names.len(),
                got: columns.len(),
                missing: names.get(columns.len()).cloned(),
            });
        }
        Ok(Document {
            id: columns[id].trim().to_owned(),
            title: columns[title].to_string(),
            text: columns[text].to_string(),
        })
    }

    fn json(&self) -> Result<Document, DataError> {
        let BeirDocument { id, title, text } = serde_json::from_str(self.text()?).map_err(|e| {
            // serde_json counts lines within the text it was given, which is one.
            let reason = e.to_string();
            let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
            DataError::Json {
                path: self.file.path.clone(),
                line: self.number,
                column: e.column(),
                reason: reason.to_owned(),
            }
        })?;
        let id = match id {
            BeirId::Text(id) => id,
            BeirId::Number(id) => id.to_string(),
        };
        Ok(Document { id, title, text })
    }

    /// Goes to the next line that is not empty; empty ones can only be the last.
    fn advance(&mut self) -> Result<bool, DataError> {
        let mut empty = None;
        loop {
            self.file.read_line(&mut self.line)?;
            if self.line.is_empty() {
                return Ok(false);
            }
            self.number += 1;
            if self.line.trim_ascii().is_empty() {
                empty = empty.or(Some(self.number));
                continue;
            }
            return match empty {
                None => Ok(true),
                Some(line) => Err(DataError::EmptyLine { path: self.file.path.clone(), line }),
            };
        }
    }

    /// The current line without its end.
    fn text(&self) -> Result<&str, DataError> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line)
            .map_err(|_| DataError::Utf8 { path: self.file.path.clone(), line: self.number })
    }
}

/// Columns of a line as Python's csv writer makes them. A column that begins with a quote but is not well-formed
/// (`"Weird Al" Yankovic`) is taken as it stands.
fn columns(line: &str) -> Vec<Cow<'_, str>> {
    let mut columns = Vec::with_capacity(COLUMNS.len());
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (column, next) = quoted(text).unwrap_or_else(|| match text.split_once('\t') {
            Some((column, next)) => (Cow::Borrowed(column), Some(next)),
            None => (Cow::Borrowed(text), None),
        });
        columns.push(column);
        rest = next;
    }
    columns
}

/// A quoted column at the start of `text`, and what follows its tab; `None` when it is not one.
fn quoted(text: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
    let body = text.strip_prefix('"')?;
    let mut end = body.find('"')?;
    while body[end + 1..].starts_with('"') {
        end += 2 + body[end + 2..].find('"')?;
    }
    let (column, after) = (&body[..end], &body[end + 1..]);
    let next = after.strip_prefix('\t');
    if next.is_none() && !after.is_empty() {
        return None;
    }
    let column =
        if column.contains('"') { Cow::Owned(column.replace("\"\"", "\"")) } else { Cow::Borrowed(column) };
    Some((column, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_quoted_and_bare() {
        let cases: [(&str, &[&str]); 9] = [
            ("1\ttext\ttitle", &["1", "text", "title"]),
            ("1\ttext\t", &["1", "text", ""]),
            ("1\t\"Say \"\"hi\"\" now\"\tT", &["1", "Say \"hi\" now", "T"]),
            ("1\t\"\"\"hi\"\"\"\tT", &["1", "\"hi\"", "T"]),
            ("1\t\"a\tb\"\tT", &["1", "a\tb", "T"]),
            ("1\ttext\t\"Weird Al\" Yankovic", &["1", "text", "\"Weird Al\" Yankovic"]),
            ("1\t\"open\tT", &["1", "\"open", "T"]),
            ("1\t\"\"\tT", &["1", "", "T"]),
            ("1\t5\" gun\tT", &["1", "5\" gun", "T"]),
        ];
        for (line, expected) in cases {
            assert_eq!(columns(line), expected, "{line}");
        }
    }
}
