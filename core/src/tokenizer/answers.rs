//! Places of known answers among the tokens of a passage: what a reader is trained to mark.

use std::ops::RangeInclusive;

use super::{ReaderInput, TextTokenizer, TokenizerError};

impl TextTokenizer {
    /// Returns the spans of the passage's tokens that are the tokens of one of `answers`, as positions in the input of
    /// the first and the last token, in order and at most `most`. Matches of whole words count; a match that begins or
    /// ends within a word counts where there are no others, as before a Korean particle.
    ///
    /// # Errors
    /// [`TokenizerError::Text`] when the library fails.
    pub fn answer_spans(
        &self,
        input: &ReaderInput,
        answers: &[String],
        most: usize,
    ) -> Result<Vec<RangeInclusive<usize>>, TokenizerError> {
        let passage = input.passage();
        let ids = input.ids().get(passage.clone()).unwrap_or_default();
        let mut found = Vec::new();
        for answer in answers {
            let answer = self.ids(answer)?;
            if answer.is_empty() {
                continue;
            }
            let matches = ids.windows(answer.len()).enumerate().filter(|(_, window)| *window == answer);
            found.extend(matches.map(|(first, _)| (first, first + answer.len() - 1)));
        }
        found.sort_unstable();
        found.dedup();
        let words = &input.words;
        let differs = |one: usize, next: usize| words.get(one) != words.get(next);
        let is_whole = |(first, last): &(usize, usize)| {
            (*first == 0 || differs(first - 1, *first))
                && (last + 1 == words.len() || differs(*last, last + 1))
        };
        if found.iter().any(is_whole) {
            found.retain(is_whole);
        }
        found.truncate(most);
        Ok(found.into_iter().map(|(first, last)| passage.start + first..=passage.start + last).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::reader::ReaderConfig;
    use crate::tokenizer::TextTokenizer;

    fn reader() -> (ReaderConfig, TextTokenizer) {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/readers/dpr");
        let read = |name: &str| std::fs::read(format!("{dir}/{name}")).unwrap();
        let config = ReaderConfig::from_json(&read("config.json")).unwrap().with_max_tokens(60);
        let tokenizer = TextTokenizer::from_json(&read("tokenizer.json"), config.encoder()).unwrap();
        (config, tokenizer)
    }

    fn marked(text: &str, answers: &[&str], most: usize) -> Vec<String> {
        let (config, tokenizer) = reader();
        let input = config.input(&tokenizer, "where does the rhine rise", "Rhine", text).unwrap();
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let spans = tokenizer.answer_spans(&input, &answers, most).unwrap();
        let start = input.passage().start;
        let text = |first: usize, last: usize| text[input.whole_words(text, first, last).unwrap()].to_owned();
        spans.iter().map(|span| text(span.start() - start, span.end() - start)).collect()
    }

    #[test]
    fn every_match_of_every_answer_is_marked_once() {
        let text = "The Rhine rises in the Alps; the alps are high.";
        assert_eq!(marked(text, &["Alps", "the Alps", "ALPS"], 10), ["the Alps", "Alps", "the alps", "alps"]);
        assert_eq!(marked(text, &["Alps", "the Alps"], 3).len(), 3);
        assert_eq!(marked(text, &["Andes", "", "  "], 10), Vec::<String>::new());
        // Beyond the cut there is nothing to mark.
        assert_eq!(
            marked(&format!("{}castles", "the sea ".repeat(60)), &["castles"], 10),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_part_of_a_word_counts_only_where_no_whole_word_does() {
        let (_, tokenizer) = reader();
        // A word of two pieces at least, whose first piece is a word elsewhere.
        let long = ["rhines", "castlesx", "breadq", "alpsz"].into_iter().find(|word| {
            tokenizer.ids(word).unwrap().starts_with(&tokenizer.ids(&word[..word.len() - 1]).unwrap())
        });
        let long = long.expect("a word whose beginning is a word");
        let short = &long[..long.len() - 1];
        assert_eq!(marked(&format!("{long} and {short} here"), &[short], 10), [short]);
        assert_eq!(marked(&format!("{long} alone"), &[short], 10), [long]);
    }
}
