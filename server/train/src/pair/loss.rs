//! Losses of readers and rerankers with their gradients, in closed form over the scores of a batch.
//!
//! A reader's loss of one question is (paper §6.1)
//!
//! ```text
//! - log P_selected(positive) - log Σ P_start(s) P_end(t),   over the correct spans (s, t) of the positive
//! ```
//!
//! with `P_selected` over the question's passages, and `P_start` and `P_end` over all tokens of the positive's input.
//! The loss of a batch is the mean over its questions.

use super::super::encoders::{DualEncoder, TrainDevice};
use super::super::error::TrainError;
use super::super::options::StepOptions;
use super::super::step::{BySide, Inputs, Loss, LossOutcome, Outputs, StepNoise, StepOutcome, step_by};
use super::batch::PairBatch;
use super::config::{RankLoss, Ranking};

/// Scores of a token: start, end and selection.
const SCORES: usize = 3;

/// Computes a reader's loss of `batch` and its gradients, multiplied by `scale`.
///
/// # Errors
/// [`TrainError::Batch`] for a batch that does not fit together, [`TrainError::Device`] when the device fails, and
/// [`TrainError::NotFinite`] for a loss that is not a number.
pub fn reader_step(
    model: &DualEncoder,
    batch: &PairBatch,
    options: &StepOptions,
    noise: StepNoise,
    scale: f32,
    device: &TrainDevice,
) -> Result<StepOutcome, TrainError> {
    batch.check(true)?;
    let inputs = Inputs { texts: [&[], &batch.ids], types: &batch.types, outputs: Outputs::Tokens };
    step_by(model, inputs, &ReaderLoss(batch), options, noise, scale, device)
}

/// Computes a reranker's loss of `batch` and its gradients, multiplied by `scale`.
///
/// # Errors
/// [`TrainError`] as from [`reader_step`].
pub fn reranker_step(
    model: &DualEncoder,
    batch: &PairBatch,
    ranking: Ranking,
    options: &StepOptions,
    noise: StepNoise,
    scale: f32,
    device: &TrainDevice,
) -> Result<StepOutcome, TrainError> {
    batch.check(false)?;
    let inputs = Inputs { texts: [&[], &batch.ids], types: &batch.types, outputs: Outputs::Vectors };
    step_by(model, inputs, &RerankerLoss { batch, ranking }, options, noise, scale, device)
}

/// Returns the logarithms of the softmax of `logits`.
fn log_softmax(logits: impl Iterator<Item = f32> + Clone) -> Vec<f64> {
    let most = logits.clone().fold(f64::NEG_INFINITY, |most, x| most.max(f64::from(x)));
    let sum = logits.clone().map(|x| (f64::from(x) - most).exp()).sum::<f64>().ln();
    logits.map(|x| f64::from(x) - most - sum).collect()
}

/// Returns the loss of the first of `logits` against the others, and the gradient at each.
fn first_of(logits: &[f32]) -> (f64, Vec<f64>) {
    let logs = log_softmax(logits.iter().copied());
    let gradient = logs.iter().enumerate().map(|(at, log)| log.exp() - f64::from(u8::from(at == 0)));
    (-logs.first().copied().unwrap_or(f64::NAN), gradient.collect())
}

/// Returns whether the first score is above all others.
fn is_first_best(scores: &[f32]) -> bool {
    scores.split_first().is_some_and(|(first, rest)| rest.iter().all(|other| other < first))
}

/// The loss of one question's positive over `[tokens, 3]` scores: the loss and the gradient at each score. `None` where
/// no span is marked.
pub(super) fn span_loss(
    scores: &[f32],
    spans: &[std::ops::RangeInclusive<usize>],
) -> Option<(f64, Vec<f64>)> {
    let of = |place: usize| scores.chunks_exact(SCORES).map(move |token| token[place]);
    let (starts, ends) = (log_softmax(of(0)), log_softmax(of(1)));
    let logs: Vec<f64> = spans
        .iter()
        .map(|span| Some(starts.get(*span.start())? + ends.get(*span.end())?))
        .collect::<Option<_>>()?;
    let most = logs.iter().copied().reduce(f64::max)?;
    let sum = logs.iter().map(|log| (log - most).exp()).sum::<f64>();
    let mut gradient = vec![0.0; scores.len()];
    for (token, (start, end)) in gradient.chunks_exact_mut(SCORES).zip(starts.iter().zip(&ends)) {
        (token[0], token[1]) = (start.exp(), end.exp());
    }
    for (span, log) in spans.iter().zip(&logs) {
        let share = (log - most).exp() / sum;
        gradient[span.start() * SCORES] -= share;
        gradient[span.end() * SCORES + 1] -= share;
    }
    Some((-(most + sum.ln()), gradient))
}

