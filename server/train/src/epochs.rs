//! Training items of several files, and the batches of an epoch. Everything is drawn from the seed and the epoch, so
//! that a resumed run draws the same as one that was never stopped.

use std::path::PathBuf;

use dpr_core::random::SplitMix;

use super::config::RunOptions;
use super::error::TrainError;
use super::spread::spread;

/// Keys of the random draws: each purpose has random numbers of its own.
const ORDER: u64 = 1;
const BATCHES: u64 = 2;

/// The items of one file.
#[derive(Clone, Debug)]
pub struct ItemSet<T> {
    /// The file that they come from.
    pub path: PathBuf,
    /// The number of times that each item is seen in an epoch.
    pub weight: f64,
    /// The items.
    pub items: Vec<T>,
}

impl<T> ItemSet<T> {
    /// Returns the number of items that an epoch sees.
    fn seen(&self) -> usize {
        let items = self.items.len();
        if items == 0 { 0 } else { (items as f64 * self.weight).round().max(1.0) as usize }
    }
}

/// The items of all training files. Batches name an item by its number, counted from 0 file after file.
#[derive(Clone, Debug)]
pub struct ItemSets<T>(pub Vec<ItemSet<T>>);

impl<T> Default for ItemSets<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ItemSets<T> {
    /// Returns all items, file after file.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|set| &set.items)
    }

    /// Returns the item with this number.
    pub fn get(&self, number: usize) -> Option<&T> {
        let mut rest = number;
        for set in &self.0 {
            match set.items.get(rest) {
                Some(item) => return Some(item),
                None => rest -= set.items.len(),
            }
        }
        None
    }

    /// Returns the number of items that an epoch sees, those of a last batch that is not full among them.
    pub fn seen(&self) -> usize {
        self.0.iter().map(ItemSet::seen).sum()
    }

    /// Returns the `count` items that are longest by `length`, for trying out what memory training needs.
    pub(super) fn longest(&self, count: usize, length: impl Fn(&T) -> usize) -> Vec<usize> {
        let lengths: Vec<usize> = self.iter().map(length).collect();
        let mut items: Vec<usize> = (0..lengths.len()).collect();
        items.sort_by_key(|item| std::cmp::Reverse(lengths[*item]));
        items.truncate(count);
        items
    }

    /// Returns the batches of an epoch, as [`batches`] makes them of the items in random order.
    pub(super) fn epoch(
        &self,
        epoch: usize,
        run: &RunOptions,
        bucket: usize,
        length: impl Fn(&T) -> usize,
        key: impl Fn(usize) -> u64,
    ) -> Vec<Vec<usize>> {
        let (mut order, mut first) = (Vec::new(), 0);
        for (number, set) in self.0.iter().enumerate() {
            let mut random = SplitMix::keyed(&[run.seed, ORDER, epoch as u64, number as u64]);
            let (count, mut left) = (set.items.len(), set.seen());
            while left > 0 {
                let mut items: Vec<usize> = (first..first + count).collect();
                random.shuffle(&mut items);
                items.truncate(left);
                left -= items.len();
                order.extend(items);
            }
            first += count;
        }
        let mut random = SplitMix::keyed(&[run.seed, BATCHES, epoch as u64]);
        random.shuffle(&mut order);
        let length = |item: usize| self.get(item).map_or(0, &length);
        batches(order, run.batch_size, bucket, length, key, &mut random)
    }
}

/// Returns full batches of items in this order, with the items of `bucket` neighbouring batches sorted by length and
/// the batches shuffled. No batch holds two items of one `key`, as far as that can be.
pub(super) fn batches(
    mut order: Vec<usize>,
    batch_size: usize,
    bucket: usize,
    length: impl Fn(usize) -> usize,
    key: impl Fn(usize) -> u64,
    random: &mut SplitMix,
) -> Vec<Vec<usize>> {
    order.truncate(order.len() / batch_size * batch_size);
    if bucket > 1 {
        for window in order.chunks_mut(batch_size.saturating_mul(bucket)) {
            window.sort_by_key(|item| length(*item)); // stable: ties stay in random order
        }
    }
    let mut batches: Vec<Vec<usize>> = order.chunks(batch_size).map(<[usize]>::to_vec).collect();
    spread(&mut batches, bucket, key);
    random.shuffle(&mut batches);
    batches
}

/// Steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) per_epoch: usize,
    pub(super) all: usize,
}

