//! Answer candidates of a sentence, found by the shape of its words: dates, numbers and names.

use std::collections::HashSet;
use std::ops::Range;

/// The kind of an answer candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// A year, a month with its year, or a day.
    Date,
    /// A number before the plural noun that it counts.
    Number,
    /// Words that begin with capitals.
    Name,
}

/// An answer candidate: words of a sentence that could be the answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) kind: SpanKind,
    pub(super) words: Range<usize>,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ARTICLES: [&str; 3] = ["The", "A", "An"];
/// Words inside of a name that begin with a small letter.
const JOINING: [&str; 8] = ["of", "the", "de", "la", "van", "von", "and", "&"];

/// Returns the word without the punctuation around it.
pub(super) fn core(word: &str) -> &str {
    word.trim_matches(|sign: char| !sign.is_alphanumeric())
}

/// Returns the words that a text writes with a capital within a sentence, and those of its title: they are names where
/// they begin a sentence, too.
pub(super) fn capitals<'a>(sentences: &[&'a str], title: &'a str) -> HashSet<&'a str> {
    let within = sentences.iter().flat_map(|sentence| sentence.split_whitespace().skip(1));
    let all = within.chain(title.split_whitespace()).map(core);
    // "The" of a title such as "The Arrow" is left out: many sentences begin with it, and not with a name.
    all.filter(|word| word.starts_with(char::is_uppercase) && !ARTICLES.contains(word)).collect()
}

/// Returns the dates, numbers and names of a sentence, in its order. None overlaps another. `capitals` are the words
/// that are names at the beginning of the sentence, too.
pub(super) fn spans(words: &[&str], capitals: &HashSet<&str>) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let found =
            [date(words, at), number(words, at), name(words, at, capitals)].into_iter().flatten().next();
        at = found.as_ref().map_or(at + 1, |span| span.words.end);
        spans.extend(found);
    }
    spans
}

/// Returns the date that begins at a word.
fn date(words: &[&str], at: usize) -> Option<Span> {
    let is = |number: usize, test: fn(&str) -> bool| words.get(number).is_some_and(|word| test(core(word)));
    // "February 7, 2016", "February 2016", "February 7"; "7 February 2016"; "2016".
    let length = match () {
        () if is(at, is_month) && is(at + 1, is_day) && comma_year(words, at + 2).is_some() => {
            2 + comma_year(words, at + 2)?
        }
        () if is(at, is_month) && is(at + 1, is_year) => 2,
        () if is(at, is_month) && is(at + 1, is_day) => 2,
        () if is(at, is_day) && is(at + 1, is_month) && is(at + 2, is_year) => 3,
        () if is(at, is_day) && is(at + 1, is_month) => 2,
        () if is(at, is_year) => 1,
        () => return None,
    };
    Some(Span { kind: SpanKind::Date, words: at..at + length })
}

/// Returns the number of words of a year with or without a comma that stands alone before it.
fn comma_year(words: &[&str], at: usize) -> Option<usize> {
    let year = |number: usize| words.get(number).is_some_and(|word| is_year(core(word)));
    match words.get(at) {
        Some(&",") if year(at + 1) => Some(2),
        Some(_) if year(at) => Some(1),
        _ => None,
    }
}

fn is_month(word: &str) -> bool {
    MONTHS.contains(&word)
}

fn is_day(word: &str) -> bool {
    word.len() <= 2 && word.parse::<u32>().is_ok_and(|day| (1..=31).contains(&day))
}

pub(super) fn is_year(word: &str) -> bool {
    word.len() == 4 && word.parse::<u32>().is_ok_and(|year| (1000..2100).contains(&year))
}

/// Returns the number that begins at a word and counts a plural noun, as in "68,500 seats".
fn number(words: &[&str], at: usize) -> Option<Span> {
    let word = words[at];
    let digits = core(word);
    let is_number = digits.starts_with(|sign: char| sign.is_ascii_digit())
        && digits.chars().all(|sign| sign.is_ascii_digit() || sign == ',' || sign == '.');
    let noun = words.get(at + 1)?;
    let counts = noun.len() > 3 && noun.chars().all(|sign| sign.is_ascii_lowercase()) && noun.ends_with('s');
    // "$5 millions" and "(12 others" are not counts of what follows.
    (is_number && counts && word == digits).then_some(Span { kind: SpanKind::Number, words: at..at + 1 })
}

/// Returns the name that begins at a word: capitalised words in a row. A possessive, "Luther's", is not a name.
fn name(words: &[&str], at: usize, capitals: &HashSet<&str>) -> Option<Span> {
    let is_capital =
        |number: usize| words.get(number).is_some_and(|word| core(word).starts_with(char::is_uppercase));
    if !is_capital(at) || (at == 0 && !capitals.contains(core(words[0]))) {
        return None;
    }
    let ends = |number: usize| words[number].ends_with(|sign: char| !sign.is_alphanumeric());
    let mut end = at + 1;
    while !ends(end - 1) {
        // "Bank of America": a joining word counts where a capital comes after it.
        let joins = words.get(end).is_some_and(|word| JOINING.contains(word));
        match () {
            () if is_capital(end) && words[end].starts_with(char::is_alphanumeric) => end += 1,
            () if joins && is_capital(end + 1) => end += 2,
            () => break,
        }
    }
    let letters: usize = words[at..end].iter().map(|word| core(word).chars().count()).sum();
    let is_possessive = ["'s", "’s", "s'", "s’"].iter().any(|ending| words[end - 1].ends_with(ending));
    (letters > 2 && !is_possessive).then_some(Span { kind: SpanKind::Name, words: at..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_numbers_and_names_are_found() {
        use SpanKind::{Date, Name, Number};
        let cases: [(&str, &[(SpanKind, &str)]); 6] = [
            (
                "Super Bowl 50 was played on February 7, 2016, at Levi's Stadium.",
                &[(Name, "Super Bowl"), (Date, "February 7, 2016,"), (Name, "Levi's Stadium.")],
            ),
            ("It has 68,500 seats and cost $5 millions.", &[(Number, "68,500")]),
            ("In 1927 the Bank of America bought it .", &[(Date, "1927"), (Name, "Bank of America")]),
            ("On 7 March 1801 , Napoleon left.", &[(Date, "7 March 1801"), (Name, "Napoleon")]),
            ("born June 3 , 1924 in Prague", &[(Date, "June 3 , 1924"), (Name, "Prague")]),
            ("Several of Luther's hymns inspired nobody, in 1 2 or x", &[]),
        ];
        for (text, expected) in cases {
            let words: Vec<&str> = text.split_whitespace().collect();
            let capitals = capitals(&[text], "Super Bowl 50");
            let found: Vec<(SpanKind, String)> = spans(&words, &capitals)
                .into_iter()
                .map(|span| (span.kind, words[span.words].join(" ")))
                .collect();
            let expected: Vec<_> = expected.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
