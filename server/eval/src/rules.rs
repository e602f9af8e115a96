//! The rules by which a predicted answer is compared with the accepted ones: those of SQuAD v1.1 and of KorQuAD.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Serialize;

/// The characters that Python's `re` takes for words, as far as it matters once punctuation is gone.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{L}\p{N}]+").ok());

/// Signs that KorQuAD's script turns into spaces before it drops punctuation.
const KORQUAD_SIGNS: [char; 12] = ['\'', '"', '《', '》', '<', '>', '〈', '〉', '(', ')', '‘', '’'];

/// The rules that decide when two answers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadingRules {
    /// SQuAD v1.1's `evaluate-v1.1.py`: lower case, no ASCII punctuation, no English articles; F1 over words.
    #[default]
    Squad,
    /// KorQuAD 1.0's `evaluate-korquad_v1.0.py`: quotes and brackets are spaces, lower case, no ASCII
    /// punctuation; articles stay; F1 over characters without spaces.
    KorQuad,
}

/// One prediction against its question's answers, the best of which counts for each figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadingScore {
    /// `true` if it equals an answer after normalisation.
    pub exact: bool,
    /// Harmonic mean of precision and recall, from 0 to 1.
    pub f1: f64,
}

impl ReadingRules {
    /// Compares a prediction with each answer and keeps the best figures. No answers score 0.
    pub fn score(self, prediction: &str, answers: &[String]) -> ReadingScore {
        let said = self.normalise(prediction);
        let mut best = ReadingScore { exact: false, f1: 0.0 };
        for answer in answers {
            let truth = self.normalise(answer);
            best.exact |= said == truth;
            best.f1 = best.f1.max(match self {
                Self::Squad => f1(said.split(' ').filter(not_empty), truth.split(' ').filter(not_empty)),
                Self::KorQuad => f1(said.chars().filter(not_space), truth.chars().filter(not_space)),
            });
        }
        best
    }

    /// Returns a text as these rules compare it.
    fn normalise(self, text: &str) -> String {
        let text = match self {
            Self::Squad => text.to_lowercase(),
            Self::KorQuad => text.replace(KORQUAD_SIGNS, " ").to_lowercase(),
        };
        let text: String = text.chars().filter(|c| !c.is_ascii_punctuation()).collect();
        let text = match self {
            Self::Squad => without_articles(&text),
            Self::KorQuad => text,
        };
        text.split(is_space).filter(not_empty).collect::<Vec<_>>().join(" ")
    }
}

fn without_articles(text: &str) -> String {
    let Some(word) = WORD.as_ref() else { return text.to_owned() };
    let replace = |found: &Captures<'_>| match &found[0] {
        "a" | "an" | "the" => " ".to_owned(),
        other => other.to_owned(),
    };
    word.replace_all(text, replace).into_owned()
}

/// Returns whether Python's `str.split` splits at a character: Unicode's white space and the four information
/// separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn not_space(c: &char) -> bool {
    !is_space(*c)
}

fn not_empty(text: &&str) -> bool {
    !text.is_empty()
}

/// F1 of two multisets.
fn f1<T: Eq + Hash>(said: impl Iterator<Item = T>, truth: impl Iterator<Item = T>) -> f64 {
    let mut left: HashMap<T, usize> = HashMap::new();
    let mut of_truth = 0usize;
    for unit in truth {
        *left.entry(unit).or_default() += 1;
        of_truth += 1;
    }
    let (mut same, mut of_said) = (0usize, 0usize);
    for unit in said {
        of_said += 1;
        if let Some(count) = left.get_mut(&unit).filter(|count| **count > 0) {
            *count -= 1;
            same += 1;
        }
    }
    if same == 0 {
        return 0.0;
    }
    let (precision, recall) = (same as f64 / of_said as f64, same as f64 / of_truth as f64);
    2.0 * precision * recall / (precision + recall)
}
