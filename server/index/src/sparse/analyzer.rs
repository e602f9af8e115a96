//! Text to terms: what passages are indexed by and questions searched with.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use frostem::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// The way text becomes terms. An index keeps the name of its analyzer, and questions are analysed the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Analyzer {
    /// Words in lower case without possessive `'s` and without Lucene's 33 stop words, stemmed by Porter's
    /// algorithm: the steps of Lucene's `EnglishAnalyzer`, which the DPR paper searched with. Words are runs of
    /// letters, digits and marks, so that "U.S." is two of them.
    English,
    /// For Chinese, Japanese and Korean: every two neighbouring characters of those scripts, other words whole
    /// and in lower case, after Lucene's `CJKAnalyzer`.
    Bigram,
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::English => "english",
            Self::Bigram => "bigram",
        })
    }
}

impl Analyzer {
    /// The terms of a text, in order.
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Analysis::new(self).each(text, |term| terms.push(term.to_owned()));
        terms
    }
}

/// The stop words of Lucene's `EnglishAnalyzer`.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// The length in bytes above which a word is dropped: a hash, base64, one character repeated.
const LONGEST: usize = 255;

/// Distinct words whose terms are remembered. Natural text repeats few words often, and stemming is most of the work.
const REMEMBERED: usize = 1 << 17;

/// An analyzer at work: holds its buffers and the words it has seen.
pub(super) struct Analysis {
    analyzer: Analyzer,
    stemmer: Stemmer,
    /// The term of a word, empty for a stop word.
    terms: HashMap<Box<str>, Box<str>>,
    word: String,
}

impl Analysis {
    pub(super) fn new(analyzer: Analyzer) -> Self {
        let mut analysis = Self {
            analyzer,
            stemmer: Stemmer::new(Algorithm::Porter),
            terms: HashMap::new(),
            word: String::new(),
        };
        analysis.forget();
        analysis
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
                after_apostrophe = matches!(last, '\'' | '\u{2019}');
            }
            rest = &rest[skipped..];
            if rest.is_empty() {
                return;
            }
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            rest = &rest[end..];
            match self.analyzer {
                Analyzer::English => {
                    if word.len() <= LONGEST && !(after_apostrophe && word.eq_ignore_ascii_case("s")) {
                        self.english(word, emit);
                    }
                }
                Analyzer::Bigram => self.bigrams(word, emit),
            }
            after_apostrophe = false;
        }
    }

    fn english(&mut self, word: &str, emit: &mut impl FnMut(&str)) {
        lower(word, &mut self.word);
        if let Some(term) = self.terms.get(self.word.as_str()) {
            if !term.is_empty() {
                emit(term);
            }
            return;
        }
        // As Porter's own program: "us" is not the plural of "u".
        let is_short = self.word.chars().nth(2).is_none();
        let term = if is_short { Cow::Borrowed(self.word.as_str()) } else { self.stemmer.stem(&self.word) };
        emit(&term);
        let term = term.into();
        if self.terms.len() >= REMEMBERED {
            self.forget();
        }
        self.terms.insert(self.word.as_str().into(), term);
    }

    fn forget(&mut self) {
        self.terms.clear();
        self.terms.extend(STOP_WORDS.map(|word| (word.into(), "".into())));
    }

    fn bigrams(&mut self, run: &str, emit: &mut impl FnMut(&str)) {
        let mut rest = run;
        while let Some(first) = rest.chars().next() {
            let inside = is_cjk(first);
            let end = rest.find(|c| is_cjk(c) != inside).unwrap_or(rest.len());
            let piece = &rest[..end];
            rest = &rest[end..];
            if !inside {
                if piece.len() <= LONGEST {
                    lower(piece, &mut self.word);
                    emit(&self.word);
                }
                continue;
            }
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
    }
}

impl Clone for Analysis {
    fn clone(&self) -> Self {
        Self::new(self.analyzer)
    }
}

impl fmt::Debug for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analysis").field("analyzer", &self.analyzer).finish_non_exhaustive()
    }
}

fn lower(word: &str, to: &mut String) {
    to.clear();
    if word.is_ascii() {
        to.push_str(word);
        to.make_ascii_lowercase();
    } else {
        to.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// Letters, digits and the marks that go with them.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c)
    }
}

/// Han, Kana and Hangul.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{3130}'..='\u{318f}'
        | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_terms_are_lower_case_stemmed_and_no_stop_words() {
        let cases: [(&str, &[&str]); 7] = [
            ("The Quick foxes are jumping", &["quick", "fox", "jump"]),
            (
                "Nietzsche's hammer, Nietzsche 's hammer, Nietzsche\u{2019}s",
                &["nietzsch", "hammer", "nietzsch", "hammer", "nietzsch"],
            ),
            ("Super Bowl 50", &["super", "bowl", "50"]),
            ("Café ﬁlm", &["café", "film"]),
            ("e\u{301}tude", &["étude"]),
            ("s and 5s, US", &["s", "5s", "us"]),
            (" ,.; \t", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(Analyzer::English.terms(text), expected, "{text}");
        }
    }

    #[test]
    fn a_remembered_word_gives_the_same_term_again() {
        let mut analysis = Analysis::new(Analyzer::English);
        for _ in 0..2 {
            let mut terms = Vec::new();
            analysis.each("running the runs", |term| terms.push(term.to_owned()));
            assert_eq!(terms, ["run", "run"]);
        }
    }

    #[test]
    fn neighbouring_characters_are_terms_in_scripts_without_spaces() {
        let cases: [(&str, &[&str]); 5] = [
            ("임종석은", &["임종", "종석", "석은"]),
            ("東京tower 2号", &["東京", "tower", "2", "号"]),
            ("カ", &["カ"]),
            ("Ｔｏｋｙｏ", &["tokyo"]),
            ("한", &["한"]),
        ];
        for (text, expected) in cases {
            assert_eq!(Analyzer::Bigram.terms(text), expected, "{text}");
        }
    }

    #[test]
    fn a_word_of_a_million_letters_is_no_term() {
        assert!(Analyzer::English.terms(&"x".repeat(1_000_000)).is_empty());
    }
}
