//! What is measured on dev questions, by what is trained.

use serde::{Deserialize, Serialize};

use super::evaluate::DevScores;

/// How near a student comes to its teacher on the dev questions.
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

/// What was measured on the dev questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// Of a question encoder and a passage encoder.
    Retrieval(DevScores),
    /// Of a student beside its teacher.
    Student(StudentScores),
}

impl Scores {
    /// Whether these are the better ones: by average rank, as in the paper's code, or by cosine to the teacher.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        self.distance() < other.distance()
    }

    fn distance(&self) -> f64 {
        match self {
            Self::Retrieval(scores) => scores.average_rank,
            Self::Student(scores) => 1.0 - scores.cosine,
        }
    }

    /// The loss on the dev questions.
    pub fn loss(&self) -> f64 {
        match self {
            Self::Retrieval(scores) => scores.loss,
            Self::Student(scores) => scores.loss,
        }
    }

    /// What the curves show: names and shares from 0 to 1.
    pub(super) fn shares(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Retrieval(scores) => vec![("top-1", scores.top1), ("top-5", scores.top5)],
            Self::Student(scores) => {
                let mut shares = vec![("cosine to the teacher", scores.cosine)];
                shares.extend(scores.shared.map(|shared| ("of the teacher's best 20 passages", shared)));
                shares
            }
        }
    }
}