/// The paper's loss of a reader.
struct ReaderLoss<'a>(&'a PairBatch);

impl Loss for ReaderLoss<'_> {
    fn gradients(
        &self,
        [none, scores]: BySide,
        dim: usize,
        _device: &TrainDevice,
    ) -> Result<LossOutcome, TrainError> {
        let batch = self.0;
        let questions = batch.passages.len() as f64;
        let mut gradients = vec![0f32; scores.len()];
        let (mut loss, mut correct, mut first) = (0.0, 0, 0);
        for (passages, spans) in batch.passages.iter().zip(&batch.spans) {
            let rows = first..first + passages;
            let selection: Vec<f32> = rows.clone().map(|row| scores[row * dim + 2]).collect();
            let (of_selection, at_selection) = first_of(&selection);
            let tokens = batch.ids[first].len();
            let (of_spans, at_spans) = span_loss(&scores[first * dim..first * dim + tokens * SCORES], spans)
                .ok_or_else(|| TrainError::Batch { what: "a positive without a span".into() })?;
            for (row, gradient) in rows.zip(at_selection) {
                gradients[row * dim + 2] = (gradient / questions) as f32;
            }
            for (at, gradient) in gradients[first * dim..].iter_mut().zip(&at_spans) {
                *at += (gradient / questions) as f32;
            }
            loss += (of_selection + of_spans) / questions;
            correct += usize::from(is_first_best(&selection));
            first += passages;
        }
        Ok(LossOutcome { loss, correct, gradients: [none, gradients] })
    }
}

/// Returns a reranker's loss of the scores of one question's passages, the positive first, and the gradient at each.
pub(super) fn rank_loss(loss: RankLoss, scores: &[f32]) -> (f64, Vec<f64>) {
    match loss {
        RankLoss::Listwise => first_of(scores),
        RankLoss::Binary => {
            let mut sum = 0.0;
            let gradient = scores.iter().enumerate().map(|(at, score)| {
                let (score, label) = (f64::from(*score), f64::from(u8::from(at == 0)));
                // log(1 + exp(-x)), without overflow.
                sum += score.max(0.0) - score * label + (-score.abs()).exp().ln_1p();
                (1.0 / (1.0 + (-score).exp()) - label) / scores.len() as f64
            });
            let gradient = gradient.collect();
            (sum / scores.len() as f64, gradient)
        }
    }
}

/// Returns a reranker's loss of the scores of one question's passages as [`rank_loss`] does, with the teacher's share
/// where `taught` has its logits:
///
/// ```text
/// (1 - w) rank_loss + w Σ t log(t / s),   t = softmax(taught), s = softmax(scores)
/// ```
fn taught_loss(ranking: Ranking, scores: &[f32], taught: &[f32]) -> (f64, Vec<f64>) {
    let (of_labels, gradient) = rank_loss(ranking.loss, scores);
    if taught.is_empty() {
        return (of_labels, gradient);
    }
    let weight = ranking.teacher_weight;
    let (ours, theirs) = (log_softmax(scores.iter().copied()), log_softmax(taught.iter().copied()));
    let divergence: f64 = ours.iter().zip(&theirs).map(|(own, other)| other.exp() * (other - own)).sum();
    let mixed = gradient
        .iter()
        .zip(ours.iter().zip(&theirs))
        .map(|(of_label, (own, other))| (1.0 - weight) * of_label + weight * (own.exp() - other.exp()));
    ((1.0 - weight) * of_labels + weight * divergence, mixed.collect())
}

/// A loss over one score a passage.
struct RerankerLoss<'a> {
    batch: &'a PairBatch,
    ranking: Ranking,
}

