//! The metadata of the passages in columns: for every value of a field the rows that have it, so that a condition is
//! answered without reading a passage.
//!
//! `metadata.columns`, all numbers little-endian:
//! ```text
//! "DPRMETA1"  u64 rows  u32 fields
//! for each field, in the order of their names:
//!   u8 bytes of the name, the name
//!   u32 different strings  u32 different numbers  u32 different booleans
//!   u64 end of each string, counted from the beginning of the first
//!   the strings, ascending
//!   f64 numbers, ascending
//!   u8 booleans, 0 before 1
//!   u64 end of each posting list, counted from the beginning of the first
//!   the posting lists of the strings, the numbers and the booleans, in their order
//! ```
//! A posting list is u8 0 and up to 8 rows as u32, ascending, or u8 1 and a Roaring bitmap in its portable format. Only
//! an index in which a passage has metadata has the file.

mod digest;
mod field;
mod postings;
mod sort;
mod spool;
mod writer;

use std::path::{Path, PathBuf};

use roaring::RoaringBitmap;

use crate::search::{Condition, SearchError};
use crate::{CancelToken, FileError, Stopped};
use dpr_files::Mapped;
use field::Field;

pub(crate) use digest::ColumnsDigest;
pub(crate) use writer::ColumnsWriter;

const MAGIC: &[u8; 8] = b"DPRMETA1";

/// The columns of an index as it was built, searched in the mapped file.
#[derive(Debug)]
pub(crate) struct Columns {
    path: PathBuf,
    file: Mapped,
    rows: u32,
    /// In the order of their names.
    fields: Vec<Field>,
}

impl Columns {
    /// Takes `file`, the file at `path` for an index of `rows` passages.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] when it is not such a file. Posting lists are looked at when they are read.
    pub(crate) fn open(path: &Path, file: Mapped, rows: usize) -> Result<Self, FileError> {
        let fields = parse(file.bytes(), rows).map_err(|reason| FileError::corrupt(path, reason))?;
        // Opening refuses more rows than u32 counts.
        Ok(Self { path: path.to_path_buf(), file, rows: rows as u32, fields })
    }

    /// Returns the rows for which a condition holds, until `cancel` says to stop.
    ///
    /// # Errors
    /// [`SearchError::File`] when a posting list makes no sense, and [`SearchError::Stopped`].
    pub(crate) fn rows_with(
        &self,
        condition: &Condition,
        cancel: &CancelToken,
    ) -> Result<RoaringBitmap, SearchError> {
        self.find(condition, cancel).map_err(|failure| match failure {
            Unread::Corrupt(reason) => FileError::corrupt(&self.path, reason).into(),
            Unread::Stopped(stopped) => stopped.into(),
        })
    }

    /// Refuses columns that do not hold the values and rows of `passages`, the digest of all passages, and no others.
    ///
    /// # Errors
    /// [`FileError::Corrupt`].
    pub(crate) fn check(&self, passages: ColumnsDigest) -> Result<(), FileError> {
        let bytes = self.file.bytes();
        let digests = self.fields.iter().map(|field| field.digest(bytes, self.rows));
        let digest = digests.reduce(|a, b| Ok(a?.and(b?))).unwrap_or(Ok(ColumnsDigest::default()));
        match digest {
            Ok(digest) if digest == passages => Ok(()),
            Ok(_) => Err(FileError::corrupt(&self.path, "it is not made of the passages")),
            Err(reason) => Err(FileError::corrupt(&self.path, reason)),
        }
    }

    fn find(&self, condition: &Condition, cancel: &CancelToken) -> Result<RoaringBitmap, Unread> {
        cancel.check()?;
        let bytes = self.file.bytes();
        let of_field = |name: &str| {
            let at = self.fields.binary_search_by(|field| field.name().cmp(name));
            at.ok().map(|at| &self.fields[at])
        };
        match condition {
            Condition::Equals { field, value } => match of_field(field) {
                Some(field) => field.rows(bytes, self.rows, field.equal(bytes, value), cancel),
                None => Ok(RoaringBitmap::new()),
            },
            Condition::In { field, values } => {
                let Some(field) = of_field(field) else { return Ok(RoaringBitmap::new()) };
                values.iter().try_fold(RoaringBitmap::new(), |rows, value| {
                    Ok(rows | field.rows(bytes, self.rows, field.equal(bytes, value), cancel)?)
                })
            }
            Condition::Range { field, from, to } => match of_field(field) {
                Some(field) => field.rows(bytes, self.rows, field.between(bytes, from, to), cancel),
                None => Ok(RoaringBitmap::new()),
            },
            Condition::Not(condition) => Ok(all_rows(self.rows) - self.find(condition, cancel)?),
            Condition::And(conditions) => {
                conditions.iter().try_fold(all_rows(self.rows), |rows, condition| {
                    // Nothing can be left of no rows.
                    if rows.is_empty() { Ok(rows) } else { Ok(rows & self.find(condition, cancel)?) }
                })
            }
            Condition::Or(conditions) => conditions
                .iter()
                .try_fold(RoaringBitmap::new(), |rows, condition| Ok(rows | self.find(condition, cancel)?)),
        }
    }
}

/// The reason why rows were not read.
#[derive(Debug)]
enum Unread {
    /// A sentence that says what makes no sense.
    Corrupt(String),
    Stopped(Stopped),
}

impl From<Stopped> for Unread {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

/// Returns the bitmap of all rows of an index.
pub(crate) fn all_rows(rows: u32) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    all.insert_range(0..rows);
    all
}

/// Reads the tables of a file of `rows` rows. The error says what about it makes no sense.
fn parse(bytes: &[u8], rows: usize) -> Result<Vec<Field>, String> {
    let mut input = Input { bytes, at: 0 };
    if input.take(MAGIC.len())? != MAGIC.as_slice() {
        return Err("it does not begin as columns of metadata".to_owned());
    }
    let found = input.u64()?;
    if found != rows as u64 {
        return Err(format!("columns of {found} rows, not {rows}"));
    }
    let mut fields: Vec<Field> = Vec::new();
    for _ in 0..input.u32()? {
        let field = Field::parse(&mut input)?;
        if fields.last().is_some_and(|last| last.name() >= field.name()) {
            return Err("its fields are not in order".to_owned());
        }
        fields.push(field);
    }
    match bytes.len() - input.at {
        0 => Ok(fields),
        more => Err(format!("{more} bytes too many")),
    }
}

/// The part of a file that is left to read.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("it ends within the {count} bytes from byte {} on", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
