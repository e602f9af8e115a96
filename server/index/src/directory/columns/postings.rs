//! Posting lists: the rows that have a value, as a few numbers or as a Roaring bitmap.

use std::io;

use roaring::RoaringBitmap;

use crate::RowSet;

/// Most rows that are written as numbers: up to here they take fewer bytes than a bitmap.
const FEW: usize = 8;

const NUMBERS: u8 = 0;
const BITMAP: u8 = 1;

/// Rows of short posting lists from which on they are put together in a bitmap of all rows.
const MANY: usize = 4096;

/// A posting list that is being made.
#[derive(Debug, Default)]
pub(super) struct PostingList {
    /// The rows, while there are few; then none.
    few: Vec<u32>,
    bitmap: RoaringBitmap,
}

impl PostingList {
    /// Adds rows, ascending and after those before.
    pub(super) fn extend(&mut self, rows: &[u32]) -> io::Result<()> {
        if self.bitmap.is_empty() && self.few.len() + rows.len() <= FEW {
            self.few.extend(rows);
            return Ok(());
        }
        let rows = self.few.drain(..).chain(rows.iter().copied());
        self.bitmap.append(rows).map(drop).map_err(io::Error::other)
    }

    /// Appends the list's bytes, and begins another.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.bitmap.is_empty() {
            out.push(NUMBERS);
            out.extend(self.few.drain(..).flat_map(u32::to_le_bytes));
            return Ok(());
        }
        self.bitmap.optimize();
        out.push(BITMAP);
        std::mem::take(&mut self.bitmap).serialize_into(out)
    }
}

/// Reads a posting list of an index of `count` rows. The error says what about it makes no sense.
pub(super) fn read(bytes: &[u8], count: u32) -> Result<RoaringBitmap, String> {
    let mut union = Union::new(count);
    union.add(bytes)?;
    Ok(union.into_rows())
}

/// The union of posting lists.
pub(super) struct Union {
    count: u32,
    bitmaps: RoaringBitmap,
    /// Rows of lists of numbers, in no order.
    numbers: Vec<u32>,
}

impl Union {
    /// Begins with no rows of `count`.
    pub(super) fn new(count: u32) -> Self {
        Self { count, bitmaps: RoaringBitmap::new(), numbers: Vec::new() }
    }

    /// Adds a posting list. The error says what about it makes no sense.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some((form, bytes)) = bytes.split_first() else { return Err("it is empty".to_owned()) };
        let greatest = match *form {
            NUMBERS => {
                let (rows, rest) = bytes.as_chunks();
                let rows = rows.iter().map(|row| u32::from_le_bytes(*row));
                if !rest.is_empty()
                    || !(1..=FEW).contains(&rows.len())
                    || !rows.clone().is_sorted_by(|a, b| a < b)
                {
                    return Err("its rows are not in order".to_owned());
                }
                let greatest = rows.clone().next_back();
                self.numbers.extend(rows);
                greatest
            }
            BITMAP => {
                let mut rest = bytes;
                let bitmap = RoaringBitmap::deserialize_from(&mut rest).map_err(|error| error.to_string())?;
                if !rest.is_empty() {
                    return Err(format!("{} bytes too many", rest.len()));
                }
                let greatest = bitmap.max();
                self.bitmaps |= bitmap;
                greatest
            }
            other => return Err(format!("its form {other} is not known")),
        };
        match greatest {
            Some(greatest) if greatest < self.count => Ok(()),
            Some(greatest) => Err(format!("row {greatest} of {}", self.count)),
            None => Err("it has no rows".to_owned()),
        }
    }

    /// Returns all rows.
    pub(super) fn into_rows(self) -> RoaringBitmap {
        let Self { count, mut bitmaps, numbers } = self;
        if numbers.len() < MANY {
            bitmaps.extend(numbers);
            return bitmaps;
        }
        let mut rows = RowSet::none(count as usize);
        for row in numbers {
            rows.insert(row as usize);
        }
        bitmaps | RoaringBitmap::from_lsb0_bytes(0, &rows.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends the posting list of rows that come in parts.
    fn write(rows: &[u32], out: &mut Vec<u8>) -> io::Result<()> {
        let mut list = PostingList::default();
        rows.chunks(7).try_for_each(|rows| list.extend(rows))?;
        list.write(out)
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        for rows in
            [vec![0], vec![7, 70_000], (0..8).collect(), (0..9).collect(), (0..100_000).step_by(3).collect()]
        {
            let mut bytes = Vec::new();
            write(&rows, &mut bytes).unwrap();
            assert!(read(&bytes, 100_000).unwrap().iter().eq(rows.iter().copied()));
            assert!(read(&bytes, rows[rows.len() - 1]).is_err(), "a row beyond the index");
        }
    }

    #[test]
    fn many_short_lists_are_the_same_together_as_few() {
        let count = 3 * MANY as u32;
        let mut union = Union::new(count);
        let rows: Vec<u32> = (0..count).filter(|row| row % 3 != 1).collect();
        for row in rows.iter().rev() {
            let mut bytes = Vec::new();
            write(&[*row], &mut bytes).unwrap();
            union.add(&bytes).unwrap();
        }
        assert!(union.numbers.len() > MANY);
        assert!(union.into_rows().iter().eq(rows));
    }

    #[test]
    fn any_cut_is_refused_and_no_flipped_bit_gives_a_row_beyond_the_index() {
        for rows in [vec![3, 9], (0..60).step_by(2).collect::<Vec<u32>>(), (10..90).collect()] {
            let mut bytes = Vec::new();
            write(&rows, &mut bytes).unwrap();
            for end in 0..bytes.len() {
                // A list of fewer numbers is a list too.
                let read = read(&bytes[..end], 100);
                assert!(read.is_err() || bytes[0] == NUMBERS && end % 4 == 1, "cut at {end}");
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                if let Ok(read) = read(&flipped, 100) {
                    assert!(read.max().is_some_and(|row| row < 100), "bit {bit}");
                }
            }
        }
        assert!(
            read(&[], 10).is_err() && read(&[NUMBERS], 10).is_err() && read(&[2, 0, 0, 0, 0], 10).is_err()
        );
    }
}