impl Loss for RerankerLoss<'_> {
    fn gradients(
        &self,
        [none, scores]: BySide,
        _dim: usize,
        _device: &TrainDevice,
    ) -> Result<LossOutcome, TrainError> {
        let questions = self.batch.passages.len() as f64;
        let mut gradients = Vec::with_capacity(scores.len());
        let (mut loss, mut correct) = (0.0, 0);
        let mut rest = scores.as_slice();
        for (question, passages) in self.batch.passages.iter().enumerate() {
            let (own, after) = rest.split_at(*passages);
            rest = after;
            let taught = self.batch.taught.get(question).map_or(&[][..], Vec::as_slice);
            let (of_question, gradient) = taught_loss(self.ranking, own, taught);
            loss += of_question / questions;
            correct += usize::from(is_first_best(own));
            gradients.extend(gradient.into_iter().map(|value| (value / questions) as f32));
        }
        Ok(LossOutcome { loss, correct, gradients: [none, gradients] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a gradient with the change of the loss.
    fn check(scores: &[f32], loss: impl Fn(&[f32]) -> (f64, Vec<f64>)) {
        let (_, gradient) = loss(scores);
        for place in 0..scores.len() {
            let moved = |by: f32| {
                let mut scores = scores.to_vec();
                scores[place] += by;
                loss(&scores).0
            };
            let change = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((change - gradient[place]).abs() < 1e-4, "{place}: {change} {}", gradient[place]);
        }
    }

    #[test]
    fn gradients_are_the_change_of_the_loss() {
        let scores = [0.5, -0.25, 2.0, 1.5, 0.0, -1.0, 0.75, 0.3, 0.1, -2.0, 0.2, 0.4];
        check(&scores, |scores| span_loss(scores, &[0..=1, 2..=2, 2..=3]).unwrap());
        check(&scores[..5], |scores| rank_loss(RankLoss::Listwise, scores));
        check(&scores[..5], |scores| rank_loss(RankLoss::Binary, scores));
        let ranking = Ranking { loss: RankLoss::Listwise, teacher_weight: 0.75 };
        check(&scores[..5], |scores| taught_loss(ranking, scores, &[2.0, 1.0, -1.0, 0.5, 0.0]));
    }

    #[test]
    fn a_teacher_s_share_is_the_divergence_from_its_distribution() {
        let ranking = |teacher_weight| Ranking { loss: RankLoss::Binary, teacher_weight };
        let (scores, taught) = ([0.5f32, -0.25, 2.0], [2.0f32, 1.0, -1.0]);
        // By Python's math module: t = softmax([2, 1, -1]), s = softmax([0.5, -0.25, 2]), the sum of t * log(t / s).
        let (loss, _) = taught_loss(ranking(1.0), &scores, &taught);
        assert!((loss - 1.212_150_65).abs() < 1e-6, "{loss}");
        // What the teacher says is reached where the logits differ by a constant.
        let (none, gradient) = taught_loss(ranking(1.0), &[5.0, 4.0, 2.0], &taught);
        assert!(none.abs() < 1e-9 && gradient.iter().all(|value| value.abs() < 1e-9), "{none} {gradient:?}");
        let labels = rank_loss(RankLoss::Binary, &scores);
        assert_eq!(taught_loss(ranking(0.0), &scores, &taught), labels);
        assert_eq!(taught_loss(ranking(1.0), &scores, &[]), labels, "unread passages have their labels");
    }

    #[test]
    fn all_matches_of_an_answer_share_the_likelihood() {
        // Two tokens, every start and end as likely: one of four spans is right, then two, then all.
        let scores = [0.0; 6];
        let loss = |spans: &[_]| span_loss(&scores, spans).unwrap().0;
        assert!((loss(&[0..=0]) - 4f64.ln()).abs() < 1e-12);
        assert!((loss(&[0..=0, 1..=1]) - 2f64.ln()).abs() < 1e-12);
        assert!(loss(&[0..=0, 0..=1, std::ops::RangeInclusive::new(1, 0), 1..=1]).abs() < 1e-12);
        assert!(span_loss(&scores, &[]).is_none() && span_loss(&scores, &[0..=2]).is_none());
    }

    #[test]
    fn the_first_passage_is_the_positive() {
        let (best, _) = rank_loss(RankLoss::Listwise, &[9.0, 0.0, 0.0]);
        let (worst, _) = rank_loss(RankLoss::Listwise, &[0.0, 9.0, 0.0]);
        assert!(best < 0.001 && worst > 8.0);
        assert!((rank_loss(RankLoss::Listwise, &[1.0]).0).abs() < 1e-12, "alone, there is nothing to choose");
        assert!((rank_loss(RankLoss::Binary, &[0.0, 0.0]).0 - 2f64.ln()).abs() < 1e-12);
        assert!(rank_loss(RankLoss::Binary, &[-1000.0]).0.is_finite());
    }
}
