//! Text to terms: an [`Analyzer`] at work.
//!
//! Text is brought into Unicode's form NFKC and split into words, and each word becomes a term: in lower case, without
//! what is elided before it, unless it is a stop word, and stemmed.

mod characters;
#[cfg(test)]
mod golden;
mod language;
mod stop;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

use self::characters::{APOSTROPHES, is_cjk, is_word, lower};
use self::language::{Rules, rules};
use self::stop::StopWords;
use super::Analyzer;

impl Analyzer {
    /// Returns the terms of a text, in order.
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Analysis::new(self).each(text, |term| terms.push(term.to_owned()));
        terms
    }

    /// Returns the number of different terms of a text: a search for it reads the lists of so many terms at most.
    pub(crate) fn count_distinct_terms(self, text: &str) -> usize {
        let mut terms = HashSet::new();
        Analysis::new(self).each(text, |term| {
            if !terms.contains(term) {
                terms.insert(term.to_owned());
            }
        });
        terms.len()
    }
}

/// The length in bytes above which a word is dropped: a hash, base64, one character repeated.
const LONGEST: usize = 255;

/// Distinct words whose terms are remembered. Natural text repeats few words often, and stemming is most of the work.
const REMEMBERED: usize = 1 << 17;

/// Distinct words of questions whose terms are remembered. An analysis is kept between searches, one for each search
/// that runs at the same time, and holds words of everybody's questions: few are kept, for memory and for privacy.
const REMEMBERED_OF_QUESTIONS: usize = 1 << 12;

/// An analyzer at work: holds its buffers and the words it has seen.
pub(super) struct Analysis {
    analyzer: Analyzer,
    /// The rules that make terms of words; `None` if words are terms.
    rules: Option<Rules>,
    stop_words: StopWords,
    /// The term of a word, empty for a stop word.
    terms: HashMap<Box<str>, Box<str>>,
    /// The most words whose terms are remembered.
    most: usize,
    word: String,
}

impl Analysis {
    /// Returns an analysis of passages.
    pub(super) fn new(analyzer: Analyzer) -> Self {
        Self::remembering(analyzer, REMEMBERED)
    }

    /// Returns an analysis of questions, which gives the same terms and remembers fewer words.
    pub(super) fn of_questions(analyzer: Analyzer) -> Self {
        Self::remembering(analyzer, REMEMBERED_OF_QUESTIONS)
    }

    fn remembering(analyzer: Analyzer, most: usize) -> Self {
        let drops_stop_words = analyzer != analyzer.with_stop_words();
        Self {
            analyzer,
            rules: rules(analyzer),
            stop_words: if drops_stop_words { StopWords::of(analyzer) } else { StopWords::None },
            terms: HashMap::new(),
            most,
            word: String::new(),
        }
    }

    /// Returns the number of words whose terms are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.terms.len()
    }

    /// Hands each term of `text` to `emit`, in order.
    pub(super) fn each(&mut self, text: &str, mut emit: impl FnMut(&str)) {
        // Full-width letters, ligatures and decomposed Hangul are other spellings of the same words.
        if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
            self.walk(text, &mut emit);
        } else {
            self.walk(&text.nfkc().collect::<String>(), &mut emit);
        }
    }

    fn walk(&mut self, text: &str, emit: &mut impl FnMut(&str)) {
        let mut after_apostrophe = false;
        let mut rest = text;
        loop {
            let skipped = rest.find(is_word).unwrap_or(rest.len());
            let between = &rest[..skipped];
            if let Some(last) = between.chars().next_back() {
                after_apostrophe = APOSTROPHES.contains(&last);
            }
            rest = &rest[skipped..];
            if rest.is_empty() {
                return;
            }
            let end = match &self.rules {
                Some(rules) if rules.is_of_language() => rules.end_of_word(rest),
                _ => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            };
            let word = &rest[..end];
            rest = &rest[end..];
            match self.analyzer {
                Analyzer::English | Analyzer::EnglishWithStopWords => {
                    if !(after_apostrophe && word.eq_ignore_ascii_case("s")) {
                        self.word(word, emit);
                    }
                }
                _ => self.pieces(word, emit),
            }
            after_apostrophe = false;
        }
    }

    /// Hands on the term of a word.
    fn word(&mut self, word: &str, emit: &mut impl FnMut(&str)) {
        if word.len() > LONGEST {
            return;
        }
        let Some(rules) = &self.rules else {
            lower(word, &mut self.word);
            return emit(&self.word);
        };
        rules.fold(word, &mut self.word);
        if let Some(term) = self.terms.get(self.word.as_str()) {
            if !term.is_empty() {
                emit(term);
            }
            return;
        }
        let word = rules.bare(&self.word);
        let term = if self.stop_words.contain(word) { Cow::Borrowed("") } else { rules.stem(word) };
        if !term.is_empty() {
            emit(&term);
        }
        let term = term.into();
        if self.terms.len() >= self.most {
            self.terms.clear();
        }
        self.terms.insert(self.word.as_str().into(), term);
    }

    /// Hands on the terms of a run of letters in which scripts may change: bigrams of Chinese, Japanese and Korean, and
    /// other words.
    fn pieces(&mut self, run: &str, emit: &mut impl FnMut(&str)) {
        let mut rest = run;
        while let Some(first) = rest.chars().next() {
            let inside = is_cjk(first);
            let end = rest.find(|c| is_cjk(c) != inside).unwrap_or(rest.len());
            let piece = &rest[..end];
            rest = &rest[end..];
            if inside {
                bigrams(piece, emit);
            } else {
                self.word(piece, emit);
            }
        }
    }
}

/// Hands on every two neighbouring characters, or the only one.
fn bigrams(piece: &str, emit: &mut impl FnMut(&str)) {
    let mut starts = piece.char_indices().map(|(at, _)| at).chain([piece.len()]);
    let (mut from, mut middle) = (starts.next().unwrap_or(0), starts.next().unwrap_or(piece.len()));
    if middle == piece.len() {
        emit(piece);
    }
    for to in starts {
        emit(&piece[from..to]);
        (from, middle) = (middle, to);
    }
}

impl Clone for Analysis {
    fn clone(&self) -> Self {
        Self::remembering(self.analyzer, self.most)
    }
}

impl fmt::Debug for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analysis").field("analyzer", &self.analyzer).finish_non_exhaustive()
    }
}
