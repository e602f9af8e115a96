//! Copies: rows whose codes are those of another row, as of boilerplate texts that a corpus repeats.
//!
//! A graph is built without them. Among its candidates, more copies than `ef_construction` would leave a row near them
//! no other neighbour. Afterwards each copy is linked to a parent, in a tree whose root is the row that it repeats,
//! with a bounded number of links.

use rayon::prelude::*;

use crate::RowSet;
use crate::quantized::Quantized;

/// The copies among the rows of an index.
#[derive(Debug)]
pub(super) struct Copies {
    /// Pairs of a row and a copy of it, ascending.
    pairs: Vec<(u32, u32)>,
    rows: RowSet,
}

impl Copies {
    /// Finds the copies among all rows. They are the same on any number of threads.
    pub(super) fn find(codes: &Quantized) -> Self {
        let count = codes.count();
        // A scale is not negative, so that its bits are in the order of the numbers.
        let key = |row: u32| (codes.hash(row), codes.scale(row).to_bits(), row);
        let mut keys: Vec<(u64, u32, u32)> = (0..count as u32).into_par_iter().map(key).collect();
        keys.par_sort_unstable();
        let (mut pairs, mut rows) = (Vec::new(), RowSet::none(count));
        let mut first = None;
        for (_, _, row) in keys {
            match first.filter(|first| codes.is_copy(*first, row)) {
                Some(first) => {
                    pairs.push((first, row));
                    rows.insert(row as usize);
                }
                None => first = Some(row),
            }
        }
        pairs.sort_unstable();
        Self { pairs, rows }
    }

    /// Returns `true` if the row is a copy of another row.
    pub(super) fn contains(&self, row: u32) -> bool {
        self.rows.contains(row as usize)
    }

    /// Links each copy and its parent, which is the row that it repeats or another copy of it: `branches` copies have
    /// the same parent at most.
    pub(super) fn link(&self, lowest: &mut [Vec<u32>], branches: usize) {
        for group in self.pairs.chunk_by(|a, b| a.0 == b.0) {
            for (at, (first, row)) in group.iter().enumerate() {
                let parent = at.checked_sub(branches).map_or(*first, |at| group[at / branches].1);
                lowest[parent as usize].push(*row);
                lowest[*row as usize].push(parent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;

    /// Returns the codes of a row of four numbers for each place, which is its number in `texts`.
    fn codes(places: &[usize]) -> Quantized {
        let texts = [
            [1.0, 2.0, -3.0, 0.5],
            [1.0, 2.0, -3.0, 0.4],
            [2.0, 4.0, -6.0, 1.0],
            [0.0; 4],
            [-1.0, 0.0, 0.0, 0.0],
        ];
        let values: Vec<f32> = places.iter().flat_map(|place| texts[*place]).collect();
        Quantized::of(&Matrix::new(values, places.len(), 4, |row| row.to_string()).unwrap())
    }

    #[test]
    fn rows_of_the_same_codes_and_length_are_copies_of_the_first() {
        let copies = Copies::find(&codes(&[0, 1, 2, 0, 3, 4, 3, 0, 2]));
        assert_eq!(copies.pairs, [(0, 3), (0, 7), (2, 8), (4, 6)]);
        let rows: Vec<u32> = (0..9).filter(|row| copies.contains(*row)).collect();
        assert_eq!(rows, [3, 6, 7, 8]);
        assert!(Copies::find(&codes(&[0, 1, 2, 3, 4])).pairs.is_empty());
    }

    #[test]
    fn copies_are_reached_from_the_row_that_they_repeat_by_few_links_each() {
        let copies = Copies::find(&codes(&[1; 100]));
        let mut lowest = vec![Vec::new(); 100];
        copies.link(&mut lowest, 4);
        assert!(lowest.iter().all(|links| (1..=5).contains(&links.len())), "{lowest:?}");
        let (mut reached, mut open) = (vec![false; 100], vec![0]);
        while let Some(row) = open.pop() {
            reached[row as usize] = true;
            open.extend(lowest[row as usize].iter().filter(|next| !reached[**next as usize]));
        }
        assert!(reached.iter().all(|reached| *reached));
    }
}
