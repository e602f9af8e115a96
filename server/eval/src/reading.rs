//! Reading measures: exact match and F1 of predicted answers, by the rules of SQuAD v1.1 and of KorQuAD.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::accepted::Accepted;
use super::counted;
use super::rules::ReadingRules;
use dpr_data::{DataError, Question, read_text};

/// The reason why predictions cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadingError {
    /// The file cannot be read, or its gzip data is damaged.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The file is not a JSON object of texts.
    #[error("{}: a predictions file is one JSON object, {{\"question id\": \"answer text\", ...}}: {reason}", path.display())]
    Predictions {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        reason: String,
    },
    /// There is no question, so there is nothing to measure.
    #[error("there are no questions to measure with")]
    NoQuestions,
    /// A question that does not say what its answer is.
    #[error("question {id:?} lists no answers: give questions with answers, as SQuAD json does")]
    NoAnswers {
        /// The question's id.
        id: String,
    },
    /// Not one prediction is about one of the questions.
    #[error(
        "of {} none is for one of the {} (the first is {first:?}): are both of the same set?",
        counted(*predictions, "prediction", "predictions"),
        counted(*questions, "question", "questions")
    )]
    OtherQuestions {
        /// Predictions given.
        predictions: usize,
        /// Questions given.
        questions: usize,
        /// The first question's id.
        first: String,
    },
}

/// Means over all questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadingReport {
    /// Whose rules were used.
    pub rules: ReadingRules,
    /// Questions measured.
    pub questions: usize,
    /// Share of the predictions that equal an answer, from 0 to 1.
    pub exact_match: f64,
    /// Mean F1, from 0 to 1. Patterns have no words to share: a prediction that matches one counts 1.
    pub f1: f64,
    /// Answer patterns that are not regular expressions and never match.
    pub invalid_patterns: usize,
    /// Questions without a prediction; each counts 0.
    pub missing: usize,
    /// Predictions for no question of the set; they do not count.
    pub unknown: usize,
}

/// Reads predictions: one JSON object of question ids and answer texts, also gzip-compressed.
///
/// # Errors
/// [`ReadingError`] with the file and what is wrong in it.
pub fn read_predictions(path: &Path) -> Result<HashMap<String, String>, ReadingError> {
    serde_json::from_str(&read_text(path)?)
        .map_err(|error| ReadingError::Predictions { path: path.to_path_buf(), reason: error.to_string() })
}

/// Measures `predictions` (question id to answer text) on all of `questions`.
///
/// A prediction equals a pattern (CuratedTREC) that matches at its beginning, with case ignored, as DrQA's evaluation
/// has it (Chen et al. 2017); a pattern that is not a regular expression never matches.
///
/// # Errors
/// [`ReadingError`] when a question has no answers, or no prediction is for one of the questions.
pub fn measure_reading(
    questions: &[Question],
    predictions: &HashMap<String, String>,
    rules: ReadingRules,
) -> Result<ReadingReport, ReadingError> {
    let first = questions.first().ok_or(ReadingError::NoQuestions)?;
    let (mut exact, mut f1, mut missing, mut invalid_patterns) = (0usize, 0.0, 0usize, 0usize);
    for question in questions {
        if question.answers.is_empty() {
            return Err(ReadingError::NoAnswers { id: question.id.clone() });
        }
        let accepted = Accepted::new(&question.answers, rules);
        invalid_patterns += accepted.invalid_patterns;
        let Some(prediction) = predictions.get(&question.id) else {
            missing += 1;
            continue;
        };
        let score = accepted.score(prediction);
        exact += usize::from(score.exact);
        f1 += score.f1;
    }
    let count = questions.len();
    if missing == count {
        let predictions = predictions.len();
        return Err(ReadingError::OtherQuestions { predictions, questions: count, first: first.id.clone() });
    }
    // A set may have a question twice: its prediction is one.
    let ids: HashSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    Ok(ReadingReport {
        rules,
        questions: count,
        exact_match: exact as f64 / count as f64,
        f1: f1 / count as f64,
        invalid_patterns,
        missing,
        unknown: predictions.keys().filter(|id| !ids.contains(id.as_str())).count(),
    })
}

#[cfg(test)]
mod tests {
    use dpr_data::Answers;

    use super::*;

