//! Mapping of gold paragraphs to the blocks of a pool (paper §4.2).

use std::collections::HashMap;
use std::ops::Range;

use dpr_data::{Gold, Passage};
use dpr_eval::AnswerMatcher;
use dpr_index::sparse::{Scoring, SparseError, SparseIndex};

/// Blocks compared with a gold paragraph: the blocks that share most terms with the text around the answer.
const CANDIDATES: usize = 20;

/// Words on either side of the answer that blocks are searched with.
const AROUND: usize = 50;

/// Words in a row that a block and a paragraph must share, at least; fewer are a common phrase. Of a shorter paragraph
/// all must be in the block.
const LEAST_RUN: usize = 8;

/// The share of a block's words that this run must be, at least: more is another text that quotes the paragraph.
const LEAST_SHARE: f64 = 0.5;

/// Finds the passage of the pool that stands for a gold paragraph.
pub(super) struct GoldMap<'a> {
    pool: &'a [Passage],
    rows: HashMap<&'a str, usize>,
}

impl<'a> GoldMap<'a> {
    pub(super) fn new(pool: &'a [Passage]) -> Self {
        let rows = pool.iter().enumerate().map(|(row, passage)| (passage.id.as_str(), row)).collect();
        Self { pool, rows }
    }

    /// Returns the row of the paragraph: the same paragraph when the pool has it, else the block that took over the
    /// longest piece of it with the answer inside.
    pub(super) fn find(
        &self,
        gold: &Gold,
        answers: &AnswerMatcher,
        index: &SparseIndex,
        scoring: Scoring,
    ) -> Result<Option<usize>, SparseError> {
        if let Some(row) = self.rows.get(gold.id.as_str()).filter(|row| self.pool[**row].text == *gold.text) {
            return Ok(Some(*row));
        }
        let mut numbers = HashMap::new();
        let paragraph = Words::of(&gold.text, &mut numbers);
        let answer =
            gold.answer.as_ref().map(|bytes| paragraph.within(bytes)).filter(|words| !words.is_empty());
        let around = match &answer {
            Some(words) => paragraph.text(words.start.saturating_sub(AROUND)..words.end + AROUND),
            None => &gold.text,
        };
        let mut best: Option<(bool, usize, usize)> = None;
        for hit in index.search(around, CANDIDATES, scoring)? {
            let text = &self.pool[hit.row].text;
            let block = Words::of(text, &mut numbers);
            let run = longest_run(&paragraph.numbers, &block.numbers);
            let is_whole = run.len() == paragraph.numbers.len();
            let is_piece =
                run.len() >= LEAST_RUN && run.len() as f64 >= LEAST_SHARE * block.numbers.len() as f64;
            if !is_piece && !is_whole {
                continue;
            }
            let has_place = answer.as_ref().is_some_and(|at| run.start <= at.start && at.end <= run.end);
            let found = (has_place, run.len(), hit.row);
            // Where the answer's place is in no block, one that names it elsewhere will do.
            let is_better = best.is_none_or(|(placed, length, _)| (placed, length) < (has_place, run.len()));
            if is_better && (has_place || answers.matches(text)) {
                best = Some(found);
            }
        }
        Ok(best.map(|(_, _, row)| row))
    }
}

/// A text as numbered words, without punctuation and case; of Chinese and Japanese every character is one.
struct Words<'a> {
    text: &'a str,
    numbers: Vec<u32>,
    places: Vec<Range<usize>>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str, numbers: &mut HashMap<String, u32>) -> Self {
        let mut words = Self { text, numbers: Vec::new(), places: Vec::new() };
        let mut from = None;
        for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
            let is_alone = is_ideograph(c);
            if !c.is_alphanumeric() || is_alone {
                if let Some(from) = from.take() {
                    words.push(from..at, numbers);
                }
                if is_alone {
                    words.push(at..at + c.len_utf8(), numbers);
                }
            } else if from.is_none() {
                from = Some(at);
            }
        }
        words
    }

    fn push(&mut self, place: Range<usize>, numbers: &mut HashMap<String, u32>) {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        self.numbers.push(*numbers.entry(self.text[place.clone()].to_lowercase()).or_insert(next));
        self.places.push(place);
    }

    /// Returns the words that touch a range of bytes.
    fn within(&self, bytes: &Range<usize>) -> Range<usize> {
        let from = self.places.partition_point(|place| place.end <= bytes.start);
        let to = self.places.partition_point(|place| place.start < bytes.end);
        from..to.max(from)
    }

    /// Returns the text from the first to the last of these words, cut at the end of the text.
    fn text(&self, words: Range<usize>) -> &'a str {
        match self.places.get(words.start..words.end.min(self.places.len())) {
            Some([first, .., last]) => &self.text[first.start..last.end],
            Some([only]) => &self.text[only.clone()],
            _ => self.text,
        }
    }
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{323af}')
}

/// Returns the range of the longest run of words in `text` that `other` has in a row too.
fn longest_run(text: &[u32], other: &[u32]) -> Range<usize> {
    // ending[j]: length of the common run that ends at the word at hand and at other[j - 1].
    let mut ending = vec![0usize; other.len() + 1];
    let mut best = 0..0;
    for (at, word) in text.iter().enumerate() {
        let mut diagonal = 0;
        for (ending, other) in ending[1..].iter_mut().zip(other) {
            let length = if word == other { diagonal + 1 } else { 0 };
            diagonal = std::mem::replace(ending, length);
            if length > best.len() {
                best = at + 1 - length..at + 1;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_in_common_is_found() {
        assert_eq!(longest_run(&[1, 2, 3, 4, 5], &[9, 2, 3, 4, 9, 1, 2]), 1..4);
        assert_eq!(longest_run(&[1, 1, 1], &[1, 1]), 0..2);
        assert_eq!(longest_run(&[1, 2], &[3]), 0..0);
        assert_eq!(longest_run(&[], &[3]), 0..0);
    }

    #[test]
    fn words_are_told_apart_whatever_stands_between_them() {
        let mut numbers = HashMap::new();
        let raw = Words::of("Alberton, Montana (1923) is", &mut numbers);
        let cut = Words::of("alberton , montana ( 1923 ) is", &mut numbers);
        assert_eq!(raw.numbers, cut.numbers);
        assert_eq!(raw.text(1..3), "Montana (1923");
        assert_eq!(raw.within(&(10..17)), 1..2);
        assert_eq!(raw.within(&(8..10)), 1..1);
        assert_eq!(Words::of("東京は。", &mut numbers).numbers.len(), 3);
    }
}
