//! Decoding of a reader's scores: the best spans of one passage.

use super::answer::{FoundSpan, PassageReading};
use super::{ReadOptions, ReaderInput, ReaderLogits};

/// A span of tokens, counted in the input, and its score as the sum of two logits.
struct Span {
    first: usize,
    last: usize,
    logit: f64,
}

/// Returns what is found in one passage, whose text is `text`: its best spans, which do not overlap, and the score by
/// which it is chosen.
pub(super) fn read(
    input: &ReaderInput,
    text: &str,
    logits: &ReaderLogits,
    options: ReadOptions,
) -> PassageReading {
    let sums = log_sum_exp(&logits.start) + log_sum_exp(&logits.end);
    let from = input.passage().start;
    let (mut spans, mut best): (Vec<FoundSpan>, _) = (Vec::new(), None);
    for span in ranked(input, logits, options.max_answer_tokens) {
        if !spans.is_empty() && spans.len() >= options.spans {
            break;
        }
        let Some(bytes) = input.whole_words(text, span.first - from, span.last - from) else { continue };
        if spans.iter().any(|other| bytes.start < other.bytes.end && other.bytes.start < bytes.end) {
            continue;
        }
        best.get_or_insert(span.logit);
        let (text, score) = (text[bytes.clone()].to_owned(), (span.logit - sums).exp());
        spans.push(FoundSpan { text, bytes, score });
    }
    spans.truncate(options.spans);
    let selection = match (logits.selection, best, logits.start.first(), logits.end.first()) {
        (Some(selection), ..) => Some(f64::from(selection)),
        // Without a layer for it, by how much the best span is better than none.
        (None, Some(best), Some(start), Some(end)) => Some(best - f64::from(*start) - f64::from(*end)),
        _ => None,
    };
    PassageReading { selection, spans }
}

/// Returns the spans of the passage's tokens of at most `most` tokens, best first; of equal ones the earlier and
/// shorter first.
fn ranked(input: &ReaderInput, logits: &ReaderLogits, most: usize) -> Vec<Span> {
    let passage = input.passage();
    let ends = |first: usize| first..first.saturating_add(most).min(passage.end);
    let spans = passage.clone().flat_map(|first| ends(first).map(move |last| (first, last)));
    let mut spans: Vec<Span> = spans
        .map(|(first, last)| {
            let logit = f64::from(logits.start[first]) + f64::from(logits.end[last]);
            Span { first, last, logit }
        })
        .collect();
    spans.sort_by(|a, b| b.logit.total_cmp(&a.logit).then((a.first, a.last).cmp(&(b.first, b.last))));
    spans
}

/// Returns the logarithm of the sum of exponentials, by which a softmax divides.
fn log_sum_exp(logits: &[f32]) -> f64 {
    let most = logits.iter().fold(f64::NEG_INFINITY, |most, x| most.max(f64::from(*x)));
    if most == f64::NEG_INFINITY {
        return 0.0;
    }
    most + logits.iter().map(|x| (f64::from(*x) - most).exp()).sum::<f64>().ln()
}
