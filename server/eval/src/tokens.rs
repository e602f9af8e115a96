//! Tokens of the answer rules: a text normalised, cut into tokens and lower-cased.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use unicode_normalization::UnicodeNormalization as _;

/// Words, and every other visible character alone: the tokens of DPR's `SimpleTokenizer`, on NFD text.
static TOKEN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]").ok());

/// The separator before, between and after tokens. It is a control character, which no token holds, so that a run of
/// whole tokens is a plain part of the string.
pub(super) const EDGE: char = '\0';

/// A passage's text, normalised and cut into tokens once, when first asked for.
///
/// Questions share passages: make one of these for each passage of the corpus (a `Vec` in row order is a cache
/// that any number of threads may fill), and hand it to [`AnswerMatcher::matches_passage`] for each question.
/// Titles do not count for the answer rules, so the text alone belongs in here.
///
/// [`AnswerMatcher::matches_passage`]: super::AnswerMatcher::matches_passage
#[derive(Debug)]
pub struct TokenizedPassage<'a> {
    text: &'a str,
    run: OnceLock<Box<str>>,
}

impl<'a> TokenizedPassage<'a> {
    /// Keeps the text, which is normalised and cut when its tokens are first needed.
    pub fn new(text: &'a str) -> Self {
        Self { text, run: OnceLock::new() }
    }

    /// Returns the text as given.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the tokens, lower-cased, in order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.run().split(EDGE).filter(|token| !token.is_empty())
    }

    /// Returns all tokens as one string, an [`EDGE`] on both sides of each.
    pub(super) fn run(&self) -> &str {
        self.run.get_or_init(|| token_run(self.text).into_boxed_str())
    }
}

/// Returns the canonical decomposition (NFD).
pub(super) fn nfd(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfd().collect()) }
}

/// The tokens as [`TokenizedPassage::run`] returns them; empty when the text has no tokens.
pub(super) fn token_run(text: &str) -> String {
    let mut run = String::with_capacity(text.len() + text.len() / 4 + 2);
    if text.is_ascii() {
        push_ascii(text, &mut run);
    } else if let Some(token) = TOKEN.as_ref() {
        for found in token.find_iter(&nfd(text)) {
            run.push(EDGE);
            push_lower(found.as_str(), &mut run);
        }
    }
    if !run.is_empty() {
        run.push(EDGE);
    }
    run
}

/// Cuts ASCII text, which most English text is; several times faster than the pattern and the same on ASCII.
fn push_ascii(text: &str, run: &mut String) {
    let mut in_word = false;
    for byte in text.bytes() {
        let is_word = byte.is_ascii_alphanumeric();
        if is_word || byte.is_ascii_punctuation() {
            if !(is_word && in_word) {
                run.push(EDGE);
            }
            run.push(char::from(byte.to_ascii_lowercase()));
        }
        in_word = is_word;
    }
}

/// Returns Python's `str.lower()` of a text: the full mapping, with the final form of sigma at a word's end.
fn push_lower(token: &str, run: &mut String) {
    if token.is_ascii() {
        run.extend(token.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
    } else {
        run.push_str(&token.to_lowercase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        TokenizedPassage::new(text).tokens().map(str::to_owned).collect()
    }

    #[test]
    fn words_and_single_marks_are_tokens() {
        assert_eq!(
            tokens("AT&T's $5.00, (1st)"),
            ["at", "&", "t", "'", "s", "$", "5", ".", "00", ",", "(", "1st", ")"]
        );
        assert_eq!(tokens("tab\tnew\nline\u{7f}\0end"), ["tab", "new", "line", "end"]);
        assert_eq!(tokens(" \t\n"), [""; 0]);
    }

    #[test]
    fn both_ways_to_tokenize_agree_on_ascii() {
        let every: String = (0u8..128).map(char::from).flat_map(|c| [c, 'a', c, c]).collect();
        // The accent sends the same text through the pattern.
        let mut with_accent = tokens(&format!("{every} é"));
        assert_eq!(with_accent.pop().unwrap(), "e\u{301}");
        assert_eq!(tokens(&every), with_accent);
    }

    #[test]
    fn accents_are_decomposed_and_case_is_folded_as_python_does() {
        assert_eq!(tokens("CAFÉ"), tokens("cafe\u{301}"));
        assert_eq!(tokens("ΟΔΥΣΣΕΥΣ ΣΑΣ."), ["οδυσσευς", "σας", "."]);
        assert_eq!(tokens("İ"), ["i\u{307}"]);
        assert_eq!(tokens("STRASSE Straße"), ["strasse", "straße"]);
        // Canonical decomposition only: a ligature stays one.
        assert_eq!(tokens("ﬁne ½"), ["ﬁne", "½"]);
    }
}