impl Steps {
    /// Returns the steps of a run whose epochs have `questions` questions.
    ///
    /// # Errors
    /// [`TrainError::TooFewQuestions`] where they do not fill a batch, [`TrainError::Setting`] where a step takes more
    /// batches than there are, and where the run sees more questions than can be counted.
    pub(super) fn of(questions: usize, run: &RunOptions) -> Result<Self, TrainError> {
        let (batch, batches) = (run.batch_size, questions / run.batch_size);
        if batches == 0 {
            return Err(TrainError::TooFewQuestions { batch, questions });
        }
        let per_epoch = batches / run.accumulate;
        if per_epoch == 0 {
            return Err(TrainError::Setting {
                setting: "run.accumulate",
                got: run.accumulate.to_string(),
                expected: format!("an epoch has {batches} batches"),
            });
        }
        let all = per_epoch.saturating_mul(run.epochs);
        let all = if run.max_steps == 0 { all } else { all.min(run.max_steps) };
        let most = usize::MAX / (per_epoch * run.accumulate * batch);
        if all > most * per_epoch {
            return Err(TrainError::Setting {
                setting: "run.epochs",
                got: run.epochs.to_string(),
                expected: format!("with {per_epoch} steps in an epoch it must be {most} at most"),
            });
        }
        Ok(Self { per_epoch, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions of `paragraphs` paragraphs, five of each, whose lengths are those of their paragraphs.
    fn squad(paragraphs: usize) -> ItemSets<usize> {
        let items = (0..paragraphs * 5).map(|number| number / 5).collect();
        ItemSets(vec![ItemSet { path: "squad".into(), weight: 1.0, items }])
    }

    fn length(paragraph: &usize) -> usize {
        400 + paragraph * 7919 % 900
    }

    #[test]
    fn a_passage_is_the_positive_of_one_question_in_a_batch() {
        let data = squad(1000);
        let run = RunOptions { batch_size: 128, ..RunOptions::default() };
        for (bucket, epoch) in [(1, 0), (16, 0), (16, 1)] {
            let key = |item: usize| data.get(item).map_or(0, |paragraph| *paragraph as u64);
            let batches = data.epoch(epoch, &run, bucket, length, key);
            assert_eq!(batches.len(), 39);
            for batch in &batches {
                let mut paragraphs: Vec<u64> = batch.iter().map(|item| key(*item)).collect();
                paragraphs.sort_unstable();
                paragraphs.dedup();
                assert_eq!(paragraphs.len(), 128, "bucket {bucket}");
            }
        }
    }

    #[test]
    fn a_set_that_is_seen_twice_does_not_repeat_a_question_within_a_batch() {
        let items = (0..200).collect();
        let data = ItemSets(vec![ItemSet { path: "a".into(), weight: 2.0, items }]);
        let run = RunOptions { batch_size: 64, ..RunOptions::default() };
        for batch in data.epoch(0, &run, 16, |_: &usize| 1, |item| item as u64) {
            let mut items = batch.clone();
            items.sort_unstable();
            items.dedup();
            assert_eq!(items.len(), batch.len());
        }
    }

    #[test]
    fn steps_that_cannot_be_taken_are_refused() {
        let run = RunOptions { batch_size: 8, accumulate: 2, epochs: 3, ..RunOptions::default() };
        assert_eq!(Steps::of(50, &run).unwrap(), Steps { per_epoch: 3, all: 9 });
        let few = RunOptions { max_steps: 4, ..run };
        assert_eq!(Steps::of(50, &few).unwrap(), Steps { per_epoch: 3, all: 4 });
        assert!(matches!(Steps::of(7, &run), Err(TrainError::TooFewQuestions { batch: 8, questions: 7 })));
        let error = Steps::of(15, &run).unwrap_err().to_string();
        assert!(error.contains("run.accumulate is 2; an epoch has 1 batches"), "{error}");
        let endless = RunOptions { epochs: usize::MAX / 2 + 1, ..run };
        let error = Steps::of(50, &endless).unwrap_err().to_string();
        assert!(error.starts_with(&format!("run.epochs is {}; with 3 steps", usize::MAX / 2 + 1)), "{error}");
        // Where fewer steps are asked for, any number of epochs will do.
        let few = RunOptions { max_steps: 4, ..endless };
        assert_eq!(Steps::of(50, &few).unwrap(), Steps { per_epoch: 3, all: 4 });
    }

    #[test]
    fn a_bucket_of_any_size_sorts_all_batches_together() {
        let data = squad(4);
        let run = RunOptions { batch_size: 8, ..RunOptions::default() };
        let of = |bucket| data.epoch(0, &run, bucket, length, |item| item as u64);
        assert_eq!(of(usize::MAX / 8 + 1), of(2));
    }
}
