//! Sampler of batches for retrieval: the questions of each batch and their passages. Everything is drawn from the seed,
//! the epoch and the item's number, so that a resumed run draws the same as one that was never stopped.

use dpr_core::random::SplitMix;
use rayon::prelude::*;

use super::batch::Batch;
use super::config::{DataOptions, NegativeCounts, RunOptions};
use super::data::{Item, TrainingData};
use super::encoders::DualEncoder;
use super::epochs::Steps;
use super::error::TrainError;
use super::masks::Columns;
use super::objective::{Targets, Taught};
use super::teacher::Teacher;

/// Key of the random draws of passages.
const PASSAGES: u64 = 3;

/// Draws for each positive of another question, at most: a question may accept most of a small file.
const TRIES: usize = 50;

/// Draws the batches of every epoch.
#[derive(Clone, Copy, Debug)]
pub struct Sampler<'a> {
    data: &'a TrainingData,
    options: &'a DataOptions,
    run: RunOptions,
    negatives: NegativeCounts,
    teacher: Option<&'a Teacher>,
}

impl<'a> Sampler<'a> {
    /// Returns a sampler of batches of `run.batch_size` questions.
    ///
    /// # Errors
    /// [`TrainError::TooFewQuestions`] when the data does not fill one batch.
    pub fn new(
        data: &'a TrainingData,
        options: &'a DataOptions,
        run: &RunOptions,
    ) -> Result<Self, TrainError> {
        Steps::of(data.train.seen(), run)?;
        Ok(Self { data, options, run: *run, negatives: options.negative_counts(), teacher: None })
    }

    /// Returns the sampler with a teacher, which scores the passages that each question of a batch brings.
    pub(super) fn taught_by(self, teacher: Option<&'a Teacher>) -> Self {
        Self { teacher, ..self }
    }

    /// Returns the number of questions in an epoch, including those of a last batch that is not full.
    pub fn questions(&self) -> usize {
        self.data.train.seen()
    }

    /// Returns the number of full batches in an epoch; questions that are left over have their turn in another epoch.
    pub fn batches(&self) -> usize {
        self.questions() / self.run.batch_size
    }

    /// Returns the batches of an epoch, as numbers of items. No passage is the positive of two questions of a batch, as
    /// far as that can be.
    pub fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        let (length, positive) = (|item: &Item| self.length(item), |item| self.positive(item, epoch));
        self.data.train.epoch(epoch, &self.run, self.options.bucket, length, positive)
    }

    /// Returns the passage that is an item's positive in an epoch.
    fn positive(&self, number: usize, epoch: usize) -> u64 {
        let item = self.data.item(number);
        let positive = item.map(|item| item.positives[self.choice(item, &mut self.draws(number, epoch))]);
        positive.map_or(u64::MAX, u64::from)
    }

    /// Returns the random numbers of an item in an epoch.
    fn draws(&self, number: usize, epoch: usize) -> SplitMix {
        SplitMix::keyed(&[self.run.seed, PASSAGES, epoch as u64, number as u64])
    }

    /// Draws which of its positives an item has: the first of its draws.
    fn choice(&self, item: &Item, random: &mut SplitMix) -> usize {
        if self.options.shuffle_positives { random.below(item.positives.len()) } else { 0 }
    }

    /// Returns the batch of longest texts, for trying out what memory training needs.
    pub fn longest(&self) -> Vec<usize> {
        self.data.train.longest(self.run.batch_size, |item| self.length(item))
    }

    /// Token ids of a batch of items.
    ///
    /// # Errors
    /// What the tokenizer says, or the teacher.
    pub fn compose(&self, items: &[usize], epoch: usize, model: &DualEncoder) -> Result<Batch, TrainError> {
        let found = items.iter().filter_map(|number| Some((*number, self.data.item(*number)?)));
        let found: Vec<(usize, &Item)> = found.collect();
        let of_item = |(number, item): &(usize, &Item)| {
            let mut random = self.draws(*number, epoch);
            let positive = item.positives[self.choice(item, &mut random)];
            let (all, other) = (self.data.items().count(), |number| self.data.item(number));
            (
                positive,
                negatives(item, (all, &other), self.negatives, self.options.shuffle_negatives, &mut random),
            )
        };
        let columns = Columns::new(found.iter().map(of_item));
        let items: Vec<&Item> = found.into_iter().map(|(_, item)| item).collect();
        let masked = columns.masked(&items, &self.data.pool, self.options);
        let taught = self.teacher.map(|teacher| self.taught(teacher, &items, &columns)).transpose()?;
        let questions = items.iter().map(|item| model.question_tokens(&item.question));
        let questions = questions.collect::<Result<Vec<_>, _>>()?;
        let passages = columns.passages.iter().map(|passage| {
            let (title, text) = self.data.pool.get(*passage);
            model.passage_tokens(title, text)
        });
        let passages = passages.collect::<Result<Vec<_>, _>>()?;
        let positive = (0..questions.len()).collect();
        Ok(Batch {
            questions,
            passages,
            targets: Targets { positive, masked, taught: taught.unwrap_or_default() },
        })
    }

    /// Returns the teacher's scores of what each question brings; nothing where the teacher cannot read one of them.
    fn taught(
        &self,
        teacher: &Teacher,
        items: &[&Item],
        columns: &Columns,
    ) -> Result<Vec<Taught>, TrainError> {
        let of_question = |(question, item): (usize, &&Item)| {
            let brought = columns.brought_by(question);
            let texts: Vec<_> =
                brought.iter().map(|column| self.data.pool.get(columns.passages[*column])).collect();
            let scores = teacher.scores(&item.question, &texts)?;
            Ok(if scores.is_empty() { Taught::default() } else { Taught { columns: brought, scores } })
        };
        items.par_iter().enumerate().map(of_question).collect()
    }

    /// Returns the number of characters of the item's positive: near enough to its tokens to sort by.
    fn length(&self, item: &Item) -> usize {
        item.positives.first().map_or(0, |passage| self.data.pool.get(*passage).1.len())
    }
}

