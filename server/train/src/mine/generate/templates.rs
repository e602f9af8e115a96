//! Questions from a sentence and an answer candidate in it (cloze translation by rules; Lewis et al. 2019): a question
//! word takes the place of the answer, and the auxiliary verb comes second.

use super::spans::{Span, SpanKind, core, is_year};

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
/// Pronouns that a sentence begins with, and whether they are possessive.
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
/// First words of a sentence that refers to the one before it, or that no question can be made of.
const LEANING: &[&str] = &[
    "This", "These", "That", "Those", "However", "But", "There", "Such", "Here", "Then", "If", "And", "Or",
    "Instead",
];
/// Prepositions and conjunctions that begin a phrase before the sentence's subject.
const LEADING: &[&str] = &[
    "In",
    "On",
    "At",
    "By",
    "For",
    "From",
    "To",
    "With",
    "As",
    "After",
    "Before",
    "During",
    "While",
    "When",
    "Since",
    "Until",
    "Under",
    "Over",
    "Despite",
    "Among",
    "Although",
    "Near",
    "Between",
    "Through",
    "Following",
    "Unlike",
];
/// Sentence adverbs at the beginning, which are left out.
const FILLING: &[&str] = &[
    "Thus",
    "Specifically",
    "Initially",
    "Finally",
    "So",
    "Also",
    "Therefore",
    "Moreover",
    "Furthermore",
    "Generally",
    "Additionally",
    "Consequently",
];
/// Verbs without the ending -ed that follow a subject. A name at the beginning is a subject only where a verb follows:
/// in "Civil disobedience is", a noun does.
const VERBS: &[&str] = &[
    "won", "led", "wrote", "became", "made", "began", "took", "held", "gave", "built", "lost", "met", "said",
    "saw", "ran", "found", "came", "went", "left", "brought", "taught", "told", "sent", "sold", "spent",
    "stood", "grew", "knew", "thought", "fought", "covers", "includes", "contains", "remains", "uses",
    "lies", "consists", "provides", "offers", "refers",
];
/// Words of a phrase before the subject, at most.
const PHRASE: usize = 10;

/// Returns the words of a sentence that can be understood alone: a pronoun at its beginning is replaced by the title of
/// its passage, and a phrase before the subject comes last. `None` where it cannot be understood.
pub(super) fn alone(sentence: &str, title: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = sentence.split_whitespace().map(str::to_owned).collect();
    let opens = sentence.matches(['(', '[', '“']).count();
    let closes = sentence.matches([')', ']', '”']).count();
    let is_whole =
        opens == closes && sentence.matches('"').count().is_multiple_of(2) && !sentence.contains('[');
    if !is_whole || LEANING.contains(&core(words.first()?)) {
        return None;
    }
    let mut comma = words.iter().take(PHRASE).position(|word| word.ends_with(','));
    // "On February 7, 2016, the game": the year belongs to the phrase.
    let year = comma
        .and_then(|comma| words.get(comma + 1))
        .is_some_and(|word| word.ends_with(',') && is_year(core(word)));
    if year {
        comma = comma.map(|comma| comma + 1);
    }
    let first = core(&words[0]).to_owned();
    if let Some(comma) = comma.filter(|_| FILLING.contains(&first.as_str())) {
        words.drain(..=comma);
    } else if let Some(comma) = comma.filter(|_| LEADING.contains(&first.as_str())) {
        let mut phrase: Vec<String> = words.drain(..=comma).collect();
        phrase[0] = phrase[0].to_lowercase();
        let last = phrase.len() - 1;
        for end in [words.last_mut()?, &mut phrase[last]] {
            *end = end.trim_end_matches(['.', ',', ';', ':', '!', '?']).to_owned();
        }
        words.extend(phrase);
    }
    let first = words.first()?.clone();
    let is = |known: &str| known.eq_ignore_ascii_case(&first);
    // "It is believed that": an expletive, which refers to nothing.
    let is_expletive =
        is("It") && words.iter().take(6).any(|word| ["that", "to", "possible"].contains(&word.as_str()));
    if is_expletive || LEANING.iter().any(|known| is(known)) {
        return None;
    }
    if let Some((_, is_possessive)) = PRONOUNS.iter().find(|(pronoun, _)| is(pronoun)) {
        if title.is_empty() {
            return None;
        }
        let subject = if *is_possessive { format!("{title}'s") } else { title.to_owned() };
        words.splice(0..1, subject.split_whitespace().map(str::to_owned));
    } else if ["The", "A", "An"].contains(&first.as_str()) || LEADING.contains(&first.as_str()) {
        words[0] = first.to_lowercase();
    }
    Some(words)
}

/// Returns the sentence without the answer; `None` where too little or too much is left.
pub(super) fn cloze(words: &[&str], span: &Span) -> Option<String> {
    let rest = without(words, span.words.start, span.words.end);
    is_enough(&rest).then(|| sentence(&rest))
}

