//! Sampler of batches: the questions of each batch and their passages. Everything is drawn from the seed, the epoch
//! and the item's number, so that a resumed run draws the same as one that was never stopped.

use dpr_core::random::SplitMix;

use super::batch::Batch;
use super::config::{DataOptions, Negatives, RunOptions};
use super::data::{Item, TrainingData};
use super::encoders::DualEncoder;
use super::error::TrainError;
use super::objective::Targets;

/// Keys of the random draws: each purpose has random numbers of its own.
const ORDER: u64 = 1;
const BATCHES: u64 = 2;
const PASSAGES: u64 = 3;

/// Draws the batches of every epoch.
#[derive(Clone, Copy, Debug)]
pub struct Sampler<'a> {
    data: &'a TrainingData,
    options: &'a DataOptions,
    batch_size: usize,
    negatives: usize,
    seed: u64,
}

impl<'a> Sampler<'a> {
    /// Returns a sampler of batches of `run.batch_size` questions, with `negatives` passages beside each positive.
    ///
    /// # Errors
    /// [`TrainError::TooFewQuestions`] when the data does not fill one batch.
    pub fn new(
        data: &'a TrainingData,
        options: &'a DataOptions,
        run: &RunOptions,
        negatives: usize,
    ) -> Result<Self, TrainError> {
        let sampler = Self { data, options, batch_size: run.batch_size, negatives, seed: run.seed };
        match sampler.questions() {
            questions if questions < run.batch_size => {
                Err(TrainError::TooFewQuestions { batch: run.batch_size, questions })
            }
            _ => Ok(sampler),
        }
    }

    /// Returns the number of questions in an epoch, including those of a last batch that is not full.
    pub fn questions(&self) -> usize {
        self.data.train.iter().map(|set| seen(set.items.len(), set.weight)).sum()
    }

    /// Returns the number of full batches in an epoch; questions that are left over have their turn in another epoch.
    pub fn batches(&self) -> usize {
        self.questions() / self.batch_size
    }

    /// Returns the batches of an epoch, as numbers of items.
    pub fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        let mut order = Vec::with_capacity(self.questions());
        let mut first = 0;
        for (number, set) in self.data.train.iter().enumerate() {
            let mut random = SplitMix::keyed(&[self.seed, ORDER, epoch as u64, number as u64]);
            let mut left = seen(set.items.len(), set.weight);
            while left > 0 {
                let mut items: Vec<usize> = (first..first + set.items.len()).collect();
                random.shuffle(&mut items);
                items.truncate(left);
                left -= items.len();
                order.extend(items);
            }
            first += set.items.len();
        }
        let mut random = SplitMix::keyed(&[self.seed, BATCHES, epoch as u64]);
        random.shuffle(&mut order);
        batches(order, self.batch_size, self.options.bucket, |item| self.length(item), &mut random)
    }

    /// Returns the batch of longest texts, for trying out what memory training needs.
    pub fn longest(&self) -> Vec<usize> {
        let mut items: Vec<usize> = (0..self.data.items().count()).collect();
        items.sort_by_key(|item| std::cmp::Reverse(self.length(*item)));
        items.truncate(self.batch_size);
        items
    }

    /// Token ids of a batch of items.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn compose(&self, items: &[usize], epoch: usize, model: &DualEncoder) -> Result<Batch, TrainError> {
        let mut columns = Vec::with_capacity(items.len() * (1 + self.negatives));
        let (mut hard, mut accepted, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        for number in items {
            let Some(item) = self.data.item(*number) else { continue };
            let mut random = SplitMix::keyed(&[self.seed, PASSAGES, epoch as u64, *number as u64]);
            let choice = if self.options.shuffle_positives { random.below(item.positives.len()) } else { 0 };
            columns.push(item.positives[choice]);
            hard.extend(self.negatives(item, &mut random));
            accepted.push(item.positives.iter().map(|passage| u64::from(*passage)).collect::<Vec<_>>());
            questions.push(model.question_tokens(&item.question)?);
        }
        columns.extend(hard);
        let positive: Vec<usize> = (0..questions.len()).collect();
        let keys: Vec<u64> = columns.iter().map(|passage| u64::from(*passage)).collect();
        let masked = Batch::false_negatives(&keys, &accepted, &positive);
        let passages = columns.iter().map(|passage| {
            let (title, text) = self.data.pool.get(*passage);
            model.passage_tokens(title, text)
        });
        let passages = passages.collect::<Result<Vec<_>, _>>()?;
        Ok(Batch { questions, passages, targets: Targets { positive, masked } })
    }

    fn negatives(&self, item: &Item, random: &mut SplitMix) -> Vec<u32> {
        let from = match self.options.negatives {
            Negatives::Hard if !item.hard.is_empty() => &item.hard,
            Negatives::Hard | Negatives::Random => &item.random,
            Negatives::Gold => return Vec::new(),
        };
        let mut negatives = from.clone();
        if self.options.shuffle_negatives {
            random.shuffle(&mut negatives);
        }
        negatives.truncate(self.negatives);
        negatives
    }

    /// Returns the number of characters of the item's positive: near enough to its tokens to sort by.
    fn length(&self, item: usize) -> usize {
        let first = self.data.item(item).and_then(|item| item.positives.first());
        first.map_or(0, |passage| self.data.pool.get(*passage).1.len())
    }
}

/// Returns the number of times that `items` items with this weight are seen in an epoch.
fn seen(items: usize, weight: f64) -> usize {
    if items == 0 { 0 } else { (items as f64 * weight).round().max(1.0) as usize }
}

/// Returns full batches of items in this order, with the items of `bucket` neighbouring batches sorted by length and
/// the batches shuffled.
pub(super) fn batches(
    mut order: Vec<usize>,
    batch_size: usize,
    bucket: usize,
    length: impl Fn(usize) -> usize,
    random: &mut SplitMix,
) -> Vec<Vec<usize>> {
    order.truncate(order.len() / batch_size * batch_size);
    if bucket > 1 {
        for window in order.chunks_mut(batch_size * bucket) {
            window.sort_by_key(|item| length(*item)); // stable: ties stay in random order
        }
    }
    let mut batches: Vec<Vec<usize>> = order.chunks(batch_size).map(<[usize]>::to_vec).collect();
    random.shuffle(&mut batches);
    batches
}