/// Draws the negatives that an item brings, as many of each kind as `counts` says: hard ones, random ones, and
/// positives of other items, which are drawn from `all` of them. Without `shuffle` hard and random ones are the first.
/// No negative is a positive of another item with the same question.
pub(super) fn negatives<'a>(
    item: &Item,
    (all, other): (usize, &dyn Fn(usize) -> Option<&'a Item>),
    counts: NegativeCounts,
    shuffle: bool,
    random: &mut SplitMix,
) -> Vec<u32> {
    let NegativeCounts { hard, random: of_random, gold } = counts;
    let mut drawn = |from: &[u32], count: usize| {
        let mut from = if count > 0 { from.to_vec() } else { Vec::new() };
        if shuffle {
            random.shuffle(&mut from);
        }
        from.truncate(count);
        from
    };
    let (hard_ones, random_ones) = (item.unaccepted(&item.hard), item.unaccepted(&item.random));
    let mut negatives = match hard_ones.is_empty() {
        // Random ones in the place of hard ones.
        true => drawn(&random_ones, hard + of_random),
        false => [drawn(&hard_ones, hard), drawn(&random_ones, of_random)].concat(),
    };
    negatives.extend(positives_of_others(item, (all, other), gold, random));
    negatives
}

/// Draws the first positives of other items, none of which answers `item`.
fn positives_of_others<'a>(
    item: &Item,
    (all, other): (usize, &dyn Fn(usize) -> Option<&'a Item>),
    count: usize,
    random: &mut SplitMix,
) -> Vec<u32> {
    let mut drawn = Vec::with_capacity(count);
    for _ in 0..count * TRIES {
        if drawn.len() == count {
            break;
        }
        let first = other(random.below(all)).and_then(|other| other.positives.first());
        drawn.extend(first.filter(|first| !item.accepted().contains(first) && !drawn.contains(*first)));
    }
    drawn
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dpr_data::{TrainingContext, TrainingItem};

    use super::super::config::DataFile;
    use super::*;

    /// The questions of each file.
    const QUESTIONS: usize = 40;

    /// Reads two files with the same questions, each with another positive, whose first hard negative is the positive
    /// of the other file.
    fn of_two_files(dir: &Path) -> (TrainingData, DataOptions) {
        let context = |text: String| TrainingContext { text, ..TrainingContext::default() };
        let file = |name: &str, other: &str| {
            let item = |number: usize| TrainingItem {
                question: format!("Which {number}?"),
                positive_ctxs: vec![context(format!("right {name} {number}"))],
                hard_negative_ctxs: vec![
                    context(format!("right {other} {number}")),
                    context(format!("hard {name} {number}")),
                ],
                ..TrainingItem::default()
            };
            let path = dir.join(name);
            let items: Vec<_> = (0..QUESTIONS).map(item).collect();
            std::fs::write(&path, serde_json::to_string(&items).unwrap()).unwrap();
            DataFile { path, weight: 1.0 }
        };
        let options = DataOptions { train: vec![file("a", "b"), file("b", "a")], ..DataOptions::default() };
        (TrainingData::read(&options, 1).unwrap(), options)
    }

    #[test]
    fn a_question_of_two_files_has_no_positive_of_either_as_its_negative() {
        let dir = tempfile::tempdir().unwrap();
        let (data, _) = of_two_files(dir.path());
        // All that may be drawn: the second hard negative, and the positives of the other questions.
        let all = 2 * QUESTIONS;
        let counts = NegativeCounts { hard: 2, random: 0, gold: all - 2 };
        for number in 0..all {
            let item = data.item(number).unwrap();
            let mut random = SplitMix::keyed(&[1, number as u64]);
            let drawn = negatives(item, (all, &|other| data.item(other)), counts, true, &mut random);
            assert!(drawn.iter().all(|passage| !item.accepted().contains(passage)), "{number}: {drawn:?}");
            assert_eq!((item.accepted().len(), drawn[0]), (2, item.hard[1]));
            assert!(drawn.len() > all / 2, "{number}: {drawn:?}");
        }
    }
}
