//! Tests of analyzers on short texts; `golden.rs` holds each language against another program.

use dpr_core::random::SplitMix;

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
fn an_analysis_of_questions_remembers_few_words_and_gives_the_same_terms() {
    let words = |count: usize| (0..count).map(|word| format!("walking{word} "));
    let mut analysis = Analysis::of_questions(Analyzer::English);
    for word in words(5000) {
        let mut terms = Vec::new();
        analysis.each(&word, |term| terms.push(term.to_owned()));
        assert_eq!(terms, Analyzer::English.terms(&word));
    }
    let remembered = analysis.remembered();
    assert!((1..=1 << 12).contains(&remembered), "{remembered}");
    // A question of more words than are remembered.
    let long: String = words(10_000).collect();
    let mut terms = Vec::new();
    analysis.each(&long, |term| terms.push(term.to_owned()));
    assert_eq!(terms, Analyzer::English.terms(&long));
    assert!(analysis.remembered() <= 1 << 12 && analysis.clone().most == 1 << 12);
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

#[test]
fn what_is_elided_before_an_apostrophe_is_no_term() {
    let same = |analyzer: Analyzer, texts: &[&str], terms: &[&str]| {
        for text in texts {
            assert_eq!(analyzer.terms(text), terms, "{analyzer}: {text}");
        }
    };
    let elephants =
        ["l'éléphant", "L’ÉLÉPHANT", "éléphants", "d'éléphants", "qu'éléphant", "lorsqu'e\u{301}léphant"];
    same(Analyzer::French, &elephants, &["éleph"]);
    same(Analyzer::Italian, &["l'amico", "dell’amico", "un'amica", "amici"], &["amic"]);
    same(Analyzer::Catalan, &["l'home", "d’home", "home"], &["hom"]);
    same(Analyzer::Irish, &["d'athair", "m’athair"], &["athair"]);
    same(Analyzer::Irish, &["n-athair", "t-athair", "nAthair", "tAthair"], &["athair"]);
    same(Analyzer::French, &["aujourd'hui", "aujourd’hui"], &["aujourd'hui"]);
    same(Analyzer::EnglishPorter2, &["John's", "john’s", "Johns"], &["john"]);
    same(Analyzer::French, &["l'", "'l'", "' '", "\u{2019}\u{2019}"], &[]);
}

#[test]
fn letters_are_put_in_lower_case_as_the_language_does() {
    let cases: [(Analyzer, &str, &[&str]); 8] = [
        (Analyzer::Turkish, "IŞIK I\u{307}zmir İZMİR", &["ışık", "izmir", "izmir"]),
        (Analyzer::German, "İstanbul STRASSE Straße", &["istanbul", "strass", "strass"]),
        (Analyzer::Greek, "ἄνθρωπος ΑΝΘΡΩΠΟΣ ανθρωποσ", &["ανθρωπ", "ανθρωπ", "ανθρωπ"]),
        (Analyzer::Serbian, "књига knjiga", &["knjig", "knjig"]),
        (Analyzer::Romanian, "ştiinţă știință", &["științ", "științ"]),
        (Analyzer::Persian, "كتاب کتاب‌ها", &["کتاب", "کتاب"]),
        (Analyzer::Arabic, "كتـاب كِتَاب ١٩٤٧", &["كتاب", "كتاب", "1947"]),
        (Analyzer::Catalan, "col·legi COL·LEGIS coŀlegi", &["col.leg", "col.leg", "col.leg"]),
    ];
    for (analyzer, text, terms) in cases {
        assert_eq!(analyzer.terms(text), terms, "{analyzer}: {text}");
    }
}

#[test]
fn other_scripts_within_a_language_are_terms_too() {
    let russian = Analyzer::Russian.terms("JavaScript и Running в Пекине (北京市), 東's");
    assert_eq!(russian, ["javascript", "running", "пекин", "北京", "京市", "東", "s"]);
    assert_eq!(Analyzer::English.terms("in 北京市"), ["北京市"], "one term, as indexes of `english` have it");
}

#[test]
fn any_text_is_analysed_without_a_panic_and_twice_alike() {
    // Letters of every script that a stemmer knows, with what joins and separates them.
    let ranges = [
        0x20..0x7f,
        0xa0..0x250,
        0x300..0x370,
        0x370..0x400,
        0x400..0x530,
        0x530..0x590,
        0x600..0x700,
        0x900..0x980,
        0xb80..0xc00,
        0x1e00..0x2070,
        0x3040..0x3100,
        0x4e00..0x4e40,
        0xac00..0xac40,
        0xfb00..0xff00,
        0x1_0000..0x11_0000,
    ];
    let mut random = SplitMix::new(14);
    for analyzer in Analyzer::ALL {
        let mut analysis = Analysis::new(*analyzer);
        for round in 0..150 {
            // Most texts keep to one range, so that words are long; the last ones mix all.
            let mut range = random.below(ranges.len());
            let letters = (0..random.below(400)).filter_map(|_| {
                if round >= 120 || random.below(8) == 0 {
                    range = random.below(ranges.len());
                }
                let span = ranges[range].clone();
                match random.below(12) {
                    0 => Some(' '),
                    1 => Some(['\'', '’', '·', '-', '\u{200c}', '\u{ad}', 'I', 'İ'][random.below(8)]),
                    _ => char::from_u32(span.start + random.below((span.end - span.start) as usize) as u32),
                }
            });
            let text: String = letters.collect();
            let mut terms = Vec::new();
            analysis.each(&text, |term| terms.push(term.to_owned()));
            assert!(terms.iter().all(|term| !term.is_empty()), "{analyzer}: {text:?}");
            assert_eq!(analyzer.terms(&text), terms, "{analyzer}: {text:?}");
        }
    }
}
