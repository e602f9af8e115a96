//! Batches: the rows of a part that are computed together.

/// Rows of one part that one forward pass takes.
#[derive(Debug)]
pub(super) struct Batch {
    /// The place of each row in its part.
    pub(super) places: Vec<usize>,
    /// Token ids, in the order of `places`.
    pub(super) rows: Vec<Vec<u32>>,
}

/// Cuts a part into batches, longest rows first, each of at most `limit` tokens counted as if padded to its
/// longest row. A row longer than the limit is a batch of its own.
///
/// The longest batches come first: those left at the end, when cores run out of work, are the quick ones.
pub(super) fn plan(mut tokens: Vec<Vec<u32>>, limit: usize) -> Vec<Batch> {
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(tokens[*place].len())); // stable: ties stay in corpus order
    let mut batches = Vec::new();
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let longest = tokens[*first].len().max(1);
        let (now, later) = rest.split_at((limit / longest).clamp(1, rest.len()));
        let rows = now.iter().map(|place| std::mem::take(&mut tokens[*place])).collect();
        batches.push(Batch { places: now.to_vec(), rows });
        rest = later;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lengths: &[usize]) -> Vec<Vec<u32>> {
        lengths.iter().enumerate().map(|(row, length)| vec![row as u32; *length]).collect()
    }

    #[test]
    fn every_row_is_in_one_batch_under_its_own_place() {
        let lengths: Vec<usize> = (0..500).map(|row| 1 + row * 7919 % 256).collect();
        let batches = plan(rows(&lengths), 1024);
        let mut seen = vec![0; lengths.len()];
        for batch in &batches {
            assert_eq!(batch.places.len(), batch.rows.len());
            for (place, row) in batch.places.iter().zip(&batch.rows) {
                seen[*place] += 1;
                assert_eq!(*row, vec![*place as u32; lengths[*place]]);
            }
        }
        assert!(seen.iter().all(|count| *count == 1));
    }

    #[test]
    fn batches_run_from_long_to_short_and_keep_the_limit() {
        let batches = plan(rows(&[3, 9, 1, 200, 9, 4, 5]), 18);
        let lengths: Vec<Vec<usize>> =
            batches.iter().map(|batch| batch.rows.iter().map(Vec::len).collect()).collect();
        assert_eq!(lengths, [vec![200], vec![9, 9], vec![5, 4, 3], vec![1]]);
        assert_eq!(batches[1].places, [1, 4]); // equal lengths in corpus order
    }

    #[test]
    fn nothing_makes_no_batch() {
        assert!(plan(Vec::new(), 1024).is_empty());
    }
}
