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
//! table is made when it is first needed, by one thread while the others that need it wait.

mod name;
mod table;
mod titles;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use roaring::RoaringBitmap;
use serde::Deserialize;

use super::columns::{Columns, ColumnsDigest, all_rows};
use super::pointer::{PASSAGES, PASSAGES_TABLE};
use crate::deferred::{CheckedFile, Deferred};
use crate::search::{Condition, SearchError};
use crate::{CancelToken, FileError};
use dpr_data::{Metadata, Passage};
use dpr_files::Mapped;
use name::Name;
pub(crate) use table::TableWriter;
use titles::TitleGroups;

/// Bytes in which a thread looks for line ends.
const PART: usize = 4 << 20;

/// The passages of an index as it was built; row `i` is vector `i`.
#[derive(Debug)]
pub struct StoredPassages {
    path: PathBuf,
    text: CheckedFile,
    count: usize,
    table: Table,
    titles: TitleGroups,
    /// The metadata; `None` where no passage has any.
    columns: Option<Columns>,
}

/// The table of `passages.idx`.
#[derive(Debug)]
enum Table {
    Stored(Mapped),
    Made { starts: Vec<[u8; 8]>, keys: OnceLock<Result<Vec<[u8; 4]>, FileError>> },
}

impl StoredPassages {
    /// Takes the `count` passages of `text`, the file at `path`, `stored`, its `passages.idx` if there is one, and the
    /// metadata of the passages if they have any.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] when the lines are not as many, or the table is not one of such a file. What the lines
    /// say is looked at when they are read.
    pub(crate) fn open(
        path: &Path,
        text: CheckedFile,
        stored: Option<(&Path, Mapped)>,
        count: usize,
        columns: Option<Columns>,
    ) -> Result<Self, FileError> {
        let (checked, table) = match stored {
            Some((path, table)) => (path, Table::Stored(table)),
            None => {
                let starts = line_starts(text.bytes()?).into_iter().map(u64::to_le_bytes).collect();
                (path, Table::Made { starts, keys: OnceLock::new() })
            }
        };
        let titles = TitleGroups::default();
        let passages = Self { path: path.to_path_buf(), text, count, table, titles, columns };
        passages.check_table().map_err(|reason| FileError::corrupt(checked, reason))?;
        Ok(passages)
    }

    /// Returns the check of the passages that was put off, if it was.
    pub(crate) fn put_off_check(&self) -> Option<Arc<Deferred<()>>> {
        self.text.check()
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
        Ok(self.name(row)?.id)
    }

    /// Returns the title of a row's passage.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub fn title(&self, row: usize) -> Result<Cow<'_, str>, FileError> {
        Ok(self.name(row)?.title)
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

    /// Returns the rows of the passages for whose metadata a condition holds, by the stored columns, until `cancel` says
    /// to stop.
    ///
    /// # Errors
    /// [`SearchError::File`] when the columns make no sense, and [`SearchError::Stopped`].
    pub(crate) fn rows_with(
        &self,
        condition: &Condition,
        cancel: &CancelToken,
    ) -> Result<RoaringBitmap, SearchError> {
        match &self.columns {
            Some(columns) => columns.rows_with(condition, cancel),
            // Building and opening refuse more rows than u32 counts.
            None if condition.allows(&Metadata::default()) => Ok(all_rows(self.count as u32)),
            None => Ok(RoaringBitmap::new()),
        }
    }

    /// Reads every line, and checks what is stored about them.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] for the first that is wrong.
    pub(crate) fn check(&self) -> Result<(), FileError> {
        let rows = (0..self.count).into_par_iter().with_min_len(256);
        // Opening refuses more rows than u32 counts.
        let digests = rows.map(|row| Ok(ColumnsDigest::of(row as u32, &self.get(row)?.metadata)));
        self.check_columns(digests.try_reduce(ColumnsDigest::default, |a, b| Ok(a.and(b)))?)?;
        let Table::Stored(table) = &self.table else { return Ok(()) };
        let names = self.names()?;
        let starts = line_starts(self.text.bytes()?);
        if table.bytes() == encode(&starts, &keys(&names, true)).as_slice() {
            return Ok(());
        }
        let path = self.path.with_file_name(PASSAGES_TABLE);
        Err(FileError::corrupt(&path, format!("it is not made of the lines of {PASSAGES}")))
    }

    /// Checks that the columns hold the metadata of the passages, which have this digest.
    fn check_columns(&self, passages: ColumnsDigest) -> Result<(), FileError> {
        match &self.columns {
            Some(columns) => columns.check(passages),
            None if passages != ColumnsDigest::default() => {
                Err(FileError::corrupt(&self.path, "its metadata is in no columns"))
            }
            None => Ok(()),
        }
    }

    /// Returns the bytes of `passages.idx`.
    ///
    /// # Errors
    /// As [`StoredPassages::get`].
    pub(crate) fn table(&self) -> Result<Vec<u8>, FileError> {
        Ok([self.starts().as_flattened(), self.keys()?.as_flattened()].concat())
    }

    fn line(&self, row: usize) -> Result<Option<&[u8]>, FileError> {
        let text = self.text.bytes()?;
        let line = || {
            let ends = self.starts().get(row..row.checked_add(2)?)?;
            let [start, end] = [ends[0], ends[1]].map(|at| usize::try_from(u64::from_le_bytes(at)).ok());
            text.get(start?..end?)
        };
        Ok(line())
    }

