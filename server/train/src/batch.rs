//! Batches of questions and passages as the encoders take them.

use std::collections::HashMap;

use super::error::TrainError;
use super::objective::{Targets, Taught};

/// A batch: questions and passages as token ids, with the passages that answer each question.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Token ids of each question.
    pub questions: Vec<Vec<u32>>,
    /// Token ids of each passage: the positives, then the hard negatives.
    pub passages: Vec<Vec<u32>>,
    /// The passages that answer each question.
    pub targets: Targets,
}

impl Batch {
    /// Returns the pairs of a question and a column that must not count as a negative: `columns` are keys of the
    /// passages, `accepted[i]` are the keys that answer question `i`, its positive at column `positive[i]` among
    /// them.
    pub fn false_negatives(
        columns: &[u64],
        accepted: &[Vec<u64>],
        positive: &[usize],
    ) -> Vec<(usize, usize)> {
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        for (column, key) in columns.iter().enumerate() {
            places.entry(*key).or_default().push(column);
        }
        let mut masked = Vec::new();
        for (question, (keys, right)) in accepted.iter().zip(positive).enumerate() {
            let mut found: Vec<usize> =
                keys.iter().filter_map(|key| places.get(key)).flatten().copied().collect();
            found.sort_unstable();
            found.dedup();
            masked
                .extend(found.into_iter().filter(|column| column != right).map(|column| (question, column)));
        }
        masked
    }

    /// Refuses a batch that the objective is not defined for.
    ///
    /// # Errors
    /// [`TrainError::Batch`] says what is wrong.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |what: String| Err(TrainError::Batch { what });
        let (questions, passages) = (self.questions.len(), self.passages.len());
        if questions == 0 || passages < 2 {
            return bad(format!("{questions} questions and {passages} passages; it takes 1 and 2 at least"));
        }
        if self.targets.positive.len() != questions {
            return bad(format!("{questions} questions, but {} positives", self.targets.positive.len()));
        }
        if let Some(column) = self.targets.positive.iter().find(|column| **column >= passages) {
            return bad(format!("positive {column} of {passages} passages"));
        }
        let Targets { taught, .. } = &self.targets;
        let is_known = |taught: &Taught| {
            taught.columns.len() == taught.scores.len() && taught.columns.iter().all(|at| *at < passages)
        };
        if !taught.is_empty() && (taught.len() != questions || !taught.iter().all(is_known)) {
            return bad(format!("a teacher's scores of {} questions, of {questions}", taught.len()));
        }
        match self.targets.masked.iter().find(|(q, p)| *q >= questions || *p >= passages) {
            Some(pair) => bad(format!("masked pair {pair:?} of {questions} questions, {passages} passages")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_question_s_positive_that_is_the_same_passage_is_masked() {
        // Questions 0 and 2 share passage 7; 9, a hard negative of question 0, answers question 1 too.
        let columns = [7, 8, 7, 9, 10];
        let accepted = [vec![7], vec![8, 9], vec![7]];
        let masked = Batch::false_negatives(&columns, &accepted, &[0, 1, 2]);
        assert_eq!(masked, [(0, 2), (1, 3), (2, 0)]);
    }

    #[test]
    fn a_batch_that_does_not_fit_together_is_refused() {
        let whole = Batch {
            questions: vec![vec![1], vec![2]],
            passages: vec![vec![1], vec![2]],
            targets: Targets { positive: vec![0, 1], ..Targets::default() },
        };
        whole.check().unwrap();
        let mut short = whole.clone();
        short.targets.positive = vec![0];
        assert!(short.check().unwrap_err().to_string().contains("1 positives"));
        let mut outside = whole.clone();
        outside.targets.positive = vec![0, 2];
        assert!(outside.check().unwrap_err().to_string().contains("positive 2 of 2"));
        let mut taught = whole.clone();
        let of_both = Taught { columns: vec![0, 1], scores: vec![1.0, 0.0] };
        taught.targets.taught = vec![of_both, Taught::default()];
        taught.check().unwrap();
        taught.targets.taught[0].columns[1] = 2;
        assert!(taught.check().unwrap_err().to_string().contains("a teacher's scores"));
        taught.targets.taught = vec![Taught::default()];
        assert!(taught.check().is_err());
        assert!(Batch::default().check().is_err());
    }
}
