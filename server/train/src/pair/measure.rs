//! Measures of readers and rerankers on dev questions: each reads its first positive and its first negatives.

use dpr_core::cross_encoder::CrossEncoder;
use dpr_core::device::Device;
use dpr_core::reader::best_answers;
use dpr_core::weights::StoredTensor;
use dpr_core::{EncodeError, LoadError, ReadError, ReadOptions, Reader, TensorMap, WeightsError};
use dpr_eval::ReadingRules;
use dpr_files::Job;
use rayon::prelude::*;
use safetensors::tensor::Dtype;

use super::super::encoders::{DualEncoder, TrainDevice};
use super::super::error::TrainError;
use super::super::evaluate::check_stop;
use super::super::scores::{ReaderScores, RerankerScores};
use super::config::PairConfig;
use super::data::{PairData, PairItem};
use super::loss::{rank_loss, span_loss};
use super::prepare::marked;
use super::start::PairKind;

/// Sums over questions.
#[derive(Clone, Copy, Default)]
struct Sum {
    exact: f64,
    f1: f64,
    gold: f64,
    selected: f64,
    reciprocal: f64,
    loss: f64,
    losses: f64,
}

impl Sum {
    fn add(self, other: Self) -> Self {
        Self {
            exact: self.exact + other.exact,
            f1: self.f1 + other.f1,
            gold: self.gold + other.gold,
            selected: self.selected + other.selected,
            reciprocal: self.reciprocal + other.reciprocal,
            loss: self.loss + other.loss,
            losses: self.losses + other.losses,
        }
    }
}

/// The data that a measurement needs besides the model.
pub(super) struct Dev<'a> {
    pub(super) data: &'a PairData,
    pub(super) config: &'a PairConfig,
}

impl Dev<'_> {
    /// Measures a reader.
    pub(super) fn reader(
        &self,
        kind: &PairKind,
        model: &DualEncoder,
        device: &TrainDevice,
        job: Job<'_>,
    ) -> Result<ReaderScores, TrainError> {
        let PairKind::Reader(config) = kind else { return Err(other_kind()) };
        let encoder = model.question();
        let tensors = map(&kind.stored(encoder.tensors()?))?;
        let tokenizer = kind.tokenizer(encoder.tokenizer_json())?;
        let reader = Reader::from_parts(config.clone(), tokenizer, tensors, &infers_on(device))
            .map_err(|source| self.unloaded(source))?;
        let of = |item: &PairItem| read(self, &reader, item, model);
        let (sum, count) = self.sum(job, of)?;
        Ok(ReaderScores {
            questions: self.data.dev.len(),
            exact_match: sum.exact / count,
            f1: sum.f1 / count,
            gold_exact_match: sum.gold / count,
            selected: sum.selected / count,
            loss: sum.loss / sum.losses.max(1.0),
        })
    }

    /// Measures a reranker.
    pub(super) fn reranker(
        &self,
        kind: &PairKind,
        model: &DualEncoder,
        device: &TrainDevice,
        job: Job<'_>,
    ) -> Result<RerankerScores, TrainError> {
        let PairKind::Reranker(config) = kind else { return Err(other_kind()) };
        let encoder = model.question();
        let tokenizer = kind.tokenizer(encoder.tokenizer_json())?;
        let tensors = map(&encoder.tensors()?)?;
        let scorer = CrossEncoder::from_parts(config.clone(), tokenizer, tensors, &infers_on(device))
            .map_err(|source| self.unloaded(source))?;
        let of = |item: &PairItem| {
            let scores = scorer.score(&item.question, &self.passages(item))?;
            let (loss, _) = rank_loss(self.config.objective.loss, &scores);
            let above = scores.iter().skip(1).filter(|score| **score >= scores[0]).count();
            let selected = f64::from(u8::from(above == 0));
            let reciprocal = 1.0 / (1 + above) as f64;
            Ok(Sum { selected, reciprocal, loss, losses: 1.0, ..Sum::default() })
        };
        let (sum, count) = self.sum(job, of)?;
        Ok(RerankerScores {
            questions: self.data.dev.len(),
            reciprocal_rank: sum.reciprocal / count,
            first: sum.selected / count,
            loss: sum.loss / count,
        })
    }

    /// Returns the error of a model that cannot be measured with: [`TrainError::NotFinite`] for weights that are not
    /// finite.
    fn unloaded(&self, source: LoadError) -> TrainError {
        not_finite(TrainError::Encoder { dir: self.config.model.start.clone(), source })
    }

    /// Returns the sum over all dev questions, added in their order, and their number; [`TrainError::NotFinite`] for
    /// scores that are not finite, [`TrainError::Stopped`] once `job` is stopped.
    fn sum(
        &self,
        job: Job<'_>,
        of: impl Fn(&PairItem) -> Result<Sum, TrainError> + Sync,
    ) -> Result<(Sum, f64), TrainError> {
        let dev = &self.data.dev;
        job.progress.start("measuring", "questions", dev.len() as u64);
        let sums: Vec<Sum> = dev
            .par_iter()
            .map(|item| {
                check_stop(job)?;
                let sum = of(item).map_err(not_finite);
                job.progress.advance(1);
                sum
            })
            .collect::<Result<_, _>>()?;
        job.progress.finish();
        let sum = sums.into_iter().fold(Sum::default(), Sum::add);
        match sum.loss.is_finite() {
            true => Ok((sum, dev.len().max(1) as f64)),
            false => Err(TrainError::NotFinite { loss: sum.loss }),
        }
    }

    /// Returns the passages that a dev question is measured with, `(title, text)`, the positive first.
    fn passages(&self, item: &PairItem) -> Vec<(&str, &str)> {
        let negatives = item.negatives.iter().take(self.config.data.negatives_per_question);
        item.positives.iter().take(1).chain(negatives).map(|passage| self.data.pool.get(*passage)).collect()
    }
}

