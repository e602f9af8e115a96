//! Answer matching: whether a passage holds an answer, by the rules of the paper's evaluation.

use memchr::memmem::Finder;

use super::pattern::Pattern;
use super::tokens::{TokenizedPassage, nfd, token_run};
use dpr_data::Answers;

/// The reason why a question's answers cannot be looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The question lists no answers.
    #[error("question {question:?} lists no answers: give it some, or leave it out")]
    None {
        /// The question, as it was named.
        question: String,
    },
    /// No answer holds anything that could stand in a passage.
    #[error(
        "question {question:?}: all of its answers ({answers:?}) are empty after normalisation (no letter, digit or \
         sign is left): correct them, or leave the question out"
    )]
    Empty {
        /// The question, as it was named.
        question: String,
        /// Its answers.
        answers: Vec<String>,
    },
}

/// A pattern that never matches, because it is not a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer pattern {pattern:?} is not a valid regular expression and never matches: {reason}")]
pub struct InvalidPattern {
    /// As the question lists it.
    pub pattern: String,
    /// The reason why it is not valid.
    pub reason: String,
}

/// One question's answers, ready to be looked for in passages.
///
/// An answer text is in a passage when its tokens are a contiguous run of the passage's. Both are decomposed
/// (NFD) and cut by `([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])`, and tokens are lower-cased: the rules of Karpukhin et
/// al. 2020, as released. A pattern (CuratedTREC) is decomposed and searched in the decomposed text, with
/// case ignored, `^` and `$` at every line, and Unicode classes.
///
/// # Where Python differs
/// Characters of different Unicode versions aside, texts match as in Python. Patterns match as in Python except that
/// `I` does not match a dotless `ı`; `\w` and `\d` count a few rare signs otherwise; look-behind of variable length,
/// fuzzy matching and `\h \m \M \G \K \N \R \X` are reported as invalid.
#[derive(Debug)]
pub struct AnswerMatcher {
    answers: Matchers,
    invalid: Vec<InvalidPattern>,
    empty: usize,
}

#[derive(Debug)]
enum Matchers {
    /// Searchers, each for the token run of one answer.
    Texts(Vec<Finder<'static>>),
    Patterns(Vec<Pattern>),
}

impl AnswerMatcher {
    /// Prepares the answers of the question that `question` names (its id or its text) in errors.
    ///
    /// An answer that is empty after normalisation would be found in every passage: it is left out, and
    /// [`Self::empty_answers`] counts it. A pattern that does not compile never matches, and [`Self::invalid_patterns`]
    /// reports it.
    ///
    /// # Errors
    /// [`AnswerError`] when there are no answers, or all are empty after normalisation.
    pub fn new(question: &str, answers: &Answers) -> Result<Self, AnswerError> {
        if answers.is_empty() {
            return Err(AnswerError::None { question: question.to_owned() });
        }
        let given = answers.as_slice();
        let mut invalid = Vec::new();
        let (answers, empty) = match answers {
            Answers::Texts(texts) => {
                let mut runs: Vec<String> =
                    texts.iter().map(|text| token_run(text)).filter(|run| !run.is_empty()).collect();
                let empty = texts.len() - runs.len();
                // Lists of aliases repeat themselves in other case.
                runs.sort_unstable();
                runs.dedup();
                (Matchers::Texts(runs.iter().map(|run| Finder::new(run).into_owned()).collect()), empty)
            }
            Answers::Patterns(patterns) => {
                let mut compiled = Vec::new();
                let filled = patterns.iter().filter(|pattern| !pattern.trim().is_empty());
                for pattern in filled.clone() {
                    match Pattern::new(pattern) {
                        Ok(pattern) => compiled.push(pattern),
                        Err(reason) => invalid.push(InvalidPattern { pattern: pattern.clone(), reason }),
                    }
                }
                (Matchers::Patterns(compiled), patterns.len() - filled.count())
            }
        };
        if empty == given.len() {
            return Err(AnswerError::Empty { question: question.to_owned(), answers: given.to_vec() });
        }
        Ok(Self { answers, invalid, empty })
    }

