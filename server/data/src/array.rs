//! JSON arrays of many items, read and written item by item: memory holds one item, whatever the file's size.

use std::io::BufRead as _;
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::DataError;
use super::input::{Input, MAX_LINE_BYTES};
use super::output::{Output, write_whole};
use super::reason::reason;

/// The items of a JSON array, in the order of the file. After an error there are no more.
pub struct ArrayItems<T> {
    input: Input,
    item: Vec<u8>,
    /// Items begun so far.
    count: usize,
    /// Line of the next byte, from 1.
    line: usize,
    column: usize,
    is_done: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for ArrayItems<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayItems").field("path", &self.input.path).field("count", &self.count).finish()
    }
}

impl<T: DeserializeOwned> ArrayItems<T> {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        Ok(Self::new(Input::open(path)?))
    }

    pub(super) fn new(input: Input) -> Self {
        Self { input, item: Vec::new(), count: 0, line: 1, column: 1, is_done: false, of: PhantomData }
    }

    pub(super) fn path(&self) -> &Path {
        &self.input.path
    }

    /// Returns the error of an empty `field` in the last item, after which there are no more.
    pub(super) fn empty_field(&mut self, field: &'static str) -> DataError {
        self.is_done = true;
        DataError::EmptyField { path: self.input.path.clone(), place: format!("item {}", self.count), field }
    }

    fn error(&self, line: usize, column: usize, reason: impl Into<String>) -> DataError {
        DataError::Json { path: self.input.path.clone(), line, column, reason: reason.into() }
    }

    fn expected(&self, what: &str, found: Option<u8>) -> DataError {
        let found = match found {
            None => "the end of the file (is it cut short?)".to_owned(),
            Some(byte) => format!("`{}`", byte.escape_ascii()),
        };
        self.error(self.line, self.column, format!("expected {what}, found {found}"))
    }

    /// Returns the next byte that is not white space; only [`ArrayItems::bump`] consumes it.
    fn peek(&mut self) -> Result<Option<u8>, DataError> {
        loop {
            match self.input.peek()?.first() {
                Some(b) if b.is_ascii_whitespace() => {
                    let byte = *b;
                    self.bump(byte);
                }
                other => return Ok(other.copied()),
            }
        }
    }

    fn bump(&mut self, byte: u8) {
        self.input.reader.consume(1);
        self.step(byte);
    }

    fn step(&mut self, byte: u8) {
        if byte == b'\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
    }

    fn read(&mut self) -> Result<Option<T>, DataError> {
        if self.count == 0 {
            match self.peek()? {
                Some(b'[') => self.bump(b'['),
                found => return Err(self.expected("`[`, the start of an array", found)),
            }
        }
        match self.peek()? {
            Some(b']') => {
                self.bump(b']');
                return match self.peek()? {
                    None => Ok(None),
                    found => Err(self.expected("the end of the file after the array", found)),
                };
            }
            Some(b',') if self.count > 0 => {
                self.bump(b',');
                if let found @ (None | Some(b']')) = self.peek()? {
                    return Err(self.expected("an item after `,`", found));
                }
            }
            None if self.count == 0 => return Err(self.expected("an item or `]`", None)),
            found if self.count > 0 => return Err(self.expected("`,` or `]`", found)),
            _ => {}
        }
        self.count += 1;
        let (line, column) = (self.line, self.column);
        self.cut(line, column)?;
        self.parse(line, column).map(Some)
    }

    /// Copies one value into `item`: brackets are counted outside strings, and what lies inside is left to the
    /// parser.
    fn cut(&mut self, line: usize, column: usize) -> Result<(), DataError> {
        self.item.clear();
        let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
        loop {
            // `self.step` would borrow all of `self` while the buffer is borrowed: places are counted below.
            let buffer = self.input.peek()?;
            if buffer.is_empty() {
                let reason = format!("item {} is not closed: is the file cut short?", self.count);
                return Err(self.error(line, column, reason));
            }
            let mut end = None;
            for (at, &byte) in buffer.iter().enumerate() {
                if in_string {
                    match byte {
                        _ if is_escaped => is_escaped = false,
                        b'\\' => is_escaped = true,
                        b'"' => in_string = false,
                        _ => {}
                    }
                    continue;
                }
                match byte {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth > 0 => {
                        depth -= 1;
                        if depth == 0 {
                            end = Some(at + 1);
                            break;
                        }
                    }
                    // A number or a word ends where something else begins.
                    b',' | b']' | b'}' if depth == 0 => {
                        end = Some(at);
                        break;
                    }
                    _ => {}
                }
            }
            let taken = end.unwrap_or(buffer.len());
            let part = &buffer[..taken];
            match part.iter().rposition(|b| *b == b'\n') {
                Some(at) => {
                    self.line += part.iter().filter(|b| **b == b'\n').count();
                    self.column = taken - at;
                }
                None => self.column += taken,
            }
            self.item.extend_from_slice(part);
            self.input.reader.consume(taken);
            if end.is_some() {
                return Ok(());
            }
            if self.item.len() > MAX_LINE_BYTES {
                let reason = format!(
                    "item {} does not end within {} MiB: is a quote or a bracket missing?",
                    self.count,
                    MAX_LINE_BYTES >> 20
                );
                return Err(self.error(line, column, reason));
            }
        }
    }

    fn parse(&self, line: usize, column: usize) -> Result<T, DataError> {
        let text = std::str::from_utf8(&self.item).map_err(|e| {
            let lines = self.item[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            DataError::Utf8 { path: self.input.path.clone(), line: line + lines }
        })?;
        serde_json::from_str(text).map_err(|e| {
            // serde_json counts within the item, from 1.
            let column = if e.line() == 1 { column + e.column().saturating_sub(1) } else { e.column() };
            let line = line + e.line().saturating_sub(1);
            self.error(line, column, format!("item {}: {}", self.count, reason(&e)))
        })
    }
}

impl<T: DeserializeOwned> Iterator for ArrayItems<T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let item = self.read().transpose();
        self.is_done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Writes a JSON array, an item a line.
pub struct ArrayWriter<'a, T> {
    out: &'a mut Output<'a>,
    count: usize,
    of: PhantomData<fn(&T)>,
}

impl<T> std::fmt::Debug for ArrayWriter<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayWriter").field("count", &self.count).finish()
    }
}

impl<T: Serialize> ArrayWriter<'_, T> {
    /// Appends an item.
    ///
    /// # Errors
    /// [`DataError::Write`] when the disk does not take it.
    pub fn write(&mut self, item: &T) -> Result<(), DataError> {
        self.out.bytes(if self.count == 0 { b"[\n" } else { b",\n" })?;
        self.count += 1;
        self.out.json(item)
    }

    /// Items written so far.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Writes `path` whole or not at all; `fill` gets the writer. Returns the number of items.
pub(super) fn write_array<T: Serialize, E: From<DataError>>(
    path: &Path,
    fill: impl FnOnce(&mut ArrayWriter<'_, T>) -> Result<(), E>,
) -> Result<usize, E> {
    write_whole(path, |out| {
        let mut writer = ArrayWriter { out, count: 0, of: PhantomData };
        fill(&mut writer)?;
        let count = writer.count;
        writer.out.bytes(if count == 0 { b"[]\n" } else { b"\n]\n" })?;
        Ok(count)
    })
}
