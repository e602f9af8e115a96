//! Exchange of items between batches, so that no batch holds the same passage twice as a positive.
//!
//! A passage that stands in a batch for two questions is encoded twice, counts twice in the softmax of every other
//! question, and takes the place of a negative. Sorting by length makes that frequent: the questions of one paragraph
//! have passages of one length.

use std::collections::HashMap;

/// Exchanges items between batches until no batch holds two items of one `key`, as far as that can be. An item goes to
/// the nearest batch that takes it, first among the `bucket` batches that were sorted by length together, and comes
/// back with the item there that is nearest in length.
pub(super) fn spread(batches: &mut [Vec<usize>], bucket: usize, key: impl Fn(usize) -> u64) {
    let mut counts: Vec<HashMap<u64, usize>> = batches.iter().map(|batch| counted(batch, &key)).collect();
    for at in 0..batches.len() {
        for place in 0..batches[at].len() {
            let own = key(batches[at][place]);
            if counts[at].get(&own).is_none_or(|count| *count < 2) {
                continue;
            }
            let Some((other, there)) = partner(batches, &counts, at, own, bucket, &key) else { continue };
            let theirs = key(batches[other][there]);
            (batches[at][place], batches[other][there]) = (batches[other][there], batches[at][place]);
            for (batch, gone, come) in [(at, own, theirs), (other, theirs, own)] {
                *counts[batch].entry(come).or_default() += 1;
                if let Some(count) = counts[batch].get_mut(&gone) {
                    *count -= 1;
                    if *count == 0 {
                        counts[batch].remove(&gone);
                    }
                }
            }
        }
    }
}

fn counted(batch: &[usize], key: &impl Fn(usize) -> u64) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    batch.iter().for_each(|item| *counts.entry(key(*item)).or_default() += 1);
    counts
}

/// Returns the batch and the place of the item that one of key `own` in batch `at` is exchanged with.
fn partner(
    batches: &[Vec<usize>],
    counts: &[HashMap<u64, usize>],
    at: usize,
    own: u64,
    bucket: usize,
    key: &impl Fn(usize) -> u64,
) -> Option<(usize, usize)> {
    let bucket = bucket.max(1);
    let mut others: Vec<usize> =
        (0..batches.len()).filter(|other| *other != at && !counts[*other].contains_key(&own)).collect();
    others.sort_by_key(|other| (other / bucket != at / bucket, other.abs_diff(at)));
    others.into_iter().find_map(|other| {
        let fits = |place: &usize| !counts[at].contains_key(&key(batches[other][*place]));
        let places = 0..batches[other].len();
        // Lengths rise from batch to batch: the nearest are at the beginning of a later one, and at the end of an
        // earlier.
        let there = if other > at { places.clone().find(fits) } else { places.clone().rev().find(fits) };
        there.map(|place| (other, place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(batches: &[Vec<usize>], key: &impl Fn(usize) -> u64) -> usize {
        batches.iter().map(|batch| batch.len() - counted(batch, key).len()).sum()
    }

    #[test]
    fn no_batch_keeps_a_key_twice_and_no_item_is_lost() {
        // 64 passages of 4 questions each, sorted: every batch of 8 holds 2 passages.
        let key = |item: usize| (item / 4) as u64;
        let mut batches: Vec<Vec<usize>> =
            (0..32).map(|batch| (batch * 8..batch * 8 + 8).collect()).collect();
        assert_eq!(repeated(&batches, &key), 32 * 6);
        spread(&mut batches, 8, key);
        assert_eq!(repeated(&batches, &key), 0);
        assert!(batches.iter().all(|batch| batch.len() == 8));
        let mut all = batches.concat();
        // Exchanges stay within the bucket where they can.
        let near = all.iter().enumerate().filter(|(place, item)| place / 64 == **item / 64).count();
        assert_eq!(near, all.len());
        all.sort_unstable();
        assert_eq!(all, (0..256).collect::<Vec<_>>());
    }

    #[test]
    fn batches_without_repeats_stay_as_they_are() {
        let mut batches = vec![vec![3, 1], vec![2, 0]];
        spread(&mut batches, 16, |item| item as u64);
        assert_eq!(batches, [[3, 1], [2, 0]]);
    }

    #[test]
    fn what_cannot_be_spread_ends_with_as_few_repeats_as_there_can_be() {
        // Six items of one passage in three batches: two in each at best.
        let mut batches = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10, 11]];
        let key = |item: usize| if item < 6 { 0 } else { item as u64 };
        spread(&mut batches, 1, key);
        assert_eq!(repeated(&batches, &key), 3, "{batches:?}");
        let mut one = vec![vec![1, 1]];
        spread(&mut one, 1, |item| item as u64);
        assert_eq!(one, [[1, 1]]);
    }
}