    /// Returns the number of answers that were left out because nothing of them is left after normalisation.
    pub fn empty_answers(&self) -> usize {
        self.empty
    }

    /// Returns the patterns that never match because they are not regular expressions.
    pub fn invalid_patterns(&self) -> &[InvalidPattern] {
        &self.invalid
    }

    /// Returns whether a text, without its title, holds an answer. For passages that several questions share,
    /// [`Self::matches_passage`] does the work of cutting once.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_passage(&TokenizedPassage::new(text))
    }

    /// Returns whether the passage holds an answer.
    pub fn matches_passage(&self, passage: &TokenizedPassage<'_>) -> bool {
        match &self.answers {
            Matchers::Texts(finders) => {
                let run = passage.run().as_bytes();
                finders.iter().any(|finder| finder.find(run).is_some())
            }
            Matchers::Patterns(patterns) => {
                let text = nfd(passage.text());
                patterns.iter().any(|pattern| pattern.is_match(&text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Answers {
        Answers::Texts(list.iter().map(|text| (*text).to_owned()).collect())
    }

    fn patterns(list: &[&str]) -> Answers {
        Answers::Patterns(list.iter().map(|text| (*text).to_owned()).collect())
    }

    fn holds(answer: &str, text: &str) -> bool {
        AnswerMatcher::new("q", &texts(&[answer])).unwrap().matches(text)
    }

    #[test]
    fn an_answer_is_a_run_of_whole_tokens() {
        assert!(holds("new york", "In New  York, 1901"));
        assert!(holds("York, 19", "New York ,19"));
        assert!(!holds("york 1901", "In New York, 1901"));
        assert!(!holds("190", "In New York, 1901"));
        assert!(!holds("in the", "In"));
    }

    #[test]
    fn any_of_the_answers_will_do() {
        let matcher = AnswerMatcher::new("q", &texts(&["Rome", "ROME", "Café"])).unwrap();
        let passages: Vec<_> = ["a cafe\u{301} there", "rome", "Romeo"].map(TokenizedPassage::new).into();
        let found: Vec<bool> = passages.iter().map(|passage| matcher.matches_passage(passage)).collect();
        assert_eq!(found, [true, true, false]);
    }

    #[test]
    fn an_invalid_pattern_never_matches_and_is_reported() {
        let matcher = AnswerMatcher::new("q", &patterns(&["(Crick", "Wat.on"])).unwrap();
        assert!(matcher.matches("james WATSON") && !matcher.matches("(Crick"));
        assert_eq!(matcher.invalid_patterns().len(), 1);
        let message = matcher.invalid_patterns()[0].to_string();
        assert!(message.contains("\"(Crick\"") && !message.contains('\n'), "{message}");
    }

    #[test]
    fn an_alias_that_is_empty_after_normalisation_is_left_out_and_counted() {
        let matcher = AnswerMatcher::new("who?", &texts(&["\u{200b} \u{ad}", "Rome", ""])).unwrap();
        assert!(matcher.matches("in Rome") && !matcher.matches("in Athens"));
        assert_eq!(matcher.empty_answers(), 2);
        let matcher = AnswerMatcher::new("who?", &patterns(&[" ", "R.me"])).unwrap();
        assert!(matcher.matches("Rome") && !matcher.matches(" Athens"));
        assert_eq!(matcher.empty_answers(), 1);
    }

    #[test]
    fn a_question_whose_answers_are_all_empty_is_named() {
        let error = AnswerMatcher::new("who?", &texts(&["\u{200b} \u{ad}"])).unwrap_err();
        assert!(matches!(&error, AnswerError::Empty { question, .. } if question == "who?"));
        assert!(error.to_string().contains("who?"));
        assert!(matches!(AnswerMatcher::new("q", &patterns(&[" "])), Err(AnswerError::Empty { .. })));
        let none = AnswerMatcher::new("q", &texts(&[])).unwrap_err();
        assert_eq!(none.to_string(), "question \"q\" lists no answers: give it some, or leave it out");
    }
}
