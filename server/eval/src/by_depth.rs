//! Reading by depth: exact match and F1 of what a reader answers from the first k passages of a search (paper §6).

use dpr_data::Answers;
use serde::Serialize;

use super::accepted::Accepted;
use super::{ReadingError, ReadingRules, ReadingScore};

/// The depths that are reported where none are named.
pub const DEFAULT_DEPTHS: [usize; 6] = [1, 5, 10, 20, 50, 100];

/// A question, and what a reader found in each of its passages, in the order of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadQuestion {
    /// The question, for errors.
    pub text: String,
    /// Accepted answers.
    pub answers: Answers,
    /// Its passages.
    pub passages: Vec<ReadPassage>,
}

/// The result of reading one passage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadPassage {
    /// The best span; `None` where the passage has no text.
    pub answer: Option<String>,
    /// The score by which the passage is chosen.
    pub selection: Option<f64>,
    /// `true` if the passage's text holds one of the accepted answers.
    pub has_answer: bool,
}

/// The figures of one depth, over all questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DepthReport {
    /// Passages that are read of each question.
    pub depth: usize,
    /// Share of the questions whose answer, the best span of the chosen passage, equals an accepted one.
    pub exact_match: f64,
    /// Mean F1 of these answers. Patterns have no words to share: an answer that matches one counts 1.
    pub f1: f64,
    /// Share of the questions of which some passage's best span equals an accepted answer: the exact match of a perfect
    /// choice of passages.
    pub oracle: f64,
    /// Share of the questions of which some passage holds an accepted answer: the accuracy of the search.
    pub retrieved: f64,
    /// Share of those questions of which the chosen passage holds one; 0 where there are none.
    pub selection_accuracy: f64,
}

/// Measures what a reader answers from the first passages of each question, once for each of `depths`. A question of
/// fewer passages is answered from those that it has, and one without any counts 0.
///
/// An answer equals a pattern (CuratedTREC) that matches at its beginning, with case ignored, as DrQA's evaluation has
/// it (Chen et al. 2017); a pattern that is not a regular expression never matches.
///
/// # Errors
/// [`ReadingError`] when there are no questions, or one has no answers.
pub fn measure_depths(
    questions: &[ReadQuestion],
    depths: &[usize],
    rules: ReadingRules,
) -> Result<Vec<DepthReport>, ReadingError> {
    if questions.is_empty() {
        return Err(ReadingError::NoQuestions);
    }
    if let Some(question) = questions.iter().find(|question| question.answers.is_empty()) {
        return Err(ReadingError::NoAnswers { id: question.text.clone() });
    }
    let scored: Vec<Vec<Option<ReadingScore>>> =
        questions.iter().map(|question| scores(question, rules)).collect();
    Ok(depths.iter().map(|depth| at_depth(questions, &scored, *depth)).collect())
}

/// Returns the score of the answer in each passage of a question.
fn scores(question: &ReadQuestion, rules: ReadingRules) -> Vec<Option<ReadingScore>> {
    let accepted = Accepted::new(&question.answers, rules);
    let score = |passage: &ReadPassage| passage.answer.as_deref().map(|answer| accepted.score(answer));
    question.passages.iter().map(score).collect()
}