    fn parse<'a, T: Deserialize<'a>>(&'a self, row: usize) -> Result<T, FileError> {
        let Some(line) = self.line(row)? else {
            return Err(FileError::corrupt(&self.path, format!("it has no line {}", row.saturating_add(1))));
        };
        serde_json::from_slice(line)
            .map_err(|e| FileError::corrupt(&self.path, format!("line {}: {e}", row + 1)))
    }

    /// Reads the id and the title of a row, without the rest of its line where its form allows that.
    fn name(&self, row: usize) -> Result<Name<'_>, FileError> {
        match self.line(row)?.and_then(Name::of_line_start) {
            Some(name) => Ok(name),
            None => self.parse(row),
        }
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
            // On this thread alone: whoever waited here for other threads could keep them from running.
            Table::Made { keys: made, .. } => {
                let names = || (0..self.count).map(|row| self.name(row)).collect::<Result<Vec<_>, _>>();
                let keys = made.get_or_init(|| Ok(keys(&names()?, false)));
                keys.as_deref().map_err(Clone::clone)
            }
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
        if !ascends || ends != [0, self.text.len() as u64] {
            return Err("its lines are not those of the passages".to_owned());
        }
        Ok(())
    }
}

/// Returns the size in bytes of the table of `count` passages.
fn size(count: usize) -> Option<usize> {
    count.checked_mul(16)?.checked_add(8)
}

fn encode(starts: &[u64], keys: &[[u8; 4]]) -> Vec<u8> {
    starts.iter().flat_map(|start| start.to_le_bytes()).chain(keys.as_flattened().iter().copied()).collect()
}

/// Returns the rows in the order of their ids, and then the hashes of the titles. Sorts on all threads or on this one.
fn keys(names: &[Name<'_>], on_all_threads: bool) -> Vec<[u8; 4]> {
    // Building and opening refuse more rows than u32 counts.
    let mut by_id: Vec<u32> = (0..names.len() as u32).collect();
    if on_all_threads {
        by_id.par_sort_unstable_by_key(|row| names[*row as usize].id.as_ref());
    } else {
        by_id.sort_unstable_by_key(|row| names[*row as usize].id.as_ref());
    }
    by_id.iter().map(|row| row.to_le_bytes()).chain(names.iter().map(|name| sum(&name.title))).collect()
}

/// Computes the hash of a title; titles whose hashes collide are told apart by reading them.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The passages as an index holds them, with `passages.idx` or, as in older formats, without.
    pub(super) fn stored(passages: &[Passage], with_table: bool) -> StoredPassages {
        let dir = tempfile::tempdir().unwrap();
        let [path, table_path] = ["passages.jsonl", "passages.idx"].map(|name| dir.path().join(name));
        let mut file = fs_err::File::create(&path).unwrap();
        let starts = dpr_data::write_passages(passages, &mut file).unwrap();
        let mut table = TableWriter::new(passages.len());
        for (passage, line) in passages.iter().zip(starts.windows(2)) {
            table.add(passage, (line[1] - line[0]) as usize);
        }
        table.write(&table.rows_by_id(), &mut fs_err::File::create(&table_path).unwrap()).unwrap();
        let table = with_table.then(|| (table_path.as_path(), Mapped::open(&table_path).unwrap()));
        let text = CheckedFile::checked(Mapped::open(&path).unwrap());
        StoredPassages::open(&path, text, table, passages.len(), None).unwrap()
    }

    #[test]
    fn rows_are_found_by_id_whatever_is_in_it_and_with_and_without_a_table() {
        let ids = ["b", "a", "quo\"ted", "ü", "", "a\\b", "zz", "tab\t"];
        let passages = ids.map(|id| Passage::new(id, "A \"title\"", "Text."));
        for with_table in [true, false] {
            let stored = stored(&passages, with_table);
            for (row, id) in ids.iter().enumerate() {
                assert_eq!(stored.row_of(id).unwrap(), Some(row), "{id:?}");
                let names = [stored.id(row).unwrap(), stored.title(row).unwrap()];
                assert_eq!(names, [*id, "A \"title\""]);
            }
            assert_eq!(stored.row_of("c").unwrap(), None);
            stored.check().unwrap();
        }
    }

    #[test]
    fn a_table_that_is_missing_is_made_once_by_all_that_need_it() {
        let passages: Vec<Passage> =
            (0..500).map(|row| Passage::new(format!("p{row}"), "T", "Text.")).collect();
        let stored = stored(&passages, false);
        let found = std::thread::scope(|scope| {
            let threads = [7, 99, 250, 499].map(|row| {
                let stored = &stored;
                scope.spawn(move || {
                    (stored.row_of(&format!("p{row}")).unwrap(), stored.keys().unwrap().as_ptr() as usize)
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(found.map(|(row, _)| row), [7, 99, 250, 499].map(Some));
        assert!(found.iter().all(|(_, keys)| *keys == found[0].1), "one table");
    }

    #[test]
    fn metadata_without_columns_is_told() {
        let metadata = Metadata::new([("a", 1)]).unwrap();
        let passages = [Passage::new("1", "", "Text.").with_metadata(metadata)];
        let error = stored(&passages, true).check().unwrap_err();
        assert!(error.to_string().contains("in no columns"), "{error}");
    }
}
