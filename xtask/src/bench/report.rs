//! The table of the native benches, with the targets.

use super::middle;

/// Least ratio of our passages/s to sentence-transformers'.
const SENTENCE_TRANSFORMERS_TARGET: f64 = 1.5;
/// Least ratio of our passages/s to onnxruntime's fp32.
const ONNXRUNTIME_TARGET: f64 = 0.65;
/// Most of our question latency over onnxruntime's fp32 on one thread.
const QUESTION_TARGET: f64 = 1.3;

/// One engine's measurements, a value a round.
pub(super) struct Native {
    pub(super) name: &'static str,
    passages: Vec<f64>,
    question_one: Vec<f64>,
    question_two: Vec<f64>,
}

impl Native {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, passages: Vec::new(), question_one: Vec::new(), question_two: Vec::new() }
    }

    /// Passages a second, and milliseconds a question with one thread and with two.
    pub(super) fn add(&mut self, passages: f64, question_one: f64, question_two: Option<f64>) {
        self.passages.push(passages);
        self.question_one.push(question_one);
        self.question_two.extend(question_two);
    }

    /// The medians: passages a second, and milliseconds a question with one thread.
    pub(super) fn medians(&self) -> (f64, f64) {
        (middle(&self.passages), middle(&self.question_one))
    }

    /// The latest round in words.
    pub(super) fn last(&self) -> String {
        let at = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
        format!(
            "{:<22} {:>6.1} passages/s, {:.2} ms a question",
            self.name,
            at(&self.passages),
            at(&self.question_one)
        )
    }
}

/// The middle value; of an even number the mean of the two in the middle.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[sorted.len() / 2 - 1] + upper) / 2.0 })
}

/// The word beside a target.
pub(crate) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Prints medians, ratios and targets. `peers`: sentence-transformers, onnxruntime fp32, onnxruntime int8.
pub(super) fn print_native(ours: &Native, peers: &[Native; 3]) {
    let rounds = ours.passages.len();
    println!(
        "\n2,067 SQuAD paragraphs with titles, 2 threads; a 16-token question; medians of {rounds} turns"
    );
    println!("{:<24} {:>12} {:>18} {:>18}", "engine", "passages/s", "question, 1 thread", "2 threads");
    for engine in std::iter::once(ours).chain(peers) {
        let two = median(&engine.question_two).map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2} ms"));
        let (speed, one) = (middle(&engine.passages), middle(&engine.question_one));
        println!("{:<24} {speed:>12.1} {:>18} {two:>18}", engine.name, format!("{one:.2} ms"));
    }
    let [sentence, onnx, int8] = peers;
    let speed = |peer: &Native| middle(&ours.passages) / middle(&peer.passages);
    let least = |what: &str, ratio: f64, target: f64| {
        println!("{what:<52} {ratio:>6.2}  (at least {target:.2}: {})", verdict(ratio >= target));
    };
    println!();
    least("passages/s over sentence-transformers", speed(sentence), SENTENCE_TRANSFORMERS_TARGET);
    least("passages/s over onnxruntime fp32", speed(onnx), ONNXRUNTIME_TARGET);
    let question = middle(&ours.question_one) / middle(&onnx.question_one);
    let met = verdict(question <= QUESTION_TARGET);
    println!(
        "{:<52} {question:>6.2}  (at most {QUESTION_TARGET:.2}: {met})",
        "question over onnxruntime fp32, one thread"
    );
    println!(
        "{:<52} {:>6.2}  (dpr in 8 bits: --only precision)",
        "passages/s over onnxruntime int8",
        speed(int8)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
