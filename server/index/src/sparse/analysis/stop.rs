//! Stop words: Lucene's for English, and Snowball's, which tantivy has, for other languages.

use std::collections::HashMap;
use std::sync::LazyLock;

use tantivy::tokenizer::{Language, RawTokenizer, StopWordFilter, TextAnalyzer, TokenStream as _};

use crate::sparse::Analyzer;

/// The stop words of Lucene's `EnglishAnalyzer`.
const ENGLISH: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// Snowball's lists, made at first use; clones share them.
static SNOWBALL: LazyLock<HashMap<Language, StopWordFilter>> = LazyLock::new(|| {
    let languages = Analyzer::ALL.iter().filter_map(|analyzer| language(*analyzer));
    languages.filter_map(|language| Some((language, StopWordFilter::new(language)?))).collect()
});

/// The stop words of a language. Words are in lower case.
pub(super) enum StopWords {
    None,
    English,
    /// Tantivy shows its lists only as a filter.
    Snowball(TextAnalyzer),
}

impl StopWords {
    /// Returns the list of an analyzer's language, if there is one.
    pub(super) fn of(analyzer: Analyzer) -> Self {
        match analyzer.without_stop_words() {
            Analyzer::English | Analyzer::EnglishPorter2 => Self::English,
            analyzer => match language(analyzer).and_then(|language| SNOWBALL.get(&language)) {
                Some(filter) => Self::Snowball(
                    TextAnalyzer::builder(RawTokenizer::default()).filter(filter.clone()).build(),
                ),
                None => Self::None,
            },
        }
    }

    pub(super) fn contain(&mut self, word: &str) -> bool {
        match self {
            Self::None => false,
            Self::English => ENGLISH.contains(&word),
            Self::Snowball(filter) => !filter.token_stream(word).advance(),
        }
    }
}

fn language(analyzer: Analyzer) -> Option<Language> {
    Some(match analyzer {
        Analyzer::Danish => Language::Danish,
        Analyzer::Dutch => Language::Dutch,
        Analyzer::Finnish => Language::Finnish,
        Analyzer::French => Language::French,
        Analyzer::German => Language::German,
        Analyzer::Hungarian => Language::Hungarian,
        Analyzer::Italian => Language::Italian,
        Analyzer::Norwegian => Language::Norwegian,
        Analyzer::Portuguese => Language::Portuguese,
        Analyzer::Russian => Language::Russian,
        Analyzer::Spanish => Language::Spanish,
        Analyzer::Swedish => Language::Swedish,
        _ => return None,
    })
}
