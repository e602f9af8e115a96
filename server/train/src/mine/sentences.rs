//! Sentences of a text.

/// Returns the sentences of a text. One ends at a full stop, question or exclamation mark (with what closes a
/// quotation) before white space, unless what follows goes on in lower case or a short abbreviation came before.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut from = 0;
    while let Some(space) = text[from..].find(char::is_whitespace).map(|at| from + at) {
        let after = text[space..].trim_start();
        from = text.len() - after.len();
        let word = text[start..space].rsplit(char::is_whitespace).next().unwrap_or_default();
        let bare = word.trim_end_matches(['"', '\'', '”', '’', ')', ']']);
        let stops = bare.ends_with(['.', '?', '!', '。', '？', '！']);
        // "J. Smith", "U.S. Army", "St. Louis": a capital and a stop, or a title.
        let letters = bare.trim_end_matches('.');
        let is_short = bare.ends_with('.')
            && letters.chars().next().is_some_and(char::is_uppercase)
            && (letters.chars().count() < 3 || letters.contains('.'));
        let goes_on = after.chars().next().is_none_or(char::is_lowercase);
        if stops && !is_short && !goes_on {
            sentences.push(text[start..space].trim());
            start = from;
        }
    }
    sentences.push(text[start..].trim());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_they_end() {
        let cases: [(&str, &[&str]); 6] = [
            ("One is here. Two is there!  Three?", &["One is here.", "Two is there!", "Three?"]),
            (
                "J. R. Smith of St. Louis left the U.S. Army. He went home.",
                &["J. R. Smith of St. Louis left the U.S. Army.", "He went home."],
            ),
            ("He said \"Go.\" Then he went.", &["He said \"Go.\"", "Then he went."]),
            ("It rose 3.5 percent . The bank agreed .", &["It rose 3.5 percent .", "The bank agreed ."]),
            ("no stop", &["no stop"]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(sentences(text), expected, "{text:?}");
        }
    }
}
