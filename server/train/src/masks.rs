//! Columns of a batch, and the pairs of a question and a column that must not count as a negative.

use std::collections::{HashMap, HashSet};

use dpr_data::Answers;
use dpr_eval::{AnswerMatcher, TokenizedPassage};
use rayon::prelude::*;

use super::batch::Batch;
use super::config::DataOptions;
use super::data::{Item, PassagePool, plain};

/// The passages of a batch: a positive of each question, then the negatives that the questions bring.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Places in the pool.
    pub(super) passages: Vec<u32>,
    /// The question that brings each.
    owners: Vec<usize>,
}

impl Columns {
    /// Returns the columns of questions, each with its positive and its negatives.
    pub(super) fn new(questions: impl Iterator<Item = (u32, Vec<u32>)>) -> Self {
        let (mut columns, mut negatives) = (Self::default(), Self::default());
        for (question, (positive, of_question)) in questions.enumerate() {
            columns.passages.push(positive);
            columns.owners.push(question);
            negatives.owners.extend(of_question.iter().map(|_| question));
            negatives.passages.extend(of_question);
        }
        columns.passages.extend(negatives.passages);
        columns.owners.extend(negatives.owners);
        columns
    }

    /// Returns the columns that a question brings: its positive, then its negatives.
    pub(super) fn brought_by(&self, question: usize) -> Vec<usize> {
        let owners = self.owners.iter().enumerate();
        owners.filter(|(_, owner)| **owner == question).map(|(column, _)| column).collect()
    }

    /// Returns the pairs `(question, column)` that do not count, in order: columns that answer the question, those that
    /// answer the same question as it stands in another item, those of other questions where `in_batch` is off, and
    /// with `mask_answers` those whose text holds one of the question's answers. The positive of question `i` is column
    /// `i`.
    pub(super) fn masked(
        &self,
        items: &[&Item],
        pool: &PassagePool,
        options: &DataOptions,
    ) -> Vec<(usize, usize)> {
        let keys: Vec<u64> = self.passages.iter().map(|passage| u64::from(*passage)).collect();
        let positive: Vec<usize> = (0..items.len()).collect();
        let mut masked: HashSet<(usize, usize)> =
            Batch::false_negatives(&keys, &accepted(items), &positive).into_iter().collect();
        if !options.in_batch {
            let of_others = |question: usize| {
                let owners = self.owners.iter().enumerate();
                owners
                    .filter(move |(_, owner)| **owner != question)
                    .map(move |(column, _)| (question, column))
            };
            masked.extend((0..items.len()).flat_map(of_others));
        }
        if options.mask_answers {
            masked.extend(self.with_answers(items, pool, &masked));
        }
        let mut masked: Vec<_> = masked.into_iter().collect();
        masked.sort_unstable();
        masked
    }

    /// Returns the pairs whose column holds an answer of the question, besides those in `masked`.
    fn with_answers(
        &self,
        items: &[&Item],
        pool: &PassagePool,
        masked: &HashSet<(usize, usize)>,
    ) -> Vec<(usize, usize)> {
        let texts: Vec<_> =
            self.passages.iter().map(|passage| TokenizedPassage::new(pool.get(*passage).1)).collect();
        let of_question = |(question, item): (usize, &&Item)| {
            // An item without answers, or with empty ones alone, is masked by its passages only.
            let matcher = AnswerMatcher::new(&item.question, &Answers::Texts(item.answers.clone())).ok();
            let holds = |column: &usize| {
                let is_known = *column == question || masked.contains(&(question, *column));
                !is_known && matcher.as_ref().is_some_and(|matcher| matcher.matches_passage(&texts[*column]))
            };
            (0..texts.len()).filter(holds).map(|column| (question, column)).collect::<Vec<_>>()
        };
        items.par_iter().enumerate().flat_map_iter(of_question).collect()
    }
}

