//! The writer of the columns, which takes the metadata of the passages in the order of the rows.
//!
//! Values are sorted outside of memory where they are many, and the tables of a field are put together in files, so
//! that the memory of writing does not grow with the passages. Names of fields alone are all kept, as they are when the
//! columns are open.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use dpr_data::{Metadata, Value};

use super::MAGIC;
use super::postings::PostingList;
use super::sort::{BUFFER, Key, Sorter};
use super::spool::Spool;

/// The folder of what is in no memory while columns are written.
const FOLDER: &str = "columns.unsorted";

/// The metadata of passages, to be written by field and value.
#[derive(Debug)]
pub(crate) struct ColumnsWriter {
    rows: u32,
    names: BTreeSet<String>,
    sorter: Sorter,
}

impl ColumnsWriter {
    /// Makes a writer that keeps what is too much for memory in a folder of its own in `dir`, until
    /// [`finish`](Self::finish).
    pub(crate) fn new(dir: &Path) -> Self {
        Self::with_buffer(dir, BUFFER)
    }

    pub(super) fn with_buffer(dir: &Path, bytes: usize) -> Self {
        Self { rows: 0, names: BTreeSet::new(), sorter: Sorter::new(dir.join(FOLDER), bytes) }
    }

    /// Adds the metadata of the next row. There are fewer rows than u32 counts, as building checks.
    pub(crate) fn add(&mut self, metadata: &Metadata) -> io::Result<()> {
        for (name, value) in metadata.iter() {
            if !self.names.contains(name) {
                self.names.insert(name.to_owned());
            }
            self.sorter.add(name, value, self.rows)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns `true` if no row has metadata.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the number of sorted files that were written.
    #[cfg(test)]
    pub(super) fn spilled(&self) -> usize {
        self.sorter.written()
    }

    /// Writes the file.
    pub(crate) fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&u64::from(self.rows).to_le_bytes())?;
        out.write_all(&(self.names.len() as u32).to_le_bytes())?;
        let mut field = FieldWriter::new(self.sorter.folder()?);
        let mut last: Vec<u8> = Vec::new();
        self.sorter.visit(&mut |key, rows| {
            if field.is_of(&key) {
                return field.list.extend(rows);
            }
            field.end_value()?;
            if last != key.name() {
                field.end(out)?;
                last = key.name().to_vec();
            }
            field.begin_value(&key)?;
            field.list.extend(rows)
        })?;
        field.end_value()?;
        field.end(out)
    }

    /// Removes the folder.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.sorter.remove()
    }
}

/// The tables of the field that is being written.
struct FieldWriter {
    name: Vec<u8>,
    /// The key of the value whose rows are collected; empty before the first.
    key: Vec<u8>,
    list: PostingList,
    /// Strings, numbers, booleans.
    counts: [u32; 3],
    text_ends: Ends,
    texts: Spool,
    numbers: Spool,
    booleans: Vec<u8>,
    posting_ends: Ends,
    postings: Spool,
    /// The posting list that is added.
    bytes: Vec<u8>,
}

impl FieldWriter {
    fn new(folder: &Path) -> Self {
        let spool = |name: &str| Spool::new(folder.join(name));
        Self {
            name: Vec::new(),
            key: Vec::new(),
            list: PostingList::default(),
            counts: [0; 3],
            text_ends: Ends { end: 0, spool: spool("text_ends") },
            texts: spool("texts"),
            numbers: spool("numbers"),
            booleans: Vec::new(),
            posting_ends: Ends { end: 0, spool: spool("posting_ends") },
            postings: spool("postings"),
            bytes: Vec::new(),
        }
    }

    /// Returns `true` if the rows of this value are being collected.
    fn is_of(&self, key: &Key<'_>) -> bool {
        self.key == key.bytes()
    }

    /// Begins a value, greater than those before.
    fn begin_value(&mut self, key: &Key<'_>) -> io::Result<()> {
        self.name.clear();
        self.name.extend_from_slice(key.name());
        self.key.clear();
        self.key.extend_from_slice(key.bytes());
        let value = key.value().ok_or_else(|| io::Error::other("a sorted value is not as it was written"))?;
        match value {
            Value::Text(text) => {
                self.counts[0] += 1;
                self.texts.write(text.as_bytes())?;
                self.text_ends.add(text.len())
            }
            Value::Number(number) => {
                self.counts[1] += 1;
                self.numbers.write(&number.get().to_le_bytes())
            }
            Value::Boolean(boolean) => {
                self.counts[2] += 1;
                self.booleans.push(u8::from(boolean));
                Ok(())
            }
        }
    }

    /// Adds the posting list of the value whose rows were collected, if there is one.
    fn end_value(&mut self) -> io::Result<()> {
        if self.key.is_empty() {
            return Ok(());
        }
        self.key.clear();
        self.bytes.clear();
        self.list.write(&mut self.bytes)?;
        self.postings.write(&self.bytes)?;
        self.posting_ends.add(self.bytes.len())
    }

    /// Writes the field, if it has values, and begins another.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.counts == [0; 3] {
            return Ok(());
        }
        // A name has at most 64 bytes.
        out.write_all(&[self.name.len() as u8])?;
        out.write_all(&self.name)?;
        out.write_all(self.counts.map(u32::to_le_bytes).as_flattened())?;
        self.text_ends.pour(out)?;
        self.texts.pour(out)?;
        self.numbers.pour(out)?;
        out.write_all(&self.booleans)?;
        self.posting_ends.pour(out)?;
        self.postings.pour(out)?;
        self.counts = [0; 3];
        self.booleans.clear();
        Ok(())
    }
}

/// The end of each element, counted from the beginning of the first.
struct Ends {
    end: u64,
    spool: Spool,
}

impl Ends {
    fn add(&mut self, length: usize) -> io::Result<()> {
        self.end += length as u64;
        self.spool.write(&self.end.to_le_bytes())
    }

    fn pour(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end = 0;
        self.spool.pour(out)
    }
}
