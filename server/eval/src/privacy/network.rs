//! A neural attacker: a network of one hidden layer that names word pieces, trained by Adam.

use dpr_core::random::SplitMix;
use rayon::prelude::*;

use super::PrivacyError;
use super::adam::Weights;
use super::linear::{Views, products, transposed};
use super::modes::{Mode, Noise};
use super::pieces::{Named, Pieces};
use super::questions::QuestionSplit;

/// Questions in a batch.
const BATCH: usize = 256;

/// The size of the network and of its training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Hidden units.
    pub hidden: usize,
    /// Passes over the training questions, each with other noise. The pass that is best on held-out questions counts.
    pub epochs: usize,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self { hidden: 256, epochs: 10 }
    }
}

/// Views to the probability of each word piece: `sigmoid(W2 relu(W1 x + b1) + b2)`.
struct Network {
    width: usize,
    hidden: usize,
    /// `[hidden, width]`, `[hidden]`, `[pieces, hidden]`, `[pieces]`.
    layers: [Weights; 4],
    steps: i32,
}

impl Network {
    fn new(width: usize, hidden: usize, pieces: &Pieces, questions: usize) -> Self {
        let mut random = SplitMix::keyed(&[11, width as u64]);
        let share = |count: &usize| (*count as f32 + 0.5) / (questions as f32 + 1.0);
        // The log-odds of each piece: what a network that has seen nothing should say.
        let odds = pieces.counts().iter().map(share).map(|share| (share / (1.0 - share)).ln()).collect();
        let layers = [
            Weights::random(hidden, width, &mut random),
            Weights::new(vec![0.0; hidden]),
            Weights::random(pieces.len(), hidden, &mut random),
            Weights::new(odds),
        ];
        Self { width, hidden, layers, steps: 0 }
    }

    /// Returns the hidden units `[rows, hidden]` and the scores `[rows, pieces]`, before the sigmoid.
    fn forward(&self, rows: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let [first, first_bias, second, second_bias] = &self.layers;
        let mut units = products(rows, &first.values, self.width);
        add_each(&mut units, &first_bias.values);
        units.iter_mut().for_each(|unit| *unit = unit.max(0.0));
        let mut scores = products(&units, &second.values, self.hidden);
        add_each(&mut scores, &second_bias.values);
        (units, scores)
    }

    /// Takes a step on rows `[batch, width]` whose pieces are `labels`.
    fn train(&mut self, rows: &[f32], labels: &[&[usize]]) {
        let (units, mut error) = self.forward(rows);
        let (count, pieces) = (labels.len(), self.layers[3].values.len());
        let scale = 1.0 / count as f32;
        error.par_chunks_mut(pieces).zip(labels).for_each(|(error, labels)| {
            error.iter_mut().for_each(|score| *score = scale / (1.0 + (-*score).exp()));
            labels.iter().for_each(|label| error[*label] -= scale);
        });
        let of_second = products(&transposed(&error, pieces), &transposed(&units, self.hidden), count);
        let mut back = products(&error, &transposed(&self.layers[2].values, self.hidden), pieces);
        back.iter_mut().zip(&units).filter(|(_, unit)| **unit <= 0.0).for_each(|(back, _)| *back = 0.0);
        let of_first = products(&transposed(&back, self.hidden), &transposed(rows, self.width), count);
        self.steps += 1;
        let gradients = [of_first, column_sums(&back, self.hidden), of_second, column_sums(&error, pieces)];
        for (weights, gradient) in self.layers.iter_mut().zip(&gradients) {
            weights.step(gradient, self.steps);
        }
    }
}

pub(super) fn add_each(rows: &mut [f32], bias: &[f32]) {
    rows.par_chunks_mut(bias.len().max(1))
        .for_each(|row| row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias));
}