/// Returns the passages that answer each question: its positives, and those of other items with the same question; of
/// training items also of those outside of the batch.
fn accepted(items: &[&Item]) -> Vec<Vec<u64>> {
    let mut same: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, item) in items.iter().enumerate() {
        same.entry(plain(&item.question)).or_default().push(number);
    }
    let mut accepted = vec![Vec::new(); items.len()];
    for numbers in same.values() {
        let positives: Vec<u64> =
            numbers.iter().flat_map(|number| items[*number].accepted()).map(|p| u64::from(*p)).collect();
        numbers.iter().for_each(|number| accepted[*number].clone_from(&positives));
    }
    accepted
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dpr_data::TrainingContext;

    use super::*;

    fn pool(texts: &[&str]) -> PassagePool {
        let mut pool = PassagePool::default();
        for text in texts {
            pool.add(TrainingContext { text: (*text).into(), ..TrainingContext::default() });
        }
        pool
    }

    fn item(question: &str, answer: &str, positives: &[u32]) -> Item {
        let (question, answers) = (question.to_owned(), vec![answer.to_owned()]);
        let (positives, hard, random) = (positives.to_vec(), Vec::new(), Vec::new());
        Item { question, answers, positives, hard, random, shared: None }
    }

    fn options(change: impl Fn(&mut DataOptions)) -> DataOptions {
        let mut options = DataOptions::default();
        change(&mut options);
        options
    }

    #[test]
    fn the_same_question_in_two_files_accepts_the_passages_of_both() {
        let pool = pool(&["one", "two", "three"]);
        let items = [item("Who won?", "x", &[0]), item("where", "x", &[1]), item("who won", "x", &[2])];
        let items: Vec<&Item> = items.iter().collect();
        let columns = Columns::new([0, 1, 2].map(|passage| (passage, Vec::new())).into_iter());
        assert_eq!(columns.masked(&items, &pool, &DataOptions::default()), [(0, 2), (2, 0)]);
    }

    #[test]
    fn the_positives_of_a_question_s_other_items_are_masked_in_batches_without_these() {
        let pool = pool(&["one", "two", "three"]);
        let mut items = [item("who", "x", &[0]), item("where", "x", &[1])];
        items[0].shared = Some(Arc::from([0, 1, 2]));
        let items: Vec<&Item> = items.iter().collect();
        let columns = Columns::new([(0, vec![2]), (1, vec![])].into_iter());
        assert_eq!(columns.masked(&items, &pool, &DataOptions::default()), [(0, 1), (0, 2)]);
    }

    #[test]
    fn a_passage_with_a_question_s_answer_is_masked_where_that_is_asked_for() {
        let pool = pool(&["Rome is old.", "Paris, not Rome.", "Oslo lies north.", "From Oslo to ROME."]);
        let items = [item("old?", "rome", &[0]), item("not?", "Paris", &[1]), item("north?", "", &[2])];
        let items: Vec<&Item> = items.iter().collect();
        let columns = Columns::new([(0, vec![3]), (1, vec![]), (2, vec![])].into_iter());
        assert_eq!(columns.masked(&items, &pool, &DataOptions::default()), []);
        let masking = options(|options| options.mask_answers = true);
        // Passages 1 and 3 hold "Rome"; an answer without a word masks nothing.
        assert_eq!(columns.masked(&items, &pool, &masking), [(0, 1), (0, 3)]);
    }

    #[test]
    fn without_in_batch_negatives_a_question_sees_its_own_columns_alone() {
        let pool = pool(&["a", "b", "c", "d", "e"]);
        let items = [item("1", "x", &[0]), item("2", "x", &[1])];
        let items: Vec<&Item> = items.iter().collect();
        let columns = Columns::new([(0, vec![2, 3]), (1, vec![4])].into_iter());
        assert_eq!(columns.passages, [0, 1, 2, 3, 4]);
        let alone = options(|options| options.in_batch = false);
        assert_eq!(columns.masked(&items, &pool, &alone), [(0, 1), (0, 4), (1, 0), (1, 2), (1, 3)]);
    }
}
