//! Settings of a run's data: files, negatives, and the measure on dev questions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One training file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// DPR training json, plain or `.gz`.
    pub path: PathBuf,
    /// The number of times that each question of the file is seen in an epoch; 0.5 sees every other question.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

/// The source of a question's negatives, the passages that do not answer it (paper §5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Negatives {
    /// The item's hard negatives, beside the batch's other passages; random ones for an item that has none.
    #[default]
    Hard,
    /// The item's random negatives, beside the batch's other passages.
    Random,
    /// The other questions' positives: those of the batch alone, or without [`DataOptions::in_batch`] ones drawn from
    /// all questions.
    Gold,
}

/// Negatives that a question brings into a batch, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NegativeCounts {
    /// The item's hard negatives; random ones for an item that has none.
    pub hard: usize,
    /// The item's random negatives.
    pub random: usize,
    /// Positives of other questions, drawn from all.
    pub gold: usize,
}

impl NegativeCounts {
    /// Returns the number of negatives of all kinds.
    pub fn total(&self) -> usize {
        self.hard + self.random + self.gold
    }
}

/// The data of a run: training files and dev files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataOptions {
    /// Training files, mixed with their weights.
    pub train: Vec<DataFile>,
    /// Files whose questions measure each epoch; they decide which checkpoint is best.
    pub dev: Vec<PathBuf>,
    /// Kind of negatives.
    pub negatives: Negatives,
    /// Negatives a question brings into the batch, beside its positive.
    pub negatives_per_question: usize,
    /// Negatives of several kinds for each question, as `{ hard = 1, random = 1 }`, in place of the two settings above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed_negatives: Option<NegativeCounts>,
    /// Use the other questions' passages as negatives too; `false` leaves a question those that it brings (the first
    /// rows of the paper's Table 3).
    pub in_batch: bool,
    /// Passages of other questions whose text holds one of a question's answers do not count as its negatives. In the
    /// paper they do; RocketQA (Qu et al. 2021) found that such false negatives do harm.
    pub mask_answers: bool,
    /// Hard and random negatives of a question that are kept, each, of which an epoch draws; where a question brings
    /// more of a kind into a batch, as many as that.
    pub kept_negatives: usize,
    /// Draw the negatives anew in each epoch, as the released code does; otherwise take the first, the hardest ones.
    pub shuffle_negatives: bool,
    /// Draw the positive anew in each epoch; otherwise take the first, the best one.
    pub shuffle_positives: bool,
    /// Batches whose questions are sorted by length among themselves, so that a batch has little padding; 1 for none,
    /// as in the paper, whose batches are random. In either case a batch holds no passage as the positive of two
    /// questions, as far as that can be.
    pub bucket: usize,
    /// Questions of the dev files that are used, at most, drawn by the seed; 1 at least where there are dev files. Each
    /// measurement encodes up to 1 + `dev_hard_negatives` + `dev_random_negatives` passages for each.
    pub dev_questions: usize,
    /// Hard negatives of each dev question among which the average rank is taken.
    pub dev_hard_negatives: usize,
    /// Random negatives of each dev question likewise.
    pub dev_random_negatives: usize,
}

impl Default for DataOptions {
    fn default() -> Self {
        Self {
            train: Vec::new(),
            dev: Vec::new(),
            negatives: Negatives::Hard,
            negatives_per_question: 1,
            mixed_negatives: None,
            in_batch: true,
            mask_answers: false,
            kept_negatives: 30,
            shuffle_negatives: true,
            shuffle_positives: false,
            bucket: 16,
            dev_questions: 300,
            dev_hard_negatives: 30,
            dev_random_negatives: 30,
        }
    }
}

impl DataOptions {
    /// Returns the hard and the random negatives of a training question that are kept, at most: no fewer than it brings
    /// into a batch, where random ones stand in for hard ones that an item lacks.
    pub fn kept(&self) -> (usize, usize) {
        let NegativeCounts { hard, random, .. } = self.negative_counts();
        (self.kept_negatives.max(hard), self.kept_negatives.max(hard.saturating_add(random)))
    }

    /// Returns the negatives that a question brings into a batch.
    pub fn negative_counts(&self) -> NegativeCounts {
        let count = self.negatives_per_question;
        match (self.mixed_negatives, self.negatives) {
            (Some(mixed), _) => mixed,
            (None, Negatives::Hard) => NegativeCounts { hard: count, ..NegativeCounts::default() },
            (None, Negatives::Random) => NegativeCounts { random: count, ..NegativeCounts::default() },
            // The batch's other positives are there already.
            (None, Negatives::Gold) if self.in_batch => NegativeCounts::default(),
            (None, Negatives::Gold) => NegativeCounts { gold: count, ..NegativeCounts::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings as _, TrainConfig};
    use super::*;

    #[test]
    fn negatives_of_one_kind_and_of_several_are_counts() {
        let counts = |text: &str| toml::from_str::<DataOptions>(text).unwrap().negative_counts();
        let of = |hard, random, gold| NegativeCounts { hard, random, gold };
        assert_eq!(counts(""), of(1, 0, 0));
        assert_eq!(counts("negatives = \"random\"\nnegatives_per_question = 7"), of(0, 7, 0));
        assert_eq!(counts("negatives = \"gold\"\nnegatives_per_question = 7"), of(0, 0, 0));
        let alone = "negatives = \"gold\"\nnegatives_per_question = 7\nin_batch = false";
        assert_eq!(counts(alone), of(0, 0, 7));
        assert_eq!(counts("mixed_negatives = { hard = 2, gold = 1 }"), of(2, 0, 1));
        let mut config = TrainConfig::default();
        config.data.mixed_negatives = Some(of(1, 1, 0));
        assert_eq!(toml::from_str::<TrainConfig>(&config.to_toml().unwrap()).unwrap(), config);
    }
}