pub(super) fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0f32; width];
    for row in rows.chunks_exact(width.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// Returns views whose numbers are about 1, which networks take best.
pub(super) fn scaled(views: Views) -> Vec<f32> {
    let scale = (views.width as f32).sqrt();
    views.numbers.into_iter().map(|value| value * scale).collect()
}

/// Trains the network on the views of a mode and measures it on the test questions.
pub(super) fn attack(
    mode: &dyn Mode,
    split: &QuestionSplit,
    pieces: &Pieces,
    options: NetworkOptions,
) -> Result<Named, PrivacyError> {
    let labels = pieces.labels(&split.train);
    let held_out = scaled(mode.views(&split.held_out, Noise::Drawn(1))?);
    let test = mode.views(&split.test, Noise::Device)?;
    let width = test.width;
    let test = scaled(test);
    let mut network = Network::new(width, options.hidden, pieces, split.train.len());
    let mut best = (f64::NEG_INFINITY, Named::default());
    let mut order: Vec<usize> = (0..split.train.len()).collect();
    for epoch in 0..options.epochs as u64 {
        SplitMix::keyed(&[12, epoch]).shuffle(&mut order);
        let views = scaled(mode.views(&split.train, Noise::Drawn(2 + epoch))?);
        for batch in order.chunks(BATCH) {
            let rows: Vec<f32> =
                batch.iter().flat_map(|row| &views[row * width..][..width]).copied().collect();
            let labels: Vec<&[usize]> = batch.iter().map(|row| labels[*row].as_slice()).collect();
            network.train(&rows, &labels);
        }
        let chosen_by = pieces.measure(&network.forward(&held_out).1, &split.held_out).content;
        if chosen_by > best.0 {
            best = (chosen_by, pieces.measure(&network.forward(&test).1, &split.test));
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use dpr_core::Embedding;

    use super::*;
    use crate::privacy::questions::EncodedQuestion;

    /// The gradients that a step is taken by, against central differences of the loss.
    #[test]
    fn the_first_step_goes_down_the_loss() {
        let question = |tokens: &[u32]| EncodedQuestion {
            text: String::new(),
            tokens: tokens.to_vec(),
            vector: Embedding::new(vec![1.0], 1).unwrap(),
        };
        let questions = [question(&[1, 2]), question(&[2, 3]), question(&[3])];
        let pieces = Pieces::of(&questions);
        let labels = pieces.labels(&questions);
        let labels: Vec<&[usize]> = labels.iter().map(Vec::as_slice).collect();
        let rows = [0.9, -0.3, 0.4, 0.8, -0.7, 0.5];
        let loss = |network: &Network| -> f64 {
            let (_, scores) = network.forward(&rows);
            let of = |(score, is_there): (f32, bool)| {
                let signed = f64::from(if is_there { score } else { -score });
                (1.0 + (-signed).exp()).ln()
            };
            let rows = scores.chunks(pieces.len()).zip(&labels);
            rows.flat_map(|(row, labels)| {
                row.iter()
                    .enumerate()
                    .map(|(at, score)| of((*score, labels.contains(&at))))
                    .collect::<Vec<_>>()
            })
            .sum::<f64>()
                / 3.0
        };
        for layer in 0..4 {
            for at in 0..3 {
                let mut network = Network::new(2, 5, &pieces, 3);
                let before = network.layers[layer].values[at];
                let numeric = {
                    network.layers[layer].values[at] = before + 1e-2;
                    let up = loss(&network);
                    network.layers[layer].values[at] = before - 1e-2;
                    let down = loss(&network);
                    network.layers[layer].values[at] = before;
                    (up - down) / 2e-2
                };
                network.train(&rows, &labels);
                // After one step, the first moment is a tenth of the gradient.
                let got = f64::from(network.layers[layer].first[at]) * 10.0;
                assert!((got - numeric).abs() < 5e-3, "layer {layer}, number {at}: {got} {numeric}");
            }
        }
        let mut network = Network::new(2, 5, &pieces, 3);
        let before = loss(&network);
        (0..3000).for_each(|_| network.train(&rows, &labels));
        assert!(loss(&network) < before / 2.0, "{} {before}", loss(&network));
    }
}
