//! The passages of an index, parsed from its mapped files one by one.
//!
//! `passages.jsonl` holds an object a line, and `passages.idx` the table by which one is found without reading the
//! others; all its numbers are little-endian, for `n` passages:
//! ```text
//! u64 where each line begins, and where the last one ends   (n + 1)
//! u32 rows in the order of their ids' bytes                 (n)
//! u32 CRC-32 of each title                                  (n)
//! ```
//! Formats before the third have no such file: lines are then looked for when an index is opened, and the rest of the
//! table is made when it is first needed.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rayon::prelude::*;
use serde::Deserialize;

use crate::FileError;
use dpr_data::Passage;
use dpr_files::Mapped;

/// Bytes in which a thread looks for line ends.
const PART: usize = 4 << 20;

/// The passages of an index as it was built; row `i` is vector `i`.
#[derive(Debug)]
pub struct StoredPassages {
    path: PathBuf,
    text: Mapped,
    count: usize,
    table: Table,
}

/// The table of `passages.idx`.
#[derive(Debug)]
enum Table {
    Stored(Mapped),
    Made { starts: Vec<[u8; 8]>, keys: OnceLock<Vec<[u8; 4]>> },
}

/// The id and the title of a passage: all that the table is made of.
#[derive(Deserialize)]
struct Name<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    title: Cow<'a, str>,
}

impl<'a> Name<'a> {
    fn of(passage: &'a Passage) -> Self {
        Self { id: Cow::Borrowed(&passage.id), title: Cow::Borrowed(&passage.title) }
    }
}

impl StoredPassages {
    /// Takes the `count` passages of `text`, the file at `path`, and `stored`, its `passages.idx` if there is one.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] when the lines are not as many, or the table is not one of such a file. What the lines
    /// say is looked at when they are read.
    pub(crate) fn open(
        path: &Path,
        text: Mapped,
        stored: Option<(&Path, Mapped)>,
        count: usize,
    ) -> Result<Self, FileError> {
        let (checked, table) = match stored {
            Some((path, table)) => (path, Table::Stored(table)),
            None => {
                let starts = line_starts(text.bytes()).into_iter().map(u64::to_le_bytes).collect();
                (path, Table::Made { starts, keys: OnceLock::new() })
            }
        };
        let passages = Self { path: path.to_path_buf(), text, count, table };
        passages.check_table().map_err(|reason| FileError::corrupt(checked, reason))?;
        Ok(passages)
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are no passages; an index is never empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the passage of a row.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] when there is no such row, or its line is not a passage.
    pub fn get(&self, row: usize) -> Result<Passage, FileError> {
        self.parse(row)
    }

    /// Returns the id of a row's passage.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub fn id(&self, row: usize) -> Result<Cow<'_, str>, FileError> {
        Ok(self.parse::<Name<'_>>(row)?.id)
    }

