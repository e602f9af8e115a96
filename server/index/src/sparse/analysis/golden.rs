//! Every language against snowballstemmer, elisions and stop words against lists of their own: see
//! `tests/python/words_reference.py`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::sparse::Analyzer;

#[derive(Deserialize)]
struct Golden {
    languages: BTreeMap<Analyzer, Lines>,
}

#[derive(Deserialize)]
struct Lines {
    words: BTreeMap<String, String>,
    sentences: Vec<Sentence>,
    stop_words: Vec<String>,
}

#[derive(Deserialize)]
struct Sentence {
    text: String,
    terms: Vec<String>,
    with_stop_words: Vec<String>,
}

fn golden() -> BTreeMap<Analyzer, Lines> {
    let text = include_str!("../../../../../tests/fixtures/words/golden.json");
    serde_json::from_str::<Golden>(text).unwrap().languages
}

#[test]
fn words_and_sentences_of_every_language_have_the_terms_of_another_implementation() {
    let golden = golden();
    for analyzer in Analyzer::ALL {
        let base = analyzer.without_stop_words();
        let is_known = golden.contains_key(&base) || [Analyzer::English, Analyzer::Bigram].contains(&base);
        assert!(is_known, "{analyzer} has no lines in texts.toml");
    }
    for (analyzer, lines) in golden {
        for (word, stem) in lines.words {
            assert_eq!(analyzer.terms(&word).concat(), stem, "{analyzer}: {word}");
        }
        for sentence in lines.sentences {
            let text = &sentence.text;
            assert_eq!(analyzer.terms(text), sentence.terms, "{analyzer}: {text}");
            assert_eq!(
                analyzer.with_stop_words().terms(text),
                sentence.with_stop_words,
                "{analyzer}: {text}"
            );
        }
    }
}

#[test]
fn stop_words_are_those_of_the_lists_and_are_kept_where_that_is_asked_for() {
    for (analyzer, lines) in golden() {
        let has_list = analyzer != analyzer.with_stop_words();
        assert_eq!(has_list, !lines.stop_words.is_empty(), "{analyzer}");
        for word in lines.stop_words {
            assert!(analyzer.terms(&word).is_empty(), "{analyzer}: {word}");
            assert_eq!(analyzer.with_stop_words().terms(&word).len(), 1, "{analyzer}: {word}");
        }
    }
}
