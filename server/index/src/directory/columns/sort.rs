//! The values of all passages, sorted by field and value: in memory up to a limit, and beyond it in sorted files (runs)
//! that are merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use dpr_data::{Number, Value};
use fs_err as fs;

/// Bytes of values and their rows that are sorted in memory.
pub(super) const BUFFER: usize = 32 << 20;

/// Runs that are merged at a time: each is an open file.
const MAX_RUNS: usize = 64;

/// Rows of one value that are read or given at a time.
const CHUNK: usize = 4096;

const TEXT: u8 = 0;
const NUMBER: u8 = 1;
const BOOLEAN: u8 = 2;

/// A field and a value, as bytes: the length of the field's name, the name, the kind of the value, and the value in a
/// form whose bytes are in the order of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// Appends the key of a value. A name has at most 64 bytes.
    fn write(name: &str, value: &Value, out: &mut Vec<u8>) {
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        match value {
            Value::Text(text) => {
                out.push(TEXT);
                out.extend_from_slice(text.as_bytes());
            }
            Value::Number(number) => {
                let bits = number.get().to_bits();
                // Greater numbers have greater bits, negative ones the other way round.
                let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
                out.push(NUMBER);
                out.extend(ordered.to_be_bytes());
            }
            Value::Boolean(boolean) => out.extend([BOOLEAN, u8::from(*boolean)]),
        }
    }

    /// Returns the name of the field, and the kind and the bytes of the value.
    fn parts(self) -> (&'a [u8], &'a [u8]) {
        match self.0.split_first() {
            Some((length, rest)) => rest.split_at_checked(usize::from(*length)).unwrap_or((rest, &[])),
            None => (&[], &[]),
        }
    }

    /// Returns all of its bytes.
    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the name of the field.
    pub(super) fn name(self) -> &'a [u8] {
        self.parts().0
    }

    /// Returns the value; `None` for bytes that are not a key.
    pub(super) fn value(self) -> Option<Value> {
        let (kind, bytes) = self.parts().1.split_first()?;
        Some(match *kind {
            TEXT => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
            NUMBER => {
                let ordered = u64::from_be_bytes(bytes.try_into().ok()?);
                let bits = if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered };
                Value::Number(Number::new(f64::from_bits(bits))?)
            }
            BOOLEAN => Value::Boolean(*bytes.first()? == 1),
            _ => return None,
        })
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A row that has a value: the range of the value's key, and the row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    end: u32,
    row: u32,
}

/// Sorts the values of rows that are added in ascending order.
#[derive(Debug)]
pub(super) struct Sorter {
    /// The folder of the runs, made when there is one.
    dir: PathBuf,
    limit: usize,
    keys: Vec<u8>,
    entries: Vec<Entry>,
    /// In the order of their rows.
    runs: Vec<PathBuf>,
    /// Runs written so far, merged ones included.
    written: usize,
}

impl Sorter {
    /// Keeps about `limit` bytes in memory, below 2 GB, and the others in the folder `dir`, which must not be there.
    pub(super) fn new(dir: PathBuf, limit: usize) -> Self {
        Self { dir, limit, keys: Vec::new(), entries: Vec::new(), runs: Vec::new(), written: 0 }
    }

    /// Adds a row's value of a field.
    pub(super) fn add(&mut self, name: &str, value: &Value, row: u32) -> io::Result<()> {
        let start = self.keys.len() as u32;
        Key::write(name, value, &mut self.keys);
        self.entries.push(Entry { start, end: self.keys.len() as u32, row });
        if self.keys.len() + size_of_val(self.entries.as_slice()) >= self.limit {
            self.spill()?;
        }
        Ok(())
    }

    /// Returns the number of runs that were written.
    #[cfg(test)]
    pub(super) fn written(&self) -> usize {
        self.written
    }

    fn sort(&mut self) {
        let keys = self.keys.as_slice();
        self.entries.sort_unstable_by(|a, b| key(keys, a).cmp(&key(keys, b)).then(a.row.cmp(&b.row)));
    }