    /// Reads all passages on all threads, and returns them in the order of the rows.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub fn read_all(&self) -> Result<Vec<Passage>, FileError> {
        (0..self.count).into_par_iter().with_min_len(256).map(|row| self.get(row)).collect()
    }

    /// Returns the row of the passage with this id.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub fn row_of(&self, id: &str) -> Result<Option<usize>, FileError> {
        let by_id = &self.keys()?[..self.count];
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = usize::midpoint(from, to);
            let row = u32::from_le_bytes(by_id[middle]) as usize;
            match self.id(row)?.as_ref().cmp(id) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(row)),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Ok(None)
    }

    /// Returns the rows of all passages with one of these titles, ascending, and possibly a few others (titles are
    /// compared by hash).
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub fn rows_like_titles(&self, titles: &HashSet<String>) -> Result<Vec<usize>, FileError> {
        let sums: HashSet<[u8; 4]> = titles.iter().map(|title| sum(title)).collect();
        let stored = &self.keys()?[self.count..];
        Ok((0..self.count).filter(|row| sums.contains(&stored[*row])).collect())
    }

    /// Reads every line, and checks what is stored about them.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] for the first that is wrong.
    pub(crate) fn check(&self) -> Result<(), FileError> {
        (0..self.count).into_par_iter().with_min_len(256).try_for_each(|row| self.get(row).map(drop))?;
        let Table::Stored(table) = &self.table else { return Ok(()) };
        let names = self.names()?;
        let starts = line_starts(self.text.bytes());
        if table.bytes() == encode(&starts, &keys(&names)).as_slice() {
            return Ok(());
        }
        Err(FileError::corrupt(&self.path, "what passages.idx says of it is not so"))
    }

    /// Returns the bytes of `passages.idx`.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub(crate) fn table(&self) -> Result<Vec<u8>, FileError> {
        Ok([self.starts().as_flattened(), self.keys()?.as_flattened()].concat())
    }

    fn line(&self, row: usize) -> Option<&[u8]> {
        let ends = self.starts().get(row..row.checked_add(2)?)?;
        let [start, end] = [ends[0], ends[1]].map(|at| usize::try_from(u64::from_le_bytes(at)).ok());
        self.text.bytes().get(start?..end?)
    }

    fn parse<'a, T: Deserialize<'a>>(&'a self, row: usize) -> Result<T, FileError> {
        let Some(line) = self.line(row) else {
            return Err(FileError::corrupt(&self.path, format!("it has no line {}", row.saturating_add(1))));
        };
        serde_json::from_slice(line)
            .map_err(|e| FileError::corrupt(&self.path, format!("line {}: {e}", row + 1)))
    }

    fn starts(&self) -> &[[u8; 8]] {
        match &self.table {
            Table::Stored(table) => &table.bytes().as_chunks().0[..=self.count],
            Table::Made { starts, .. } => starts,
        }
    }

    /// Returns the rows in the order of their ids, and then the hashes of the titles.
    fn keys(&self) -> Result<&[[u8; 4]], FileError> {
        match &self.table {
            Table::Stored(table) => Ok(table.bytes()[(self.count + 1) * 8..].as_chunks().0),
            Table::Made { keys: made, .. } => match made.get() {
                Some(keys) => Ok(keys),
                None => {
                    let keys = keys(&self.names()?);
                    Ok(made.get_or_init(|| keys))
                }
            },
        }
    }

    fn names(&self) -> Result<Vec<Name<'_>>, FileError> {
        (0..self.count).into_par_iter().with_min_len(256).map(|row| self.parse(row)).collect()
    }

    /// Checks that every entry of the table is within the file, so that later reads by it are.
    fn check_table(&self) -> Result<(), String> {
        let count = self.count;
        if let Table::Stored(table) = &self.table {
            let (got, expected) = (table.bytes().len(), size(count));
            if Some(got) != expected {
                return Err(format!("it has {got} bytes, which is not right for {count} passages"));
            }
            if table.bytes()[(count + 1) * 8..].as_chunks().0[..count]
                .iter()
                .any(|row| u32::from_le_bytes(*row) as usize >= count)
            {
                return Err(format!("it names a row beyond its {count}"));
            }
        }
        let starts = self.starts();
        if starts.len() != count + 1 {
            return Err(format!("{} passages, but {count} vectors", starts.len() - 1));
        }
        let ascends = starts.is_sorted_by(|a, b| u64::from_le_bytes(*a) < u64::from_le_bytes(*b));
        let ends = [starts[0], starts[count]].map(u64::from_le_bytes);
        if !ascends || ends != [0, self.text.bytes().len() as u64] {
            return Err("its lines are not those of the passages".to_owned());
        }
        Ok(())
    }
}

/// Returns the size in bytes of the table of `count` passages.
fn size(count: usize) -> Option<usize> {
    count.checked_mul(16)?.checked_add(8)
}

/// Writes `passages.idx` for passages whose lines begin at `starts`, and end at the last of them.
pub(crate) fn write_table(starts: &[u64], passages: &[Passage], out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<Name<'_>> = passages.iter().map(Name::of).collect();
    out.write_all(&encode(starts, &keys(&names)))
}

fn encode(starts: &[u64], keys: &[[u8; 4]]) -> Vec<u8> {
    starts.iter().flat_map(|start| start.to_le_bytes()).chain(keys.as_flattened().iter().copied()).collect()
}

fn keys(names: &[Name<'_>]) -> Vec<[u8; 4]> {
    // Building and opening refuse more rows than u32 counts.
    let mut by_id: Vec<u32> = (0..names.len() as u32).collect();
    by_id.par_sort_unstable_by_key(|row| names[*row as usize].id.as_ref());
    by_id.iter().map(|row| row.to_le_bytes()).chain(names.iter().map(|name| sum(&name.title))).collect()
}

/// Computes the hash of a title; collisions are resolved by reading the passage.
fn sum(title: &str) -> [u8; 4] {
    crc32fast::hash(title.as_bytes()).to_le_bytes()
}

/// Returns the position of each line, and the end of the last one.
fn line_starts(text: &[u8]) -> Vec<u64> {
    let ends_in = |(part, bytes): (usize, &[u8])| -> Vec<u64> {
        memchr::memchr_iter(b'\n', bytes).map(|at| (part * PART + at + 1) as u64).collect()
    };
    let ends: Vec<Vec<u64>> = text.par_chunks(PART).enumerate().map(ends_in).collect();
    let mut starts = vec![0];
    starts.extend(ends.into_iter().flatten());
    // The last line need not end in one.
    if starts.last() != Some(&(text.len() as u64)) {
        starts.push(text.len() as u64);
    }
    starts
}
