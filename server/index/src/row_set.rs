//! Sets of rows as bitmaps: the rows that a filter allows, and the rows that were not deleted.

use std::ops::Range;

use roaring::RoaringBitmap;

/// A bitmap over the rows of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
    count: usize,
    rows: usize,
}

impl RowSet {
    /// Returns the empty set over an index of `rows` rows.
    pub fn none(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], count: 0, rows }
    }

    /// Returns the set of all `rows` rows of an index.
    pub fn all(rows: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; rows.div_ceil(64)], count: rows, rows };
        if let (Some(last), 1..) = (set.words.last_mut(), rows % 64) {
            *last = (1 << (rows % 64)) - 1;
        }
        set
    }

    /// Grows the index by `more` rows, which are in the set.
    pub fn extend(&mut self, more: usize) {
        let from = self.rows;
        self.rows += more;
        self.words.resize(self.rows.div_ceil(64), 0);
        for row in from..self.rows {
            self.insert(row);
        }
    }

    /// Grows the index by `more` rows, which are not in the set.
    pub(crate) fn extend_without(&mut self, more: usize) {
        self.rows += more;
        self.words.resize(self.rows.div_ceil(64), 0);
    }

    /// Returns the number of rows of the index, in the set or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row and returns `true` if it was not in the set. Rows beyond the index are not added.
    pub fn insert(&mut self, row: usize) -> bool {
        let is_new = row < self.rows && !self.contains(row);
        if is_new {
            self.words[row / 64] |= 1 << (row % 64);
            self.count += 1;
        }
        is_new
    }

    /// Adds all rows of a range; those beyond the index are not added.
    pub(crate) fn insert_range(&mut self, rows: Range<usize>) {
        let (mut row, end) = (rows.start, rows.end.min(self.rows));
        while row < end {
            let (bit, bits) = (row % 64, (64 - row % 64).min(end - row));
            let mask = u64::MAX >> (64 - bits) << bit;
            let word = &mut self.words[row / 64];
            self.count += (mask & !*word).count_ones() as usize;
            *word |= mask;
            row += bits;
        }
    }

    /// Adds the rows of a bitmap; those beyond the index are not added.
    pub(crate) fn insert_bitmap(&mut self, rows: &RoaringBitmap) {
        let mut rows = rows.iter();
        while let Some(range) = rows.next_range() {
            let (first, last) = range.into_inner();
            self.insert_range(first as usize..last as usize + 1);
        }
    }

    /// Returns the rows that are in both sets, over the index of this one.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        let words: Vec<u64> = self.words.iter().zip(others).map(|(word, other)| word & other).collect();
        let count = words.iter().map(|word| word.count_ones() as usize).sum();
        Self { words, count, rows: self.rows }
    }

    /// Returns the bitmap as little-endian bytes, the lowest row in the lowest bit of the first.
    pub(crate) fn to_le_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Removes a row and returns `true` if it was in the set.
    pub fn remove(&mut self, row: usize) -> bool {
        let is_there = self.contains(row);
        if is_there {
            self.words[row / 64] &= !(1 << (row % 64));
            self.count -= 1;
        }
        is_there
    }

    /// Returns `true` if a row is in the set.
    pub fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Number of rows in the set.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if no row is in the set.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the rows that are below `count`, ascending: those of an index of so many rows, whatever index the set is
    /// over.
    pub(crate) fn rows_below(&self, count: usize) -> Vec<u32> {
        // Rows of an index fit u32: building and opening refuse more.
        self.iter().take_while(|row| *row < count).map(|row| row as u32).collect()
    }

    /// Returns the rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let rows_left = |word: u64| Some(word).filter(|word| *word != 0);
            // Each step clears the lowest bit.
            let words = std::iter::successors(rows_left(*word), move |word| rows_left(word & (word - 1)));
            words.map(move |word| at * 64 + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_index_has_its_new_rows_in_the_set() {
        for (rows, more) in [(0, 1), (1, 63), (63, 2), (64, 64), (100, 0)] {
            let mut set = RowSet::all(rows);
            set.extend(more);
            assert_eq!(set, RowSet::all(rows + more));
        }
    }

    #[test]
    fn ranges_are_inserted_as_their_rows_are() {
        for (start, end) in
            [(0, 0), (0, 1), (3, 64), (0, 64), (63, 65), (64, 128), (5, 200), (190, 300), (250, 300)]
        {
            let (mut by_row, mut by_range) = (RowSet::none(200), RowSet::none(200));
            for set in [&mut by_row, &mut by_range] {
                set.insert(64);
                set.insert(199);
            }
            for row in start..end {
                by_row.insert(row);
            }
            by_range.insert_range(start..end);
            assert_eq!(by_range, by_row, "{start}..{end}");
            assert_eq!(by_range.iter().count(), by_range.len());
        }
    }

    #[test]
    fn an_intersection_is_over_the_index_of_the_first_set() {
        let (mut few, mut many) = (RowSet::all(70), RowSet::none(200));
        for row in [0, 1, 63, 64, 69, 70, 199] {
            many.insert(row);
        }
        few.remove(1);
        let both = few.intersection(&many);
        assert_eq!((both.rows(), both.len()), (70, 4));
        assert_eq!(both.iter().collect::<Vec<_>>(), [0, 63, 64, 69]);
        assert_eq!(many.intersection(&few).iter().collect::<Vec<_>>(), [0, 63, 64, 69]);
        assert_eq!(many.intersection(&few).rows(), 200);
        assert_eq!(both.to_le_bytes()[..9], [1, 0, 0, 0, 0, 0, 0, 0x80, 0x21]);
    }

    #[test]
    fn rows_below_a_count_are_those_of_a_shorter_index() {
        let mut set = RowSet::none(200);
        for row in [0, 63, 64, 128, 199] {
            set.insert(row);
        }
        for (count, rows) in [(0, 0), (1, 1), (64, 2), (65, 3), (128, 3), (199, 4), (200, 5), (5000, 5)] {
            assert_eq!(set.rows_below(count), [0, 63, 64, 128, 199][..rows], "{count}");
        }
    }

    #[test]
    fn rows_come_and_go_and_are_counted_once() {
        for rows in [1, 63, 64, 65, 200] {
            let mut set = RowSet::all(rows);
            assert_eq!((set.len(), set.iter().count()), (rows, rows));
            assert!(set.remove(rows - 1) && !set.remove(rows - 1) && !set.contains(rows - 1));
            assert!(set.insert(rows - 1) && !set.insert(rows - 1));
            assert!(!set.insert(rows) && !set.remove(rows));
            assert_eq!(set, RowSet::all(rows));
            let mut set = RowSet::none(rows);
            assert!(set.is_empty() && set.insert(rows / 2));
            assert_eq!(set.iter().collect::<Vec<_>>(), [rows / 2]);
        }
    }
}
