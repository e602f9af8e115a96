//! Scores on dev questions, of retrieval, of distillation, of readers and of rerankers.

use serde::{Deserialize, Serialize};

use super::evaluate::DevScores;

/// The agreement of a student with its teacher on the dev questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudentScores {
    /// Questions measured.
    pub questions: usize,
    /// Mean cosine of the student's vector and the teacher's.
    pub cosine: f64,
    /// Share of the teacher's best 20 passages that are among the student's best 20; `None` without passages.
    pub shared: Option<f64>,
    /// Mean loss in batches made as in training.
    pub loss: f64,
}

/// Scores of a reader on the dev questions, each with its positive and its negatives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReaderScores {
    /// Questions measured.
    pub questions: usize,
    /// Share of the questions whose answer, the best span of the chosen passage, equals an accepted one.
    pub exact_match: f64,
    /// Mean F1 of these answers.
    pub f1: f64,
    /// Exact match of the best span of the positive.
    pub gold_exact_match: f64,
    /// Share of the questions whose positive is chosen.
    pub selected: f64,
    /// Mean loss.
    pub loss: f64,
}

/// Scores of a reranker on the dev questions, each with its positive and its negatives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RerankerScores {
    /// Questions measured.
    pub questions: usize,
    /// Mean reciprocal rank of the positive.
    pub reciprocal_rank: f64,
    /// Share of the questions whose positive scores best.
    pub first: f64,
    /// Mean loss.
    pub loss: f64,
}

/// Scores measured on the dev questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// Scores of a question encoder and a passage encoder.
    Retrieval(DevScores),
    /// Scores of a student against its teacher.
    Student(StudentScores),
    /// Scores of a reader.
    Reader(ReaderScores),
    /// Scores of a reranker.
    Reranker(RerankerScores),
}

impl Scores {
    /// Returns whether these scores are better than `other`: by average rank, as in the paper's code, by cosine to
    /// the teacher, by exact match, or by the reciprocal rank.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        self.distance() < other.distance()
    }

    fn distance(&self) -> f64 {
        match self {
            Self::Retrieval(scores) => scores.average_rank,
            Self::Student(scores) => 1.0 - scores.cosine,
            Self::Reader(scores) => 1.0 - scores.exact_match,
            Self::Reranker(scores) => 1.0 - scores.reciprocal_rank,
        }
    }

    /// Returns the loss on the dev questions.
    pub fn loss(&self) -> f64 {
        match self {
            Self::Retrieval(scores) => scores.loss,
            Self::Student(scores) => scores.loss,
            Self::Reader(scores) => scores.loss,
            Self::Reranker(scores) => scores.loss,
        }
    }

    /// Returns the shares that the curves show: names and numbers from 0 to 1.
    pub(super) fn shares(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Retrieval(scores) => vec![("top-1", scores.top1), ("top-5", scores.top5)],
            Self::Student(scores) => {
                let mut shares = vec![("cosine to the teacher", scores.cosine)];
                shares.extend(scores.shared.map(|shared| ("of the teacher's best 20 passages", shared)));
                shares
            }
            Self::Reader(scores) => vec![
                ("exact match", scores.exact_match),
                ("F1", scores.f1),
                ("exact match in the positive", scores.gold_exact_match),
                ("positive chosen", scores.selected),
            ],
            Self::Reranker(scores) => {
                vec![("reciprocal rank", scores.reciprocal_rank), ("positive first", scores.first)]
            }
        }
    }
}
