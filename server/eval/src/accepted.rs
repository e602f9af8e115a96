//! Accepted answers of a question, texts or patterns, as predictions are compared with them.

use super::pattern::Pattern;
use super::tokens::nfd;
use super::{ReadingRules, ReadingScore};
use dpr_data::Answers;

/// The accepted answers of one question, ready to be compared with any number of predictions.
pub(super) struct Accepted<'a> {
    kind: AcceptedKind<'a>,
    /// Patterns that are not regular expressions and never match.
    pub(super) invalid_patterns: usize,
}

enum AcceptedKind<'a> {
    Texts(ReadingRules, &'a [String]),
    /// Patterns that match at the beginning of a prediction alone.
    Patterns(Vec<Pattern>),
}

impl<'a> Accepted<'a> {
    pub(super) fn new(answers: &'a Answers, rules: ReadingRules) -> Self {
        match answers {
            Answers::Texts(texts) => Self { kind: AcceptedKind::Texts(rules, texts), invalid_patterns: 0 },
            Answers::Patterns(patterns) => {
                let at_start = |pattern: &String| Pattern::new(&format!("\\A(?:{pattern})")).ok();
                let compiled: Vec<Pattern> = patterns.iter().filter_map(at_start).collect();
                let invalid_patterns = patterns.len() - compiled.len();
                Self { kind: AcceptedKind::Patterns(compiled), invalid_patterns }
            }
        }
    }

    /// Compares a prediction with the answers. One that matches a pattern has an F1 of 1.
    pub(super) fn score(&self, prediction: &str) -> ReadingScore {
        match &self.kind {
            AcceptedKind::Texts(rules, texts) => rules.score(prediction, texts),
            AcceptedKind::Patterns(patterns) => {
                let prediction = nfd(prediction);
                let exact = patterns.iter().any(|pattern| pattern.is_match(&prediction));
                ReadingScore { exact, f1: f64::from(u8::from(exact)) }
            }
        }
    }
}
