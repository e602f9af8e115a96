//! Layers over the states of a reader's tokens: starts, ends and the choice of the passage.

use super::ReaderConfig;
use super::config::{SELECTION, SPANS};
use crate::weights::{TensorMap, WeightsError};

/// The scores of one input, as logits.
#[derive(Clone, Debug, PartialEq)]
pub struct ReaderLogits {
    /// Scores of each token as the first of an answer, `[tokens]`.
    pub start: Vec<f32>,
    /// Scores of each token as the last of an answer, `[tokens]`.
    pub end: Vec<f32>,
    /// Score of the passage; `None` in models without [a layer for it](ReaderConfig::has_selection).
    pub selection: Option<f32>,
}

/// The weights of the layers, `[hidden]` an output. They are a few thousand numbers, and single precision in every
/// form of a model.
#[derive(Debug)]
pub(super) struct Heads {
    start: Output,
    end: Output,
    selection: Option<Output>,
}

/// One output of a layer.
#[derive(Debug)]
struct Output {
    weight: Vec<f32>,
    bias: f32,
}

impl Output {
    fn apply(&self, state: &[f32]) -> f32 {
        let products = self.weight.iter().zip(state).map(|(w, x)| f64::from(*w) * f64::from(*x));
        (products.sum::<f64>() + f64::from(self.bias)) as f32
    }
}

impl Heads {
    /// Takes the layers out of `tensors`.
    ///
    /// # Errors
    /// [`WeightsError`] names the tensor that is missing, misshapen or not finite.
    pub(super) fn load(config: &ReaderConfig, tensors: &mut TensorMap) -> Result<Self, WeightsError> {
        let hidden = config.encoder().hidden_size;
        let mut layer = |name: &str, outputs: usize| -> Result<Vec<Output>, WeightsError> {
            let weight = tensors.take_f32(&format!("{name}.weight"), &[outputs, hidden])?;
            let bias = tensors.take_f32(&format!("{name}.bias"), &[outputs])?;
            let rows = weight.chunks_exact(hidden).zip(bias);
            Ok(rows.map(|(weight, bias)| Output { weight: weight.to_vec(), bias }).collect())
        };
        let mut spans = layer(SPANS, 2)?.into_iter();
        let selection = if config.has_selection() { layer(SELECTION, 1)?.pop() } else { None };
        match (spans.next(), spans.next()) {
            (Some(start), Some(end)) => Ok(Self { start, end, selection }),
            // The shape, two rows, was checked above.
            _ => Err(WeightsError::Missing { name: SPANS.into(), expected: vec![2, hidden] }),
        }
    }

    /// Returns the score of the passage whose first state, `[hidden]`, this is; `None` without a layer for it.
    pub(super) fn select(&self, first: &[f32]) -> Option<f32> {
        Some(self.selection.as_ref()?.apply(first))
    }

    /// Returns the scores of one input's states, `[tokens, hidden]`; `None` where one of them is not finite.
    pub(super) fn apply(&self, states: &[f32]) -> Option<ReaderLogits> {
        let hidden = self.start.weight.len();
        let all = |output: &Output| states.chunks_exact(hidden).map(|state| output.apply(state)).collect();
        let (start, end): (Vec<f32>, Vec<f32>) = (all(&self.start), all(&self.end));
        let selection = self.select(states.get(..hidden).unwrap_or_default());
        let finite = start.iter().chain(&end).chain(&selection).all(|score| score.is_finite());
        finite.then_some(ReaderLogits { start, end, selection })
    }
}
