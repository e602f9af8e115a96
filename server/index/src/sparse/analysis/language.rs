//! The rules of each language: what belongs to a word, its lower case, what is elided before it, its stem.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::characters::{APOSTROPHES, NON_JOINER, ascii_digit, is_filler, is_word, lower};
use crate::sparse::Analyzer;

/// The words that Lucene elides: articles, pronouns and conjunctions before an apostrophe, of which the words that
/// start with a vowel take no notice.
const CATALAN: [&str; 6] = ["d", "l", "m", "n", "s", "t"];
const FRENCH: [&str; 13] =
    ["c", "d", "j", "jusqu", "l", "lorsqu", "m", "n", "puisqu", "qu", "quoiqu", "s", "t"];
const IRISH: [&str; 3] = ["b", "d", "m"];
const ITALIAN: [&str; 21] = [
    "agl", "all", "c", "coll", "d", "dagl", "dall", "degl", "dell", "gl", "l", "m", "negl", "nell", "pell",
    "s", "sugl", "sull", "t", "un", "v",
];

/// Rules by which the words of a text become terms.
pub(super) struct Rules {
    language: Algorithm,
    stemmer: Stemmer,
    elided: &'static [&'static str],
}

/// Returns the rules of an analyzer; `None` for bigrams.
pub(super) fn rules(analyzer: Analyzer) -> Option<Rules> {
    let language = match analyzer.without_stop_words() {
        Analyzer::Arabic => Algorithm::Arabic,
        Analyzer::Armenian => Algorithm::Armenian,
        Analyzer::Basque => Algorithm::Basque,
        Analyzer::Catalan => Algorithm::Catalan,
        Analyzer::Czech => Algorithm::Czech,
        Analyzer::Danish => Algorithm::Danish,
        Analyzer::Dutch => Algorithm::Dutch,
        Analyzer::English => Algorithm::Porter,
        Analyzer::EnglishPorter2 => Algorithm::English,
        Analyzer::Estonian => Algorithm::Estonian,
        Analyzer::Finnish => Algorithm::Finnish,
        Analyzer::French => Algorithm::French,
        Analyzer::German => Algorithm::German,
        Analyzer::Greek => Algorithm::Greek,
        Analyzer::Hindi => Algorithm::Hindi,
        Analyzer::Hungarian => Algorithm::Hungarian,
        Analyzer::Indonesian => Algorithm::Indonesian,
        Analyzer::Irish => Algorithm::Irish,
        Analyzer::Italian => Algorithm::Italian,
        Analyzer::Lithuanian => Algorithm::Lithuanian,
        Analyzer::Norwegian => Algorithm::Norwegian,
        Analyzer::Persian => Algorithm::Persian,
        Analyzer::Polish => Algorithm::Polish,
        Analyzer::Portuguese => Algorithm::Portuguese,
        Analyzer::Romanian => Algorithm::Romanian,
        Analyzer::Russian => Algorithm::Russian,
        Analyzer::Serbian => Algorithm::Serbian,
        Analyzer::Spanish => Algorithm::Spanish,
        Analyzer::Swedish => Algorithm::Swedish,
        Analyzer::Tamil => Algorithm::Tamil,
        Analyzer::Turkish => Algorithm::Turkish,
        _ => return None,
    };
    let elided: &[&str] = match language {
        Algorithm::Catalan => &CATALAN,
        Algorithm::French => &FRENCH,
        Algorithm::Irish => &IRISH,
        Algorithm::Italian => &ITALIAN,
        _ => &[],
    };
    Some(Rules { language, stemmer: Stemmer::new(language), elided })
}

impl Rules {
    /// Returns whether words are split and folded as Snowball's algorithms expect. The analyzer `english` came first:
    /// apostrophes separate, and letters are put in lower case in no language's way.
    pub(super) fn is_of_language(&self) -> bool {
        self.language != Algorithm::Porter
    }

    /// Returns where the word ends that `text` begins with. An apostrophe between two letters belongs to it, as
    /// Unicode's word boundaries have it, and so do characters that are not seen.
    pub(super) fn end_of_word(&self, text: &str) -> usize {
        let mut end = 0;
        let mut joint = false;
        for (at, c) in text.char_indices() {
            if is_word(c) {
                (end, joint) = (at + c.len_utf8(), false);
            } else if !is_filler(c) && (joint || !self.is_joint(c)) {
                break;
            } else {
                joint |= !is_filler(c);
            }
        }
        end
    }

    /// Returns whether two letters around `c` are of one word.
    fn is_joint(&self, c: char) -> bool {
        APOSTROPHES.contains(&c) || (c == '\u{b7}' && self.language == Algorithm::Catalan)
    }

    /// Puts the word that terms are remembered by into `to`: in lower case, with plain apostrophes and digits.
    pub(super) fn fold(&self, word: &str, to: &mut String) {
        if !self.is_of_language() {
            return lower(word, to);
        }
        to.clear();
        let word = if self.language == Algorithm::Irish { without_prothesis(word) } else { word };
        for c in word.chars().map(ascii_digit) {
            match c {
                '\u{2019}' => to.push('\''),
                NON_JOINER if self.language == Algorithm::Persian => to.push(c),
                c if is_filler(c) => {}
                'I' if self.language == Algorithm::Turkish => to.push('ı'),
                // Its own lower case has a dot above the dot.
                'İ' => to.push('i'),
                c if self.language == Algorithm::Greek => {
                    to.extend(c.nfd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase));
                }
                c => to.extend(c.to_lowercase()),
            }
        }
        // At the edge of another script they join nothing.
        let joints = ['\'', '\u{b7}', NON_JOINER];
        to.truncate(to.trim_end_matches(joints).len());
        to.drain(..to.len() - to.trim_start_matches(joints).len());
    }

    /// Returns a folded word without what is elided before it.
    pub(super) fn bare<'a>(&self, word: &'a str) -> &'a str {
        match word.split_once('\'') {
            Some((elided, rest)) if self.elided.contains(&elided) => rest,
            _ if self.language == Algorithm::English => word.strip_suffix("'s").unwrap_or(word),
            _ => word,
        }
    }

    /// Returns the stem of a word that is no stop word; "" for a remnant of a split word.
    pub(super) fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match self.language {
            // As Porter's own program: "us" is not the plural of "u".
            Algorithm::Porter if word.chars().nth(2).is_none() => word.into(),
            // What Irish writes before a vowel with a hyphen, which separates words.
            Algorithm::Irish if matches!(word, "h" | "n" | "t") => "".into(),
            _ => self.stemmer.stem(word),
        }
    }
}

/// Returns an Irish word without the `n` or `t` that grammar puts before its capital vowel: `nAthair`, `tAthair`.
fn without_prothesis(word: &str) -> &str {
    let is_vowel = |c| matches!(c, 'A' | 'E' | 'I' | 'O' | 'U' | 'Á' | 'É' | 'Í' | 'Ó' | 'Ú');
    match word.strip_prefix(['n', 't']) {
        Some(rest) if rest.starts_with(is_vowel) => rest,
        _ => word,
    }
}