    fn score(rules: ReadingRules, prediction: &str, answers: &[&str]) -> (bool, f64) {
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let score = rules.score(prediction, &answers);
        (score.exact, score.f1)
    }

    fn question(id: &str, answers: Answers) -> Question {
        Question { id: id.into(), text: "who?".into(), answers, gold: None }
    }

    fn said(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn squad_ignores_case_punctuation_and_articles() {
        let squad = ReadingRules::Squad;
        assert_eq!(score(squad, "the Denver  Broncos!", &["Broncos", "Denver Broncos"]), (true, 1.0));
        assert_eq!(score(squad, "Denver", &["Denver Broncos"]), (false, 2.0 / 3.0));
        assert_eq!(score(squad, "A theme", &["theme"]), (true, 1.0));
        assert_eq!(score(squad, "one one", &["one two"]), (false, 0.5));
    }

    #[test]
    fn korquad_compares_characters_and_keeps_articles() {
        let korquad = ReadingRules::KorQuad;
        assert_eq!(score(korquad, "《훈민정음》", &["훈민정음"]), (true, 1.0));
        assert_eq!(score(korquad, "서울 시", &["서울시"]), (false, 1.0));
        assert_eq!(score(korquad, "서울은", &["서울"]), (false, 0.8));
        assert_eq!(score(korquad, "the x", &["x"]), (false, 0.4));
    }

    #[test]
    fn an_answer_of_articles_alone_matches_itself_exactly_but_has_no_words() {
        assert_eq!(score(ReadingRules::Squad, "The", &["a"]), (true, 0.0));
    }

    #[test]
    fn missing_predictions_count_nothing() {
        let questions = ["1", "2"].map(|id| question(id, Answers::Texts(vec!["Rome".into()])));
        let report =
            measure_reading(&questions, &said(&[("2", "rome"), ("9", "x")]), ReadingRules::Squad).unwrap();
        assert_eq!((report.exact_match, report.f1, report.missing, report.unknown), (0.5, 0.5, 1, 1));
    }

    #[test]
    fn a_question_that_is_there_twice_counts_twice_and_its_prediction_is_not_unknown() {
        let questions = ["1", "1", "2"].map(|id| question(id, Answers::Texts(vec!["Rome".into()])));
        let measure = |pairs: &[(&str, &str)]| {
            let report = measure_reading(&questions, &said(pairs), ReadingRules::Squad).unwrap();
            (report.questions, report.exact_match, report.missing, report.unknown)
        };
        assert_eq!(measure(&[("1", "rome")]), (3, 2.0 / 3.0, 1, 0));
        assert_eq!(measure(&[("1", "rome"), ("2", "rome"), ("9", "x")]), (3, 1.0, 0, 1));
    }

    #[test]
    fn a_pattern_is_an_answer_that_a_prediction_matches_from_its_beginning() {
        let patterns =
            |list: &[&str]| Answers::Patterns(list.iter().map(|text| (*text).to_owned()).collect());
        let questions = [
            question("1", patterns(&[r"Wat.on( and Crick)?", "(never"])),
            question("2", patterns(&[r"(19)?6\d|sixt(y|ies)"])),
            question("3", patterns(&["caf\u{e9}"])),
        ];
        let said = said(&[("1", "WATSON"), ("2", "the sixties"), ("3", "Cafe\u{301} Royal")]);
        let report = measure_reading(&questions, &said, ReadingRules::Squad).unwrap();
        assert_eq!((report.exact_match, report.f1, report.invalid_patterns), (2.0 / 3.0, 2.0 / 3.0, 1));
    }

    #[test]
    fn questions_that_cannot_be_measured_are_refused() {
        let measure =
            |answers| measure_reading(&[question("7", answers)], &said(&[("1", "x")]), ReadingRules::Squad);
        assert!(matches!(measure(Answers::default()), Err(ReadingError::NoAnswers { id }) if id == "7"));
        assert!(matches!(measure(Answers::Patterns(vec![])), Err(ReadingError::NoAnswers { .. })));
        let other = measure(Answers::Texts(vec!["x".into()]));
        assert!(matches!(other, Err(ReadingError::OtherQuestions { predictions: 1, .. })));
        assert!(matches!(
            measure_reading(&[], &said(&[]), ReadingRules::Squad),
            Err(ReadingError::NoQuestions)
        ));
    }
}
