//! Questions with their accepted answers.

use std::ops::Range;
use std::sync::Arc;

/// A question with its answers and, where the file names it, its gold passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Unique in its file; the line number where the file has no ids.
    pub id: String,
    /// The question, U+2019 replaced by an apostrophe.
    pub text: String,
    /// Accepted answers, as the file lists them; none when it lists none.
    pub answers: Answers,
    /// The passage the question was asked about, where the file says so.
    pub gold: Option<Gold>,
}

/// The passage a question was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gold {
    /// The passage's id in its own file. Other files have other passages of the same id.
    pub id: String,
    /// Its text.
    pub text: Arc<str>,
    /// The range of the first answer in the text, in bytes; `None` where the file does not give it, or gives it
    /// wrongly.
    pub answer: Option<Range<usize>>,
}

/// The accepted answers of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Texts, any of which may stand in a passage.
    Texts(Vec<String>),
    /// Regular expressions, any of which may match one (CuratedTREC).
    Patterns(Vec<String>),
}

impl Answers {
    /// Returns whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Returns the texts or patterns.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::Texts(list) | Self::Patterns(list) => list,
        }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::Texts(Vec::new())
    }
}

/// Returns the question as DPR encodes it, without space around it: people and question sets type the apostrophe as
/// U+2019, passages do not.
pub fn normalise_question(text: &str) -> String {
    text.trim().replace('\u{2019}', "'")
}
