//! The writer of `passages.idx`, which takes the passages one after the other.

use std::io::{self, Write};

use rayon::prelude::*;

use super::sum;
use dpr_data::Passage;

/// Numbers that are written at a time.
const NUMBERS: usize = 4096;

/// The table of passages that are being written: in memory are 24 bytes and the id of each.
#[derive(Debug)]
pub(crate) struct TableWriter {
    /// The position of each line, and the end of the last one.
    starts: Vec<u64>,
    /// All ids, without anything between them.
    ids: Vec<u8>,
    /// The end of each id.
    id_ends: Vec<usize>,
    /// The hash of each title.
    titles: Vec<[u8; 4]>,
}

impl TableWriter {
    /// Makes the table of `count` passages that are to be added.
    pub(crate) fn new(count: usize) -> Self {
        let mut starts = Vec::with_capacity(count + 1);
        starts.push(0);
        let (id_ends, titles) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Self { starts, ids: Vec::new(), id_ends, titles }
    }

    /// Adds the next passage, whose line has `bytes` bytes.
    pub(crate) fn add(&mut self, passage: &Passage, bytes: usize) {
        let start = self.starts.last().copied().unwrap_or(0);
        self.starts.push(start + bytes as u64);
        self.ids.extend_from_slice(passage.id.as_bytes());
        self.id_ends.push(self.ids.len());
        self.titles.push(sum(&passage.title));
    }

    /// Returns the number of passages.
    pub(crate) fn len(&self) -> usize {
        self.id_ends.len()
    }

    /// Returns the rows in the order of their ids, equal ones by row.
    pub(crate) fn rows_by_id(&self) -> Vec<u32> {
        // Building refuses more rows than u32 counts.
        let mut by_id: Vec<u32> = (0..self.len() as u32).collect();
        by_id.par_sort_unstable_by_key(|row| (self.id(*row as usize), *row));
        by_id
    }

    /// Returns the first passage whose id is that of an earlier one: the id, and both rows. `by_id` are the rows in the
    /// order of their ids.
    pub(crate) fn duplicate(&self, by_id: &[u32]) -> Option<(String, usize, usize)> {
        let ids = by_id.windows(2).map(|pair| [pair[0] as usize, pair[1] as usize]);
        let equal = ids.filter(|[first, second]| self.id(*first) == self.id(*second));
        let [first, second] = equal.min_by_key(|[_, second]| *second)?;
        Some((String::from_utf8_lossy(self.id(first)).into_owned(), first, second))
    }

    /// Writes the file. `by_id` are the rows in the order of their ids.
    pub(crate) fn write(&self, by_id: &[u32], out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(NUMBERS * size_of::<u64>());
        for starts in self.starts.chunks(NUMBERS) {
            bytes.clear();
            bytes.extend(starts.iter().flat_map(|start| start.to_le_bytes()));
            out.write_all(&bytes)?;
        }
        for rows in by_id.chunks(NUMBERS) {
            bytes.clear();
            bytes.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
            out.write_all(&bytes)?;
        }
        out.write_all(self.titles.as_flattened())
    }

    fn id(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.id_ends[before]);
        &self.ids[start..self.id_ends[row]]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Name, encode, keys};
    use super::*;

    #[test]
    fn the_table_that_is_written_is_the_one_that_reading_the_lines_makes() {
        let ids = ["b", "a", "quo\"ted", "ü", "", "a\\b", "zz", "tab\t", "ab", "a\u{0}"];
        let passages: Vec<Passage> = (0..5000)
            .map(|row| {
                Passage::new(format!("{}{}", ids[row % ids.len()], row / ids.len()), ids[row % 7], "T")
            })
            .collect();
        let mut table = TableWriter::new(passages.len());
        let mut starts = vec![0];
        for (row, passage) in passages.iter().enumerate() {
            table.add(passage, row % 300);
            starts.push(starts[row] + (row % 300) as u64);
        }
        let mut written = Vec::new();
        table.write(&table.rows_by_id(), &mut written).unwrap();
        let names: Vec<Name<'_>> = passages.iter().map(Name::of).collect();
        assert_eq!(written, encode(&starts, &keys(&names, true)));
    }
}
