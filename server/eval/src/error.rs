//! Errors of measuring retrieval.

use super::{AnswerError, RankingError, counted};

/// Errors of measuring retrieval.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// No question, so nothing to measure.
    #[error("there are no questions to measure with")]
    NoQuestions,
    /// A question that does not say where its answer is.
    #[error("question {id:?} has no gold passage: give questions that name theirs, as SQuAD json does")]
    NoGold {
        /// The question's id.
        id: String,
    },
    /// A question that does not say what its answer is.
    #[error(
        "question {id:?} has no answer to look for: give questions with answers (`question<TAB>['answer', ...]`, SQuAD json), or qrels"
    )]
    NoAnswer {
        /// The question's id.
        id: String,
    },
    /// The questions are about another corpus.
    #[error(
        "the index does not hold the gold passage of any of {} (the first is {first:?}): was the index built from the \
         passages these questions are about? Over other passages, as blocks of them, judge by answers",
        counted(*questions, "question", "questions")
    )]
    OtherCorpus {
        /// Questions given.
        questions: usize,
        /// The first question's gold passage.
        first: String,
    },
    /// A list of another length than the questions.
    #[error(
        "{} for {}",
        counted(*got, "result list", "result lists"),
        counted(*expected, "question", "questions")
    )]
    Lists {
        /// Lists given.
        got: usize,
        /// Questions given.
        expected: usize,
    },
    /// A question's answers cannot be looked for.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The qrels do not fit the questions or the corpus.
    #[error(transparent)]
    Qrels(#[from] RankingError),
}
