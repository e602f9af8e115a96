//! What can be wrong with an input file.

use std::io;
use std::path::PathBuf;

/// Why a file of passages or questions was not read. Every message names the file and the place in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file cannot be opened or read, or its gzip data is damaged.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither the name nor the content says what format it is.
    #[error(
        "{}: unknown format: name it .tsv (first line `id<TAB>text<TAB>title`), .jsonl (BEIR) or .json (SQuAD), \
         each also with .gz",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// Bytes that are not UTF-8.
    #[error("{}: line {line} is not valid UTF-8: convert the file, as with `iconv -t utf-8`", path.display())]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// The first line of a TSV file does not name its columns.
    #[error(
        "{}: line 1 must name the columns `id`, `text` and `title`, separated by tabs; found `{found}`",
        path.display()
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// What the line begins with.
        found: String,
    },
    /// A line with too few or too many columns.
    #[error(
        "{}: line {line} has {got} columns, expected {expected} separated by tabs{}",
        path.display(),
        missing.as_ref().map(|name| format!(" (no `{name}`)")).unwrap_or_default()
    )]
    Columns {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Columns the header names.
        expected: usize,
        /// Columns on the line.
        got: usize,
        /// The first column that is missing.
        missing: Option<String>,
    },
    /// JSON that does not parse, or lacks a field.
    #[error("{}: line {line}, column {column}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser says.
        reason: String,
    },
    /// A field that must hold something is empty.
    #[error("{}: {place} has an empty `{field}`: fill it in or remove the entry", path.display())]
    EmptyField {
        /// The file.
        path: PathBuf,
        /// As `line 12`.
        place: String,
        /// The field.
        field: &'static str,
    },
    /// An empty line between others.
    #[error("{}: line {line} is empty: remove it", path.display())]
    EmptyLine {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// The same id twice.
    #[error("{}: the id `{id}` is at {first} and again at {second}: ids must differ", path.display())]
    DuplicateId {
        /// The file.
        path: PathBuf,
        /// The id.
        id: String,
        /// As `line 12`.
        first: String,
        /// As `line 40`.
        second: String,
    },
    /// A line of a plain question file that holds a tab.
    #[error(
        "{}: line {line} holds a tab: a plain question file has one question a line; \
         name the file .json (SQuAD) or .jsonl (BEIR) when it is one of those",
        path.display()
    )]
    Tab {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// Nothing in it.
    #[error("{}: no {what} in this file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// `passages` or `questions`.
        what: &'static str,
    },
}