    /// Writes what is in memory as a run, and merges the runs into one when there are many.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let memory = Source::Memory { keys: &self.keys, entries: &self.entries, at: 0 };
        let run = write_run(&self.dir, self.written, vec![memory])?;
        self.runs.push(run);
        self.written += 1;
        self.keys.clear();
        self.entries.clear();
        if self.runs.len() == MAX_RUNS {
            let sources = self.runs.iter().map(|run| Source::open(run)).collect::<io::Result<_>>()?;
            let merged = write_run(&self.dir, self.written, sources)?;
            self.written += 1;
            self.runs.iter().try_for_each(fs::remove_file)?;
            self.runs = vec![merged];
        }
        Ok(())
    }

    /// Gives every value with its rows to `visit`, in the order of the fields' names, the values and the rows; a value
    /// of many rows several times, one after the other.
    pub(super) fn visit(
        &mut self,
        visit: &mut dyn FnMut(Key<'_>, &[u32]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.sort();
        let mut sources = self.runs.iter().map(|run| Source::open(run)).collect::<io::Result<Vec<_>>>()?;
        sources.push(Source::Memory { keys: &self.keys, entries: &self.entries, at: 0 });
        merge(sources, visit)
    }

    /// Returns the folder, and makes it if it is not there.
    pub(super) fn folder(&self) -> io::Result<&Path> {
        fs::create_dir_all(&self.dir)?;
        Ok(&self.dir)
    }

    /// Removes the folder.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.runs.clear();
        if self.dir.exists() { fs::remove_dir_all(&self.dir) } else { Ok(()) }
    }
}

impl Drop for Sorter {
    fn drop(&mut self) {
        // After `remove` there is nothing left; otherwise the build has failed already, and its folder goes too.
        let _ = self.remove();
    }
}

fn key<'a>(keys: &'a [u8], entry: &Entry) -> Key<'a> {
    Key(&keys[entry.start as usize..entry.end as usize])
}

/// Writes sorted values as a file of records: u32 bytes of the key, the key, u32 number of rows, the rows as u32.
fn write_run(dir: &Path, number: usize, sources: Vec<Source<'_>>) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let path = dir.join(format!("run-{number}"));
    let mut out = BufWriter::with_capacity(1 << 20, fs::File::create_new(&path)?);
    merge(sources, &mut |key, rows| {
        out.write_all(&(key.0.len() as u32).to_le_bytes())?;
        out.write_all(key.0)?;
        out.write_all(&(rows.len() as u32).to_le_bytes())?;
        rows.iter().try_for_each(|row| out.write_all(&row.to_le_bytes()))
    })?;
    out.flush()?;
    Ok(path)
}

/// Sorted values: those in memory, or a run.
enum Source<'a> {
    Memory { keys: &'a [u8], entries: &'a [Entry], at: usize },
    Run(BufReader<fs::File>),
}

/// A value of a source, with some of its rows.
#[derive(Default)]
struct Record {
    key: Vec<u8>,
    rows: Vec<u32>,
}

impl Source<'_> {
    fn open(run: &Path) -> io::Result<Self> {
        Ok(Self::Run(BufReader::with_capacity(64 << 10, fs::File::open(run)?)))
    }

    /// Reads the next record; `false` at the end.
    fn read(&mut self, record: &mut Record) -> io::Result<bool> {
        record.key.clear();
        record.rows.clear();
        match self {
            Self::Memory { keys, entries, at } => {
                let Some(first) = entries.get(*at) else { return Ok(false) };
                let of_value = key(keys, first);
                record.key.extend_from_slice(of_value.0);
                let rest = entries[*at..].iter().take(CHUNK);
                record
                    .rows
                    .extend(rest.take_while(|entry| key(keys, entry) == of_value).map(|entry| entry.row));
                *at += record.rows.len();
            }
            Self::Run(file) => {
                let mut number = [0; 4];
                if file.read(&mut number[..1])? == 0 {
                    return Ok(false);
                }
                file.read_exact(&mut number[1..])?;
                record.key.resize(u32::from_le_bytes(number) as usize, 0);
                file.read_exact(&mut record.key)?;
                file.read_exact(&mut number)?;
                for _ in 0..u32::from_le_bytes(number) {
                    let mut row = [0; 4];
                    file.read_exact(&mut row)?;
                    record.rows.push(u32::from_le_bytes(row));
                }
            }
        }
        Ok(true)
    }
}

/// The next record of a source; the greater one comes first.
struct Head {
    record: Record,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of one value the source before has the lower rows.
        Key(&other.record.key).cmp(&Key(&self.record.key)).then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// Gives the records of all sources to `visit` in their order.
fn merge(
    mut sources: Vec<Source<'_>>,
    visit: &mut dyn FnMut(Key<'_>, &[u32]) -> io::Result<()>,
) -> io::Result<()> {
    let mut heads = BinaryHeap::with_capacity(sources.len());
    for (source, from) in sources.iter_mut().enumerate() {
        let mut record = Record::default();
        if from.read(&mut record)? {
            heads.push(Head { record, source });
        }
    }
    while let Some(Head { mut record, source }) = heads.pop() {
        visit(Key(&record.key), &record.rows)?;
        if sources[source].read(&mut record)? {
            heads.push(Head { record, source });
        }
    }
    Ok(())
}