/// Reads one dev question.
fn read(dev: &Dev<'_>, reader: &Reader, item: &PairItem, model: &DualEncoder) -> Result<Sum, TrainError> {
    let passages = dev.passages(item);
    let inputs = passages.iter().map(|(title, text)| reader.input(&item.question, title, text));
    let inputs = match inputs.collect::<Result<Vec<_>, _>>() {
        Ok(inputs) => inputs,
        // Such a question gets no answer.
        Err(ReadError::Empty | ReadError::Question { .. }) => return Ok(Sum::default()),
        Err(error) => return Err(error.into()),
    };
    let logits = reader.logits(&inputs)?;
    let readings: Vec<_> = (inputs.iter().zip(&logits).zip(&passages))
        .map(|((input, logits), (_, text))| logits.reading(input, text, ReadOptions::default()))
        .collect();
    let score = |answer: &str| ReadingRules::Squad.score(answer, &item.answers);
    let mut sum = Sum::default();
    if let Some(best) = best_answers(&readings, 1).first() {
        let score = score(&best.text);
        sum.exact = f64::from(u8::from(score.exact));
        sum.f1 = score.f1;
        sum.selected = f64::from(u8::from(best.passage == 0));
    }
    let of_gold = readings.first().and_then(|reading| reading.spans.first());
    sum.gold = of_gold.map_or(0.0, |span| f64::from(u8::from(score(&span.text).exact)));
    let (title, text) = passages[0];
    let most = dev.config.objective.max_matches;
    if let Some((_, spans)) = marked(item, title, text, reader.config(), &model.question().tokenizer, most)? {
        let first = &logits[0];
        let scores: Vec<f32> =
            first.start.iter().zip(&first.end).flat_map(|(start, end)| [*start, *end, 0.0]).collect();
        let selection: Vec<f32> = logits.iter().filter_map(|logits| logits.selection).collect();
        let (of_selection, _) = rank_loss(super::config::RankLoss::Listwise, &selection);
        if let Some((of_spans, _)) = span_loss(&scores, &spans) {
            (sum.loss, sum.losses) = (of_selection + of_spans, 1.0);
        }
    }
    Ok(sum)
}

/// Returns [`TrainError::NotFinite`] for weights and scores that are not finite, any other error as it is.
fn not_finite(error: TrainError) -> TrainError {
    match error {
        TrainError::Read(ReadError::NotFinite { .. })
        | TrainError::Encode(EncodeError::Score { .. })
        | TrainError::Encoder { source: LoadError::Weights(WeightsError::NotFinite { .. }), .. } => {
            TrainError::NotFinite { loss: f64::NAN }
        }
        error => error,
    }
}

/// Returns the device that measures: that of the training where it is a GPU, else the CPU kernels.
fn infers_on(device: &TrainDevice) -> Device {
    match device.gpu {
        true => Device::Burn { device: device.plain.clone(), name: device.name.clone(), gpu: true },
        false => Device::Kernel,
    }
}

/// Returns tensors as a model is loaded from them.
fn map(tensors: &[StoredTensor]) -> Result<TensorMap, TrainError> {
    let mut map = TensorMap::default();
    for (name, shape, values) in tensors {
        let bytes = || Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect());
        map.insert::<WeightsError>(name, Dtype::F32, shape, bytes)
            .map_err(|e| TrainError::Device { what: e.to_string() })?;
    }
    Ok(map)
}

fn other_kind() -> TrainError {
    TrainError::Batch { what: "another kind of model".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_scores_that_are_not_finite_are_told_from_other_errors() {
        let of_weights = |source: WeightsError| TrainError::Encoder {
            dir: "model".into(),
            source: LoadError::Weights(source),
        };
        for error in [
            TrainError::Read(ReadError::NotFinite { passage: 1 }),
            TrainError::Encode(EncodeError::Score { row: 1 }),
            of_weights(WeightsError::NotFinite { name: "w".into(), position: 1 }),
        ] {
            let said = error.to_string();
            assert!(matches!(not_finite(error), TrainError::NotFinite { .. }), "{said}");
        }
        for error in [
            TrainError::Stopped,
            TrainError::Read(ReadError::Empty),
            TrainError::Encode(EncodeError::Device("lost".into())),
            of_weights(WeightsError::Duplicate { name: "w".into() }),
        ] {
            let said = error.to_string();
            assert_eq!(not_finite(error).to_string(), said);
        }
    }
}
