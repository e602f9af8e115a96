//! Top-k accuracy of the gold passage.

use std::collections::HashSet;

use serde::Serialize;

use crate::data::Question;
use crate::index::{LoadedIndex, ScoredRow};

/// Ranks that count for the mean reciprocal rank.
const MRR_AT: usize = 10;

/// Why retrieval cannot be measured.
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
    /// The questions are about another corpus.
    #[error(
        "none of the {questions} questions' gold passages is in the index (the first is {first:?}): was the index built from the passages these questions are about?"
    )]
    OtherCorpus {
        /// Questions given.
        questions: usize,
        /// The first question's gold passage.
        first: String,
    },
    /// A list of another length than the questions.
    #[error("{got} result lists for {expected} questions")]
    Lists {
        /// Lists given.
        got: usize,
        /// Questions given.
        expected: usize,
    },
}

/// Share of the questions whose gold passage is among the first `k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TopK {
    /// Passages looked at.
    pub k: usize,
    /// From 0 to 1.
    pub accuracy: f64,
}

/// Top-k retrieval accuracy (paper §5), with the gold passage itself in the place of any that holds the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetrievalReport {
    /// Questions measured.
    pub questions: usize,
    /// Questions whose gold passage is not in the index; each counts as not found.
    pub gold_not_in_index: usize,
    /// One for each `k` asked for, ascending.
    pub top_k: Vec<TopK>,
    /// Mean reciprocal rank of the gold passage, 0 beyond rank 10.
    pub mrr_at_10: f64,
}

/// The id of each question's gold passage; cheap, so worth asking before an hour of encoding.
///
/// # Errors
/// [`EvalError`] when there are no questions, or one has no gold passage.
pub fn gold_passages(questions: &[Question]) -> Result<Vec<&str>, EvalError> {
    if questions.is_empty() {
        return Err(EvalError::NoQuestions);
    }
    questions
        .iter()
        .map(|question| question.gold.as_deref().ok_or_else(|| EvalError::NoGold { id: question.id.clone() }))
        .collect()
}

/// Measures `results`, the best rows for each of `questions`, best first, at least `max(ks)` and 10 of them
/// (fewer only when the index holds fewer).
///
/// # Errors
/// [`EvalError`] when a question has no gold passage, or none of these is in the index.
pub fn gold_accuracy(
    questions: &[Question],
    results: &[Vec<ScoredRow>],
    index: &LoadedIndex,
    ks: &[usize],
) -> Result<RetrievalReport, EvalError> {
    let ids: HashSet<&str> = index.passages().iter().map(|passage| passage.id.as_str()).collect();
    let ranks = results.iter().map(|rows| rows.iter().map(|hit| index.passage(hit.row).id.as_str()));
    measure(questions, ranks, &ids, ks)
}

fn measure<'a>(
    questions: &[Question],
    results: impl ExactSizeIterator<Item = impl Iterator<Item = &'a str>>,
    ids: &HashSet<&str>,
    ks: &[usize],
) -> Result<RetrievalReport, EvalError> {
    let golds = gold_passages(questions)?;
    if results.len() != questions.len() {
        return Err(EvalError::Lists { got: results.len(), expected: questions.len() });
    }
    let mut ranks = Vec::with_capacity(questions.len());
    let mut absent = 0;
    for (gold, mut found) in golds.iter().zip(results) {
        absent += usize::from(!ids.contains(gold));
        ranks.push(found.position(|id| id == *gold).map(|position| position + 1));
    }
    let count = questions.len();
    if absent == count {
        return Err(EvalError::OtherCorpus { questions: count, first: golds[0].to_owned() });
    }
    let mut ks = ks.to_vec();
    ks.sort_unstable();
    ks.dedup();
    let within = |k: usize| ranks.iter().flatten().filter(|rank| **rank <= k).count() as f64 / count as f64;
    let reciprocal = |rank: &usize| if *rank <= MRR_AT { 1.0 / *rank as f64 } else { 0.0 };
    Ok(RetrievalReport {
        questions: count,
        gold_not_in_index: absent,
        top_k: ks.into_iter().map(|k| TopK { k, accuracy: within(k) }).collect(),
        mrr_at_10: ranks.iter().flatten().map(reciprocal).sum::<f64>() / count as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, gold: Option<&str>) -> Question {
        let gold = gold.map(str::to_owned);
        Question { id: id.into(), text: "who?".into(), answers: Vec::new(), gold }
    }

    fn run(questions: &[Question], found: &[&[&'static str]]) -> Result<RetrievalReport, EvalError> {
        let ids = HashSet::from(["a", "b", "c", "d"]);
        measure(questions, found.iter().map(|ids| ids.iter().copied()), &ids, &[3, 1, 2])
    }

    #[test]
    fn accuracy_counts_the_gold_passage_within_k() {
        let questions = [
            question("1", Some("a")),
            question("2", Some("b")),
            question("3", Some("c")),
            question("4", Some("z")),
        ];
        let found: [&[&str]; 4] = [&["a", "b", "c"], &["c", "b", "a"], &["a", "b", "d"], &["a", "b", "c"]];
        let report = run(&questions, &found).unwrap();
        let accuracies: Vec<_> = report.top_k.iter().map(|top| (top.k, top.accuracy)).collect();
        assert_eq!(accuracies, [(1, 0.25), (2, 0.5), (3, 0.5)]);
        assert_eq!(report.mrr_at_10, (1.0 + 0.5) / 4.0);
        assert_eq!((report.questions, report.gold_not_in_index), (4, 1));
    }

    #[test]
    fn questions_that_cannot_be_measured_are_refused() {
        assert!(matches!(run(&[], &[]), Err(EvalError::NoQuestions)));
        assert!(matches!(run(&[question("7", None)], &[&["a"]]), Err(EvalError::NoGold { id }) if id == "7"));
        let other = run(&[question("1", Some("x")), question("2", Some("y"))], &[&["a"], &["b"]]);
        assert!(matches!(other, Err(EvalError::OtherCorpus { questions: 2, first }) if first == "x"));
    }
}
