//! Answers: what is found in passages, and the choice among them.

use std::ops::Range;

use serde::Serialize;

/// The result of reading one passage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassageReading {
    /// The score by which the passage is chosen, a logit; `None` where it has no text and no layer chooses passages.
    pub selection: Option<f64>,
    /// Its best spans, best first, which do not overlap.
    pub spans: Vec<FoundSpan>,
}

/// A span of a passage's text.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundSpan {
    /// The text, cut from the passage's.
    pub text: String,
    /// Its bytes in the passage's text.
    pub bytes: Range<usize>,
    /// The probability of its start times that of its end, among all tokens of the input.
    pub score: f64,
}

impl FoundSpan {
    /// Returns the span's place in its passage's text in units of UTF-16, as JavaScript counts them.
    pub fn utf16(&self, passage: &str) -> Range<usize> {
        place(&self.bytes, &self.text, passage, |text| text.encode_utf16().count())
    }
}

/// Returns the place of `bytes`, which hold `text`, in a passage's text, counted by `count`.
fn place(bytes: &Range<usize>, text: &str, passage: &str, count: impl Fn(&str) -> usize) -> Range<usize> {
    let start = count(passage.get(..bytes.start).unwrap_or(passage));
    start..start + count(text)
}

/// An answer: a span of one of the passages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Position of the passage, from 0.
    pub passage: usize,
    /// The answer, cut from the passage's text.
    pub text: String,
    /// Its bytes in the passage's text; see [`Answer::chars`] and [`Answer::utf16`].
    #[serde(skip)]
    pub bytes: Range<usize>,
    /// The probability with which the passage is chosen among all that were read, from 0 to 1.
    pub selection: f64,
    /// The span's own score within its passage, from 0 to 1: the probability of its start times that of its end.
    pub score: f64,
}

impl Answer {
    /// Returns the answer's place in its passage's text in characters (Unicode scalar values), as Python counts them.
    pub fn chars(&self, passage: &str) -> Range<usize> {
        place(&self.bytes, &self.text, passage, |text| text.chars().count())
    }

    /// Returns the answer's place in its passage's text in units of UTF-16, as JavaScript counts them.
    pub fn utf16(&self, passage: &str) -> Range<usize> {
        place(&self.bytes, &self.text, passage, |text| text.encode_utf16().count())
    }
}

/// Returns the best answers in the passages whose readings these are, at most `count`, best first. Passages are chosen
/// by the softmax of their selection scores, so that an answer's `selection` depends on which passages are given; all
/// answers of one passage come before those of the next.
pub fn best_answers(readings: &[PassageReading], count: usize) -> Vec<Answer> {
    let chosen =
        readings.iter().enumerate().filter_map(|(passage, reading)| Some((passage, reading.selection?)));
    let mut chosen: Vec<(usize, f64)> = chosen.collect();
    chosen.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let most = chosen.first().map_or(0.0, |(_, selection)| *selection);
    let sum: f64 = chosen.iter().map(|(_, selection)| (selection - most).exp()).sum();
    let answers = chosen.iter().flat_map(|(passage, selection)| {
        readings[*passage].spans.iter().map(move |span| Answer {
            passage: *passage,
            text: span.text.clone(),
            bytes: span.bytes.clone(),
            selection: (selection - most).exp() / sum,
            score: span.score,
        })
    });
    answers.take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(selection: Option<f64>, spans: &[(&str, usize, f64)]) -> PassageReading {
        let span = |(text, from, score): &(&str, usize, f64)| FoundSpan {
            text: (*text).to_owned(),
            bytes: *from..from + text.len(),
            score: *score,
        };
        PassageReading { selection, spans: spans.iter().map(span).collect() }
    }

    #[test]
    fn the_chosen_passage_s_spans_come_first_however_sure_the_others_are() {
        let readings = [
            reading(Some(1.0), &[("a", 0, 0.9), ("b", 2, 0.1)]),
            reading(None, &[]),
            reading(Some(2.0), &[("c", 0, 0.2)]),
            reading(Some(5.0), &[]),
        ];
        let texts = |count| -> Vec<String> {
            best_answers(&readings, count).into_iter().map(|answer| answer.text).collect()
        };
        assert_eq!(texts(9), ["c", "a", "b"]);
        assert_eq!(texts(2), ["c", "a"]);
        assert_eq!(texts(0), [""; 0]);
        let first = &best_answers(&readings[..3], 1)[0];
        let expected = 1f64.exp() / (1f64.exp() + 1.0);
        assert!((first.selection - expected).abs() < 1e-12 && first.passage == 2, "{first:?}");
        assert_eq!(best_answers(&[], 3), []);
    }

    #[test]
    fn places_are_counted_as_the_caller_s_language_counts() {
        let text = "Ω𝄞 한강 flows";
        let from = text.find("한강").unwrap();
        let answer = &best_answers(&[reading(Some(0.0), &[("한강", from, 0.5)])], 1)[0];
        assert_eq!((answer.bytes.clone(), answer.chars(text), answer.utf16(text)), (7..13, 3..5, 4..6));
        assert_eq!(answer.utf16("").start, 0, "a place outside the text does not panic");
    }
}
