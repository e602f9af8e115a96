//! The set of the rows that a search of the graph has visited.

/// The rows that a search has visited. Clearing it costs what was visited, so that one set serves many searches.
#[derive(Debug)]
pub(super) struct VisitedSet {
    words: Vec<u64>,
    /// The rows in the set, in the order that they were added.
    pub(super) touched: Vec<u32>,
}

impl VisitedSet {
    pub(super) fn new(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], touched: Vec::new() }
    }

    /// Makes room for so many rows, so that adding them moves none.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.touched.reserve(rows.min(64 * self.words.len()));
    }

    /// Adds a row and returns `true` if it was not in the set.
    pub(super) fn insert(&mut self, row: u32) -> bool {
        let (word, bit) = (&mut self.words[row as usize / 64], 1 << (row % 64));
        let is_new = *word & bit == 0;
        if is_new {
            *word |= bit;
            self.touched.push(row);
        }
        is_new
    }

    /// Adds rows and replaces `new` by those that were not in the set, in their order.
    pub(super) fn insert_all(&mut self, rows: &[u32], new: &mut Vec<u32>) {
        new.clear();
        new.resize(rows.len(), 0);
        let mut kept = 0;
        for row in rows {
            let (word, bit) = (&mut self.words[*row as usize / 64], 1 << (row % 64));
            let is_new = *word & bit == 0;
            *word |= bit;
            // Written before it is known whether it is new: no branch.
            new[kept] = *row;
            kept += usize::from(is_new);
        }
        new.truncate(kept);
        self.touched.extend_from_slice(new);
    }

    /// Takes all rows out.
    pub(super) fn clear(&mut self) {
        for row in self.touched.drain(..) {
            self.words[row as usize / 64] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_new_once_and_in_their_order_until_the_set_is_cleared() {
        let (mut visited, mut new) = (VisitedSet::new(200), vec![9]);
        visited.insert_all(&[5, 130, 5, 64], &mut new);
        assert_eq!(new, [5, 130, 64]);
        assert!(!visited.insert(130) && visited.insert(0));
        visited.insert_all(&[0, 199, 64], &mut new);
        assert_eq!(new, [199]);
        visited.insert_all(&[], &mut new);
        assert!(new.is_empty());
        visited.clear();
        visited.insert_all(&[199, 0, 5], &mut new);
        assert_eq!(new, [199, 0, 5]);
    }
}
