//! Lines of a file with their numbers, and ids seen so far.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, Read as _};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::input::{Input, MAX_LINE_BYTES};
use super::reason::reason;
use super::{DataError, control_character};

/// Reader of lines, which hands them out without their line ends.
pub(super) struct Lines {
    input: Input,
    buffer: Vec<u8>,
    number: usize,
}

impl Lines {
    pub(super) fn new(input: Input) -> Self {
        Self { input, buffer: Vec::new(), number: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.input.path
    }

    /// Returns the next line and its number from 1, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(usize, &str)>, DataError> {
        self.buffer.clear();
        // Its line end is one more.
        let mut reader = self.input.reader.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        let read = reader.read_until(b'\n', &mut self.buffer);
        if read.map_err(|e| self.input.io_error(e))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        if line.len() > MAX_LINE_BYTES {
            let path = self.input.path.clone();
            return Err(DataError::LongLine { path, line: self.number, limit: MAX_LINE_BYTES });
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) => Ok(Some((self.number, text))),
            Err(_) => Err(DataError::Utf8 { path: self.input.path.clone(), line: self.number }),
        }
    }

    /// Returns the next line as [`Lines::next`] does, for formats where empty lines can only be the last ones.
    pub(super) fn next_record(&mut self) -> Result<Option<(usize, String)>, DataError> {
        let mut empty = None;
        loop {
            let Some((number, text)) = self.next()? else { return Ok(None) };
            if text.trim().is_empty() {
                empty = empty.or(Some(number));
                continue;
            }
            return match empty {
                None => Ok(Some((number, text.to_owned()))),
                Some(line) => Err(DataError::EmptyLine { path: self.input.path.clone(), line }),
            };
        }
    }
}

impl Lines {
    /// Returns the next line as a JSON object, and its number from 1.
    pub(super) fn next_object<T: DeserializeOwned>(&mut self) -> Result<Option<(usize, T)>, DataError> {
        let Some((number, text)) = self.next_record()? else { return Ok(None) };
        match serde_json::from_str(&text) {
            Ok(object) => Ok(Some((number, object))),
            Err(e) => Err(DataError::Json {
                path: self.path().to_path_buf(),
                line: number,
                column: e.column(),
                reason: reason(&e),
            }),
        }
    }
}

/// The objects of a file with one a line, in order. After an error there are no more.
pub struct JsonLines<T> {
    lines: Lines,
    is_done: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> JsonLines<T> {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        Ok(Self { lines: Lines::new(Input::open(path)?), is_done: false, of: PhantomData })
    }
}

impl<T> std::fmt::Debug for JsonLines<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonLines").field("path", &self.lines.path()).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Iterator for JsonLines<T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let item = self.lines.next_object().map(|object| object.map(|(_, item)| item)).transpose();
        self.is_done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The ids seen so far, with the place where each was first seen. Ids are held as 16 bytes each, so that a corpus of
/// millions of passages leaves room for the passages: that two ids share their 16 bytes by chance is not to be
/// expected before 10^18 ids.
#[derive(Default)]
pub(super) struct Ids<P>(HashMap<[u64; 2], P>);

impl<P: Copy> Ids<P> {
    /// Notes `id` at `place`; `say` puts a place in words for the error.
    pub(super) fn insert(
        &mut self,
        id: &str,
        place: P,
        path: &Path,
        say: impl Fn(P) -> String,
    ) -> Result<(), DataError> {
        match self.0.entry([0u8, 1].map(|key| digest(key, id))) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                Ok(())
            }
            Entry::Occupied(entry) => Err(DataError::DuplicateId {
                path: path.to_path_buf(),
                id: id.to_owned(),
                first: say(*entry.get()),
                second: say(place),
            }),
        }
    }
}

fn digest(key: u8, id: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    (key, id).hash(&mut hash);
    hash.finish()
}

/// Refuses a passage on line `number` whose id has a control character.
pub(super) fn check_id(id: &str, number: usize, path: &Path) -> Result<(), DataError> {
    let Some(character) = control_character(id) else { return Ok(()) };
    let id = id.chars().take(100).collect();
    Err(DataError::ControlCharacter { path: path.to_path_buf(), line: number, id, character })
}

/// Returns a line number in words.
pub(super) fn line(number: usize) -> String {
    format!("line {number}")
}
