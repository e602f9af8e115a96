//! `psgs_w100.tsv` and files like it: a header `id text title`, then one passage a line, columns separated by tabs.
//!
//! Python's csv writer made that file, so a column that begins with a quote is quoted and doubles the quotes
//! inside. Files cut by other tools carry bare quotes (`"Weird Al" Yankovic`): a column is taken as quoted only
//! when the whole of it is well-formed, else as it stands. A quoted column cannot span lines.

use std::borrow::Cow;

use super::input::Input;
use super::lines::{Ids, Lines, check_id, line};
use super::{DataError, Passage};

const COLUMNS: [&str; 3] = ["id", "text", "title"];

/// Reader of passages one at a time, which keeps only their ids.
pub(super) struct Reader {
    lines: Lines,
    names: Vec<String>,
    /// The positions of the columns of [`COLUMNS`]; `None` when the file is empty.
    positions: Option<[usize; 3]>,
    ids: Ids<usize>,
}

impl Reader {
    pub(super) fn new(input: Input) -> Result<Self, DataError> {
        let (mut lines, ids) = (Lines::new(input), Ids::default());
        let Some((_, header)) = lines.next_record()? else {
            return Ok(Self { lines, names: Vec::new(), positions: None, ids });
        };
        let names: Vec<_> =
            header.split('\t').map(|name| unquote(name).trim().to_ascii_lowercase()).collect();
        let [Some(id), Some(text), Some(title)] =
            COLUMNS.map(|column| names.iter().position(|name| name == column))
        else {
            let found = header.chars().take(60).collect();
            return Err(DataError::Header { path: lines.path().to_path_buf(), found });
        };
        Ok(Self { lines, names, positions: Some([id, text, title]), ids })
    }

    pub(super) fn next(&mut self) -> Result<Option<Passage>, DataError> {
        let Some([id_at, text_at, title_at]) = self.positions else { return Ok(None) };
        let Some((number, text)) = self.lines.next_record()? else { return Ok(None) };
        let path = || self.lines.path().to_path_buf();
        let columns = split(&text);
        if columns.len() != self.names.len() {
            return Err(DataError::Columns {
                path: path(),
                line: number,
                expected: self.names.len(),
                separator: "tabs",
                got: columns.len(),
                missing: self.names.get(columns.len()).cloned(),
            });
        }
        for (at, field) in [(id_at, "id"), (text_at, "text")] {
            if columns[at].trim().is_empty() {
                return Err(DataError::EmptyField { path: path(), place: line(number), field });
            }
        }
        let id = columns[id_at].trim();
        check_id(id, number, self.lines.path())?;
        self.ids.insert(id, number, self.lines.path(), line)?;
        Ok(Some(Passage::new(id, columns[title_at].trim().to_owned(), columns[text_at].trim().to_owned())))
    }
}

/// Returns a line of columns as Python's csv writer makes it: quoted where a tab, a quote or a line end is inside.
pub(super) fn row(columns: &[&str]) -> String {
    let mut line = String::with_capacity(columns.iter().map(|column| column.len() + 1).sum());
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            line.push('\t');
        }
        if column.contains(['\t', '"', '\n', '\r']) {
            line.push('"');
            line.push_str(&column.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(column);
        }
    }
    line.push('\n');
    line
}

/// Returns the columns of a line. A tab inside a well-formed quoted column does not separate.
pub(super) fn split(line: &str) -> Vec<Cow<'_, str>> {
    let mut columns = Vec::with_capacity(COLUMNS.len());
    let mut rest = line;
    loop {
        if let Some((column, after)) = quoted(rest) {
            columns.push(column);
            match after {
                Some(after) => rest = after,
                None => return columns,
            }
            continue;
        }
        match rest.split_once('\t') {
            Some((column, after)) => {
                columns.push(Cow::Borrowed(column));
                rest = after;
            }
            None => {
                columns.push(Cow::Borrowed(rest));
                return columns;
            }
        }
    }
}

/// Returns the quoted column at the start of `rest` and the text after its tab; `None` when `rest` does not begin
/// with a quoted column.
fn quoted(rest: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
    let body = rest.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let end = from + body[from..].find('"')?;
        let after = &body[end + 1..];
        if after.starts_with('"') {
            from = end + 2;
            continue;
        }
        let column = match body[..end].contains('"') {
            true => Cow::Owned(body[..end].replace("\"\"", "\"")),
            false => Cow::Borrowed(&body[..end]),
        };
        return match after.strip_prefix('\t') {
            Some(next) => Some((column, Some(next))),
            None if after.is_empty() => Some((column, None)),
            None => None,
        };
    }
}

fn unquote(text: &str) -> &str {
    text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_both_kinds_of_file() {
        let cases: [(&str, &[&str]); 8] = [
            ("1\ttext\ttitle", &["1", "text", "title"]),
            ("1\ttext\t", &["1", "text", ""]),
            ("1\t\"Say \"\"hi\"\" now\"\tT", &["1", "Say \"hi\" now", "T"]),
            ("1\t\"a\tb\"\tT", &["1", "a\tb", "T"]),
            ("1\ttext\t\"Weird Al\" Yankovic", &["1", "text", "\"Weird Al\" Yankovic"]),
            ("1\t\"open\tT", &["1", "\"open", "T"]),
            ("1\t\"\"\tT", &["1", "", "T"]),
            ("1\t5\" gun\tT", &["1", "5\" gun", "T"]),
        ];
        for (line, expected) in cases {
            assert_eq!(split(line), expected, "{line}");
        }
    }

    #[test]
    fn rows_are_read_back() {
        let columns = ["1", "Say \"hi\" now", "a\tb", "\"Weird Al\" Yankovic", "", "\"\"", "plain"];
        let line = row(&columns);
        assert!(line.starts_with("1\t\"Say \"\"hi\"\" now\"\t\"a\tb\"\t"), "{line}");
        assert_eq!(split(line.trim_end_matches('\n')), columns);
    }
}