fn at_depth(questions: &[ReadQuestion], scored: &[Vec<Option<ReadingScore>>], depth: usize) -> DepthReport {
    let (mut exact, mut f1, mut oracle, mut retrieved, mut selected) = (0u32, 0.0, 0u32, 0u32, 0u32);
    for (question, scores) in questions.iter().zip(scored) {
        let passages = &question.passages[..depth.min(question.passages.len())];
        let scores = &scores[..passages.len()];
        let mut chosen: Option<(usize, f64)> = None;
        for (index, passage) in passages.iter().enumerate() {
            if let (Some(_), Some(selection)) = (&passage.answer, passage.selection)
                && chosen.is_none_or(|(_, best)| selection > best)
            {
                chosen = Some((index, selection));
            }
        }
        if let Some((index, _)) = chosen {
            let score = scores[index];
            exact += u32::from(score.is_some_and(|score| score.exact));
            f1 += score.map_or(0.0, |score| score.f1);
        }
        oracle += u32::from(scores.iter().flatten().any(|score| score.exact));
        if passages.iter().any(|passage| passage.has_answer) {
            retrieved += 1;
            selected += u32::from(chosen.is_some_and(|(index, _)| passages[index].has_answer));
        }
    }
    let share = |count: u32| f64::from(count) / questions.len() as f64;
    DepthReport {
        depth,
        exact_match: share(exact),
        f1: f1 / questions.len() as f64,
        oracle: share(oracle),
        retrieved: share(retrieved),
        selection_accuracy: if retrieved > 0 { f64::from(selected) / f64::from(retrieved) } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(answer: &str, selection: f64, has_answer: bool) -> ReadPassage {
        ReadPassage { answer: Some(answer.into()), selection: Some(selection), has_answer }
    }

    fn question(answer: &str, passages: Vec<ReadPassage>) -> ReadQuestion {
        ReadQuestion { text: "who?".into(), answers: Answers::Texts(vec![answer.into()]), passages }
    }

    #[test]
    fn each_depth_chooses_among_its_own_passages() {
        let questions = [
            question(
                "Rome",
                vec![
                    passage("Athens", 1.0, false),
                    passage("old Rome", 2.0, true),
                    passage("Rome", 1.5, true),
                    passage("Paris", 3.0, false),
                ],
            ),
            question("Oslo", vec![passage("the Oslo", 0.0, true)]),
            question("Bern", vec![]),
            question("Bonn", vec![ReadPassage { has_answer: true, ..ReadPassage::default() }]),
        ];
        let reports = measure_depths(&questions, &[1, 2, 3, 4, 100], ReadingRules::Squad).unwrap();
        let figures: Vec<_> = reports
            .iter()
            .map(|r| (r.exact_match, r.f1, r.oracle, r.retrieved, r.selection_accuracy))
            .collect();
        let two_thirds = 2.0 / 3.0;
        assert_eq!(figures[0], (0.25, 0.25, 0.25, 0.5, 0.5));
        assert_eq!(figures[1], (0.25, (1.0 + two_thirds) / 4.0, 0.25, 0.75, two_thirds));
        assert_eq!(figures[2], (0.25, (1.0 + two_thirds) / 4.0, 0.5, 0.75, two_thirds));
        assert_eq!(figures[3], (0.25, 0.25, 0.5, 0.75, 1.0 / 3.0));
        assert_eq!(figures[4], figures[3]);
    }

    #[test]
    fn questions_that_cannot_be_measured_are_refused() {
        let measure = |questions: &[ReadQuestion]| measure_depths(questions, &[1], ReadingRules::Squad);
        assert!(matches!(measure(&[]), Err(ReadingError::NoQuestions)));
        let silent = ReadQuestion { answers: Answers::default(), ..question("x", vec![]) };
        assert!(matches!(measure(&[silent]), Err(ReadingError::NoAnswers { id }) if id == "who?"));
    }

    #[test]
    fn a_pattern_matches_an_answer_from_its_beginning() {
        let asked = |pattern: &str, answer: &str| {
            let passages = vec![passage(answer, 1.0, true)];
            let answers = Answers::Patterns(vec![pattern.into(), "(never".into()]);
            let question = ReadQuestion { text: "when?".into(), answers, passages };
            let report = measure_depths(&[question], &[1], ReadingRules::Squad).unwrap()[0];
            (report.exact_match, report.f1)
        };
        assert_eq!(asked(r"(19)?6\d|sixt(y|ies)", "1965"), (1.0, 1.0));
        assert_eq!(asked(r"(19)?6\d|sixt(y|ies)", "Sixties music"), (1.0, 1.0));
        assert_eq!(asked(r"(19)?6\d|sixt(y|ies)", "the sixties"), (0.0, 0.0));
        assert_eq!(asked("caf\u{e9}", "Cafe\u{301}"), (1.0, 1.0));
    }
}