/// Returns a question whose answer is the span; `None` where too little or too much is left, or where the rules would
/// not make a sentence of it: the verb has to be in second place already, or be an auxiliary that can be brought there.
pub(super) fn question(words: &[&str], span: &Span) -> Option<String> {
    let (start, end) = (span.words.start, span.words.end);
    let before = start.checked_sub(1).map(|at| words[at]);
    let follows = |known: &[&str]| before.is_some_and(|word| known.contains(&word));
    let (ask, rest) = match span.kind {
        SpanKind::Date if follows(&OF_TIME) => ("when".to_owned(), without(words, start - 1, end)),
        SpanKind::Date => return None,
        SpanKind::Number => {
            let noun = words.get(end)?;
            (format!("how many {}", core(noun)), without(words, start, end + 1))
        }
        SpanKind::Name if start == 0 => {
            // The name is the subject: what follows it is the question already.
            let rest = without(words, start, end);
            let verb = *rest.first()?;
            let is_verb = AUXILIARY.contains(&verb)
                || VERBS.contains(&verb)
                || (verb.len() > 4 && verb.ends_with("ed"));
            return (is_verb && is_enough(&rest))
                .then(|| format!("{} {}?", asks_for(&words[..end]), sentence(&rest)));
        }
        SpanKind::Name if follows(&OF_PLACE) => ("where".to_owned(), without(words, start - 1, end)),
        SpanKind::Name if follows(&["by"]) => {
            (asks_for(&words[start..end]).to_owned(), without(words, start, end))
        }
        SpanKind::Name => return None,
    };
    let first = *rest.first()?;
    let leads = LEADING.iter().any(|known| known.eq_ignore_ascii_case(first));
    let rest = inverted(rest).filter(|rest| !leads && is_enough(rest))?;
    Some(format!("{ask} {}?", sentence(&rest)))
}

/// Returns whether there are as many words as a question may have; punctuation is not counted.
fn is_enough(words: &[&str]) -> bool {
    WORDS.contains(&words.iter().filter(|word| !core(word).is_empty()).count())
}

/// Returns `who` for what looks like a person's name: two or three words, no digit, no article; else `what`.
fn asks_for(name: &[&str]) -> &'static str {
    let is_word = |word: &&str| core(word).chars().all(char::is_alphabetic);
    match (2..=3).contains(&name.len()) && name.iter().all(is_word) && core(name[0]) != "The" {
        true => "who",
        false => "what",
    }
}

/// Returns the words without those from `start` to `end`.
fn without<'a>(words: &[&'a str], start: usize, end: usize) -> Vec<&'a str> {
    let mut rest = [&words[..start], &words[end..]].concat();
    // A comma that stood around what was taken out.
    if rest.first().is_some_and(|word| core(word).is_empty()) {
        rest.remove(0);
    }
    rest
}

/// Returns the words with the first auxiliary verb of the clause before its subject; `None` without one.
fn inverted(mut words: Vec<&str>) -> Option<Vec<&str>> {
    let clause = words.len().min(CLAUSE);
    let at = words[..clause].iter().position(|word| AUXILIARY.contains(word)).filter(|at| *at > 0)?;
    // "the game, which was played": the verb of another clause.
    let is_other =
        words[..at].iter().any(|word| word.ends_with(',') || ["which", "that", "who"].contains(word));
    let verb = words.remove(at);
    words.insert(0, verb);
    (!is_other).then_some(words)
}

/// Joins words to one line without the punctuation at its end.
fn sentence(words: &[&str]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() && !core(word).is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text.trim_end_matches(|sign: char| !sign.is_alphanumeric() && !")\"'%".contains(sign)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::spans::{capitals, spans};
    use super::*;

    /// A sentence, the title of its passage, and the answers with the questions that are made.
    type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

    #[test]
    fn questions_ask_for_what_a_sentence_tells() {
        let cases: [Case; 11] = [
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
            (
                "During the war, the house was owned by Anna Lee.",
                "T",
                &[("Anna Lee", "who was the house owned by during the war?")],
            ),
            (
                "On February 7, 2016, the game was played at Levi's Stadium.",
                "T",
                &[
                    ("Levi's Stadium", "where was the game played on February 7, 2016?"),
                    ("February 7, 2016", "when was the game played at Levi's Stadium?"),
                ],
            ),
            ("In 1990, this was believed by Anna Lee to be so.", "T", &[]),
            ("Thus, it is believed that Anna Lee was born in 1927.", "T", &[]),
            ("Thus, nobody knew Anna Lee (of Prague.", "T", &[]),
            ("This was in 1927, as is well known.", "T", &[]),
            ("Its owner was born in 1927 in the old town.", "", &[]),
            ("He died in 1927.", "Otto", &[]),
        ];
        for (text, title, expected) in cases {
            let words = alone(text, title).unwrap_or_default();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let capitals = capitals(&[text], title);
            let made: Vec<(String, String)> = spans(&words, &capitals)
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
