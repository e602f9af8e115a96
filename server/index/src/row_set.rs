//! Sets of rows as bitmaps: the rows that a filter allows, and the rows that were not deleted.

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

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
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
