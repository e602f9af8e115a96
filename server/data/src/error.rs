//! Errors of reading and writing data files.

use std::io;
use std::path::PathBuf;

use super::literal::LiteralError;

/// The reason why a file of passages or questions was not read or written. Every message names the file and the place
/// in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file cannot be opened or read, or its gzip data is damaged.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Compressed data that ends too early or is damaged.
    #[error("cannot read {}: its gzip data is cut short or damaged ({source}): fetch the file again", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An entry that the format has no way to write.
    #[error("cannot write {}: {item}: {why}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// As `passage wiki:12`.
        item: String,
        /// The obstacle, and what to do.
        why: &'static str,
    },
    /// Neither the name nor the content says what format it is.
    #[error(
        "{}: unknown format: name it .tsv (first line `id<TAB>text<TAB>title`), .jsonl (BEIR, Tevatron) or .json \
         (SQuAD), each also with .gz",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The beginning of the file is nothing but white space, so that it says nothing of the format.
    #[error("{}: the file is empty, or begins with nothing but white space", path.display())]
    Blank {
        /// The file.
        path: PathBuf,
    },
    /// The beginning of the file is not that of a known format.
    #[error("{}: cannot tell the format; it begins with `{found}`: name the format", path.display())]
    Undetected {
        /// The file.
        path: PathBuf,
        /// The beginning of the file.
        found: String,
    },
    /// A pipe, whose beginning can be read once only.
    #[error("{}: the format of a pipe cannot be told: name it", path.display())]
    Pipe {
        /// The pipe.
        path: PathBuf,
    },
    /// The file to be written is the one that is read.
    #[error("{} is the input: write to another file", path.display())]
    OverInput {
        /// The file.
        path: PathBuf,
    },
    /// A line of JSON where a question was expected.
    #[error("{}: line {line} is JSON, not a question: name the file .json (SQuAD, WebQuestions) or .jsonl (BEIR)", path.display())]
    JsonLine {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// Training data or a ranking where a file of questions was expected.
    #[error(
        "{} is {found}, not a file of questions: give the questions that it was made with, as SQuAD json, BEIR jsonl \
         or question tsv",
        path.display()
    )]
    NotQuestions {
        /// The file.
        path: PathBuf,
        /// The kind of file that it is, as `DPR training json`.
        found: &'static str,
    },
    /// Bytes that are not UTF-8.
    #[error("{}: line {line} is not valid UTF-8: convert the file, as with `iconv -t utf-8`", path.display())]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// A line that does not end within the limit.
    #[error(
        "{}: line {line} does not end within {} MiB: a line end is missing, or the text belongs into more than one passage",
        path.display(),
        limit >> 20
    )]
    LongLine {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A document larger than one that is read as a whole may be.
    #[error("{}: its text is longer than {} MiB: cut it into smaller files", path.display(), limit >> 20)]
    LongFile {
        /// The file.
        path: PathBuf,
        /// The limit in bytes, of the text as it is without compression.
        limit: u64,
    },
    /// The first line of a TSV file does not name its columns.
    #[error(
        "{}: line 1 must name the columns `id`, `text` and `title`, separated by tabs; found `{found}`",
        path.display()
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// The beginning of the line.
        found: String,
    },
    /// A line with too few or too many columns.
    #[error(
        "{}: line {line} has {got} columns, expected {expected} separated by {separator}{}",
        path.display(),
        missing.as_ref().map(|name| format!(" (no `{name}`)")).unwrap_or_default()
    )]
    Columns {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Columns the format has, or the header names.
        expected: usize,
        /// As `tabs` or `white space`.
        separator: &'static str,
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
        /// The parser's message.
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
    /// A passage whose id has a control character.
    #[error(
        "{}: line {line}: the id {id:?} has the control character U+{:04X}: leave it out",
        path.display(),
        u32::from(*character)
    )]
    ControlCharacter {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The beginning of the id.
        id: String,
        /// The first control character.
        character: char,
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
        "{}: line {line} holds a tab, but line 1 does not: a file of plain questions has one a line, \
         one with answers has `question<TAB>['answer', ...]` on every line",
        path.display()
    )]
    Tab {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// A table that is not one of the known question files.
    #[error(
        "{}: line {line} has {got} columns: a question file has 1 (the question), 2 (`question<TAB>['answer', ...]`) \
         or 4 (CuratedTREC, `id<TAB>kind<TAB>question<TAB>pattern`)",
        path.display()
    )]
    QuestionColumns {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Columns on the line.
        got: usize,
    },
    /// Answers that are not a Python list of strings.
    #[error("{}: line {line}: the answers are not a Python list of strings: {source}", path.display())]
    Literal {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The place in the list, and what was expected.
        source: LiteralError,
    },
    /// A value that is not what its column holds.
    #[error("{}: line {line}: `{found}` is not {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The expected content of the column, as `a rank (a whole number)`.
        expected: &'static str,
        /// The content that was found.
        found: String,
    },
    /// The first line of judgements is neither of the two forms.
    #[error(
        "{}: line 1 must be BEIR's header `query-id<TAB>corpus-id<TAB>score`, or 4 columns of TREC qrels \
         (`query 0 passage grade`); found `{found}`",
        path.display()
    )]
    QrelsHeader {
        /// The file.
        path: PathBuf,
        /// The beginning of the line.
        found: String,
    },
    /// The same rank, passage or judgement twice for one query.
    #[error("{}: query `{query}` has {what} at line {first} and again at line {second}: remove one", path.display())]
    Repeated {
        /// The file.
        path: PathBuf,
        /// The query's id.
        query: String,
        /// As `rank 3` or "passage `12`".
        what: String,
        /// Line, from 1.
        first: usize,
        /// Line, from 1.
        second: usize,
    },
    /// The file holds no items.
    #[error("{}: no {what} in this file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// As `passages`.
        what: &'static str,
    },
}
