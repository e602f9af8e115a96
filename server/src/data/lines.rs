//! Lines of a file with their numbers, and ids seen so far.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::BufRead as _;
use std::path::Path;

use super::DataError;
use super::input::Input;

/// Walks over lines; the text handed out has no line end.
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

    /// The next line and its number from 1, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(usize, &str)>, DataError> {
        self.buffer.clear();
        let read = self.input.reader.read_until(b'\n', &mut self.buffer);
        if read.map_err(|e| self.input.io_error(e))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) => Ok(Some((self.number, text))),
            Err(_) => Err(DataError::Utf8 { path: self.input.path.clone(), line: self.number }),
        }
    }

    /// As [`Lines::next`], for formats where empty lines can only be the last ones.
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

/// Where each id was first seen.
#[derive(Default)]
pub(super) struct Ids<P>(HashMap<String, P>);

impl<P: Copy> Ids<P> {
    /// Notes `id` at `place`; `say` puts a place in words for the error.
    pub(super) fn insert(
        &mut self,
        id: &str,
        place: P,
        path: &Path,
        say: impl Fn(P) -> String,
    ) -> Result<(), DataError> {
        match self.0.entry(id.to_owned()) {
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

/// A line number in words.
pub(super) fn line(number: usize) -> String {
    format!("line {number}")
}
