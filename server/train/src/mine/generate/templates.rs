//! Questions from a sentence and what it tells (cloze translation by rules; Lewis et al. 2019): the words that tell it
//! are taken out, a question word takes their place, and the auxiliary verb comes second.

use super::spans::{Span, SpanKind, core};

/// Words of what is left of a sentence, at least and at most.
const WORDS: std::ops::RangeInclusive<usize> = 4..=25;
/// Words among which the auxiliary verb is looked for: behind, it is that of another clause.
const CLAUSE: usize = 9;

const AUXILIARY: [&str; 18] = [
    "is", "was", "are", "were", "has", "had", "have", "will", "can", "could", "would", "may", "might",
    "must", "did", "does", "do", "should",
];
/// Prepositions that go with a date.
const OF_TIME: [&str; 9] = ["in", "on", "by", "since", "until", "from", "during", "around", "circa"];
/// Prepositions that go with a place.
const OF_PLACE: [&str; 4] = ["in", "at", "near", "from"];
/// Pronouns that a sentence begins with, and whether something is theirs.
const PRONOUNS: [(&str, bool); 8] = [
    ("He", false),
    ("She", false),
    ("It", false),
    ("They", false),
    ("His", true),
    ("Her", true),
    ("Its", true),
    ("Their", true),
];
/// First words of sentences that say nothing without those before.
const LEANING: [&str; 8] = ["This", "These", "That", "Those", "However", "But", "There", "Such"];

/// Returns the words of a sentence, whose pronoun at the beginning is replaced by the title of its passage. `None`
/// where it cannot be understood alone.
pub(super) fn alone(sentence: &str, title: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = sentence.split_whitespace().map(str::to_owned).collect();
    let first = words.first()?.clone();
    if LEANING.contains(&core(&first)) {
        return None;
    }
    if let Some((_, is_owner)) = PRONOUNS.iter().find(|(pronoun, _)| *pronoun == first) {
        if title.is_empty() {
            return None;
        }
        let subject = if *is_owner { format!("{title}'s") } else { title.to_owned() };
        words.splice(0..1, subject.split_whitespace().map(str::to_owned));
    }
    Some(words)
}

/// Returns the sentence without what it tells: a statement that asks for the rest.
pub(super) fn cloze(words: &[&str], span: &Span) -> Option<String> {
    let rest = without(words, span.words.start, span.words.end);
    WORDS.contains(&rest.len()).then(|| sentence(&rest))
}

/// Returns a question whose answer is the span; `None` where too little or too much is left.
pub(super) fn question(words: &[&str], span: &Span) -> Option<String> {
    let (start, end) = (span.words.start, span.words.end);
    let before = start.checked_sub(1).map(|at| words[at]);
    let begins_so = |prepositions: &[&str]| {
        before.is_some_and(|word| prepositions.iter().any(|known| word.eq_ignore_ascii_case(known)))
    };
    let (ask, rest) = match span.kind {
        SpanKind::Date if begins_so(&OF_TIME) => ("when".to_owned(), without(words, start - 1, end)),
        SpanKind::Date => ("when".to_owned(), without(words, start, end)),
        SpanKind::Number => {
            let noun = words.get(end)?;
            (format!("how many {}", core(noun)), without(words, start, end + 1))
        }
        SpanKind::Name if start == 0 => {
            // The name is the subject: what follows it is the question already.
            let rest = without(words, start, end);
            let is_clause = rest.first().is_some_and(|word| word.starts_with(char::is_lowercase));
            return (is_clause && WORDS.contains(&rest.len()))
                .then(|| format!("{} {}?", asks_for(&words[..end]), sentence(&rest)));
        }
        SpanKind::Name if begins_so(&OF_PLACE) => ("where".to_owned(), without(words, start - 1, end)),
        SpanKind::Name => (asks_for(&words[start..end]).to_owned(), without(words, start, end)),
    };
    WORDS.contains(&rest.len()).then(|| format!("{ask} {}?", sentence(&inverted(rest))))
}

/// Returns `who` for what looks like a person's name: two or three words, no digit, no article; else `what`.
fn asks_for(name: &[&str]) -> &'static str {
    let is_word = |word: &&str| core(word).chars().all(char::is_alphabetic);
    match (2..=3).contains(&name.len()) && name.iter().all(is_word) && core(name[0]) != "The" {
        true => "who",
        false => "what",
    }
}

fn without<'a>(words: &[&'a str], start: usize, end: usize) -> Vec<&'a str> {
    let mut rest = [&words[..start], &words[end..]].concat();
    // A comma that stood around what was taken out.
    if rest.first().is_some_and(|word| core(word).is_empty()) {
        rest.remove(0);
    }
    rest
}

/// Returns the words with the first auxiliary verb of the clause before its subject, in small letters where they began
/// the sentence with an ordinary word.
fn inverted(mut words: Vec<&str>) -> Vec<&str> {
    let clause = words.len().min(CLAUSE);
    if let Some(at) = words[..clause].iter().position(|word| AUXILIARY.contains(word)) {
        let verb = words.remove(at);
        words.insert(0, verb);
    }
    words
}

/// Joins words to one line without the punctuation at its end; an article that began the sentence has a small letter.
fn sentence(words: &[&str]) -> String {
    let mut text = String::new();
    for word in words {
        let is_punctuation = core(word).is_empty();
        if !text.is_empty() && !is_punctuation {
            text.push(' ');
        }
        match *word {
            "The" | "A" | "An" | "In" | "On" | "At" | "After" | "Before" | "During" => {
                text.push_str(&word.to_lowercase())
            }
            word => text.push_str(word),
        }
    }
    text.trim_end_matches(|sign: char| !sign.is_alphanumeric() && !")\"'%".contains(sign)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::spans::spans;
    use super::*;

    #[test]
    fn questions_ask_for_what_a_sentence_tells() {
        let cases: [(&str, &str, &[(&str, &str)]); 6] = [
            (
                "The game was played on February 7, 2016, at Levi's Stadium.",
                "Super Bowl 50",
                &[
                    ("February 7, 2016", "when was the game played at Levi's Stadium?"),
                    ("Levi's Stadium", "where was the game played on February 7, 2016?"),
                ],
            ),
            (
                "Marie Curie discovered radium and polonium.",
                "Marie Curie",
                &[("Marie Curie", "who discovered radium and polonium?")],
            ),
            (
                "It has 68,500 seats under one roof.",
                "Levi's Stadium",
                &[
                    ("Levi's Stadium", "what has 68,500 seats under one roof?"),
                    ("68,500", "how many seats has Levi's Stadium under one roof?"),
                ],
            ),
            ("This was in 1927, as is well known.", "T", &[]),
            ("Its owner was born in 1927 in the old town.", "", &[]),
            ("He died in 1927.", "Otto", &[]),
        ];
        for (text, title, expected) in cases {
            let words = alone(text, title).unwrap_or_default();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let made: Vec<(String, String)> = spans(&words)
                .iter()
                .filter_map(|span| {
                    let answer = sentence(&words[span.words.clone()]);
                    Some((answer, question(&words, span)?))
                })
                .collect();
            let expected: Vec<_> = expected.iter().map(|(a, q)| ((*a).to_owned(), (*q).to_owned())).collect();
            assert_eq!(made, expected, "{text}");
        }
    }
}
