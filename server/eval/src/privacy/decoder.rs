//! A sequence decoder: an attacker that writes the question, piece after piece.
//!
//! A network of one hidden layer (Bengio et al. 2003) takes the view and the embeddings of the last two pieces and of
//! all pieces written, summed, and gives the probability of the next piece or of the end. It is trained with a sampled
//! softmax (Jean et al. 2015): over the targets of a batch and pieces drawn at random, each logit less the logarithm of
//! the probability that its piece is in the sample. It decodes by beam search.

use std::collections::BTreeSet;

use dpr_core::random::SplitMix;
use rayon::prelude::*;

use super::PrivacyError;
use super::adam::Weights;
use super::linear::{products, transposed};
use super::modes::{Mode, Noise};
use super::network::{add_each, column_sums, scaled};
use super::pieces::{Decoded, Pieces, Written};
use super::questions::QuestionSplit;

/// Targets in a batch.
const BATCH: usize = 256;

/// Pieces drawn for the softmax of a batch beside its targets.
const DRAWN: usize = 512;

/// Width of a piece's embedding.
const EMBEDDED: usize = 64;

/// Beam width of the search.
const BEAM: usize = 4;

/// The most pieces of a decoded question.
const LONGEST: usize = 32;

/// Questions decoded at a time.
const AT_ONCE: usize = 128;

/// The size of the decoder and of its training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderOptions {
    /// Hidden units.
    pub hidden: usize,
    /// Passes over the training questions, each with other noise. The pass that is best on held-out questions counts.
    pub epochs: usize,
}

impl Default for DecoderOptions {
    fn default() -> Self {
        Self { hidden: 256, epochs: 6 }
    }
}

/// A target: the question, and the place in it.
type Place = (usize, usize);

/// A network from a view and the pieces written so far to the logits of the next piece.
struct Decoder {
    /// Numbers of a view.
    width: usize,
    /// Columns of pieces; the next is the end of a question.
    pieces: usize,
    /// `[pieces + 2, EMBEDDED]`: pieces, the beginning, and any piece that is not known.
    embedded: Weights,
    /// `[hidden, width + 3 EMBEDDED]`, `[hidden]`.
    first: Weights,
    first_bias: Weights,
    /// `[pieces + 1, hidden]`, `[pieces + 1]`.
    second: Weights,
    second_bias: Weights,
    hidden: usize,
    steps: i32,
}

impl Decoder {
    fn new(width: usize, hidden: usize, pieces: usize) -> Self {
        let mut random = SplitMix::keyed(&[13, width as u64]);
        Self {
            width,
            pieces,
            embedded: Weights::random(pieces + 2, EMBEDDED, &mut random),
            first: Weights::random(hidden, width + 3 * EMBEDDED, &mut random),
            first_bias: Weights::new(vec![0.0; hidden]),
            second: Weights::random(pieces + 1, hidden, &mut random),
            second_bias: Weights::new(vec![0.0; pieces + 1]),
            hidden,
            steps: 0,
        }
    }

    /// Returns the rows of `embedded` that stand for what was written: the last piece, the one before it, and all.
    fn inputs(&self, written: &[Option<usize>]) -> (usize, usize, Vec<usize>) {
        let of = |piece: &Option<usize>| piece.unwrap_or(self.pieces + 1);
        let back = |count: usize| {
            written.len().checked_sub(count).and_then(|at| written.get(at)).map_or(self.pieces, of)
        };
        (back(1), back(2), written.iter().map(of).collect())
    }

    /// Appends what the network sees of a view and of what was written.
    fn push_row(&self, view: &[f32], written: &[Option<usize>], rows: &mut Vec<f32>) {
        let embedded = |row: usize| &self.embedded.values[row * EMBEDDED..][..EMBEDDED];
        let (last, before, all) = self.inputs(written);
        rows.extend_from_slice(view);
        rows.extend_from_slice(embedded(last));
        rows.extend_from_slice(embedded(before));
        let sum = rows.len();
        rows.resize(sum + EMBEDDED, 0.0);
        for row in all {
            rows[sum..].iter_mut().zip(embedded(row)).for_each(|(sum, value)| *sum += value);
        }
    }

    fn row_width(&self) -> usize {
        self.width + 3 * EMBEDDED
    }

    /// Returns the hidden units `[rows, hidden]`.
    fn units(&self, rows: &[f32]) -> Vec<f32> {
        let mut units = products(rows, &self.first.values, self.row_width());
        add_each(&mut units, &self.first_bias.values);
        units.iter_mut().for_each(|unit| *unit = unit.max(0.0));
        units
    }

    /// Returns the logarithm of the probability of each next piece and of the end, `[rows, pieces + 1]`.
    fn log_probabilities(&self, rows: &[f32]) -> Vec<f32> {
        let mut scores = products(&self.units(rows), &self.second.values, self.hidden);
        add_each(&mut scores, &self.second_bias.values);
        scores.par_chunks_mut(self.pieces + 1).for_each(|scores| {
            let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum = scores.iter().map(|score| (score - greatest).exp()).sum::<f32>().ln() + greatest;
            scores.iter_mut().for_each(|score| *score -= sum);
        });
        scores
    }

    /// Takes a step on the `places` of `texts`, whose questions' views are the rows of `views`: among `columns`,
    /// ascending, which hold all pieces to write, each with the logarithm of its chance to be there.
    fn train(
        &mut self,
        views: &[f32],
        texts: &[Vec<Option<usize>>],
        places: &[Place],
        columns: &[usize],
        chances: &[f32],
    ) {
        let (hidden, row_width, count) = (self.hidden, self.row_width(), places.len());
        let mut rows = Vec::with_capacity(count * row_width);
        for (question, at) in places {
            self.push_row(&views[question * self.width..][..self.width], &texts[*question][..*at], &mut rows);
        }
        let units = self.units(&rows);
        let second: Vec<f32> = columns
            .iter()
            .flat_map(|column| &self.second.values[column * hidden..][..hidden])
            .copied()
            .collect();
        let bias: Vec<f32> = columns.iter().map(|column| self.second_bias.values[*column]).collect();
        let mut error = products(&units, &second, hidden);
        let scale = 1.0 / count as f32;
        error.par_chunks_mut(columns.len()).zip(places).for_each(|(error, (question, at))| {
            let corrections = bias.iter().zip(chances);
            error.iter_mut().zip(corrections).for_each(|(score, (bias, chance))| *score += bias - chance);
            let greatest = error.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            error.iter_mut().for_each(|score| *score = (*score - greatest).exp());
            let factor = scale / error.iter().sum::<f32>();
            error.iter_mut().for_each(|share| *share *= factor);
            let target = target(&texts[*question], *at, self.pieces);
            if let Some(place) = target.and_then(|target| columns.binary_search(&target).ok()) {
                error[place] -= scale;
            }
        });
        let of_second = products(&transposed(&error, columns.len()), &transposed(&units, hidden), count);
        let of_bias = column_sums(&error, columns.len());
        let mut back = products(&error, &transposed(&second, hidden), columns.len());
        back.iter_mut().zip(&units).filter(|(_, unit)| **unit <= 0.0).for_each(|(back, _)| *back = 0.0);
        let of_first = products(&transposed(&back, hidden), &transposed(&rows, row_width), count);
        let of_rows = products(&back, &transposed(&self.first.values, row_width), hidden);
        let (embedded, of_embedded) = self.of_embedded(&of_rows, texts, places);
        self.steps += 1;
        self.embedded.step_rows(&embedded, EMBEDDED, &of_embedded, self.steps);
        self.first.step(&of_first, self.steps);
        self.first_bias.step(&column_sums(&back, hidden), self.steps);
        self.second.step_rows(columns, hidden, &of_second, self.steps);
        self.second_bias.step_rows(columns, 1, &of_bias, self.steps);
    }

    /// Returns the rows of `embedded` that the rows of a batch hold, ascending, and their gradients.
    fn of_embedded(
        &self,
        of_rows: &[f32],
        texts: &[Vec<Option<usize>>],
        places: &[Place],
    ) -> (Vec<usize>, Vec<f32>) {
        let inputs: Vec<_> =
            places.iter().map(|(question, at)| self.inputs(&texts[*question][..*at])).collect();
        let held: BTreeSet<usize> = inputs
            .iter()
            .flat_map(|(last, before, all)| [*last, *before].into_iter().chain(all.iter().copied()))
            .collect();
        let held: Vec<usize> = held.into_iter().collect();
        let mut gradient = vec![0f32; held.len() * EMBEDDED];
        for ((last, before, all), of_row) in inputs.iter().zip(of_rows.chunks_exact(self.row_width())) {
            let parts = of_row[self.width..].chunks_exact(EMBEDDED);
            let rows = [std::slice::from_ref(last), std::slice::from_ref(before), all.as_slice()];
            for (part, rows) in parts.zip(rows) {
                for row in rows {
                    let at = held.partition_point(|held| held < row) * EMBEDDED;
                    gradient[at..][..EMBEDDED].iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
                }
            }
        }
        (held, gradient)
    }

    /// Writes a question for each view, the most probable texts first.
    fn write(&self, views: &[f32]) -> Vec<Written> {
        let views: Vec<&[f32]> = views.chunks_exact(self.width.max(1)).collect();
        views.chunks(AT_ONCE).flat_map(|views| self.write_some(views)).collect()
    }

    fn write_some(&self, views: &[&[f32]]) -> Vec<Written> {
        let mut beams: Vec<Vec<Text>> = views.iter().map(|_| vec![Text::default()]).collect();
        for _ in 0..LONGEST {
            let mut rows = Vec::new();
            for (view, beam) in views.iter().zip(&beams) {
                for text in beam.iter().filter(|text| !text.has_ended) {
                    self.push_row(view, &text.pieces, &mut rows);
                }
            }
            if rows.is_empty() {
                break;
            }
            let scores = self.log_probabilities(&rows);
            let mut scores = scores.chunks_exact(self.pieces + 1);
            for beam in &mut beams {
                let mut next: Vec<Text> = Vec::new();
                for text in beam.drain(..) {
                    let scores = if text.has_ended { None } else { scores.next() };
                    match scores {
                        None => next.push(text),
                        Some(scores) => next.extend(text.followed_by(scores)),
                    }
                }
                next.sort_by(|a, b| b.score.total_cmp(&a.score));
                next.truncate(BEAM);
                *beam = next;
            }
        }
        let written = beams.into_iter().map(|mut beam| {
            beam.sort_by(|a, b| b.mean().total_cmp(&a.mean()));
            beam.into_iter().map(|text| text.pieces.into_iter().flatten().collect()).collect()
        });
        written.collect()
    }
}

/// A question as far as it is written.
#[derive(Clone, Debug, Default)]
struct Text {
    pieces: Vec<Option<usize>>,
    /// The logarithm of its probability.
    score: f32,
    has_ended: bool,
}

impl Text {
    /// Returns the logarithm of the mean probability of a piece.
    fn mean(&self) -> f32 {
        self.score / (self.pieces.len() + 1) as f32
    }

    /// Returns the most probable texts with one piece more, or the end.
    fn followed_by(self, scores: &[f32]) -> Vec<Self> {
        let mut best: Vec<usize> = Vec::with_capacity(BEAM + 1);
        for column in 0..scores.len() {
            let at = best.partition_point(|better| scores[*better] >= scores[column]);
            if at < BEAM {
                best.insert(at, column);
                best.truncate(BEAM);
            }
        }
        let followed = best.into_iter().map(|column| {
            let mut text = self.clone();
            text.score += scores[column];
            text.has_ended = column + 1 == scores.len();
            if !text.has_ended {
                text.pieces.push(Some(column));
            }
            text
        });
        followed.collect()
    }
}

/// Returns the column of the piece at a place of a question, or of its end; `None` for a piece that is not known.
fn target(text: &[Option<usize>], at: usize, end: usize) -> Option<usize> {
    text.get(at).copied().unwrap_or(Some(end))
}

/// Trains the decoder on the views of a mode and measures it on the test questions.
pub(super) fn attack(
    mode: &dyn Mode,
    split: &QuestionSplit,
    pieces: &Pieces,
    options: DecoderOptions,
) -> Result<Decoded, PrivacyError> {
    let texts: Vec<Vec<Option<usize>>> =
        split.train.iter().map(|question| pieces.sequence(question)).collect();
    let held_out = scaled(mode.views(&split.held_out, Noise::Drawn(1))?);
    let test = mode.views(&split.test, Noise::Device)?;
    let width = test.width;
    let test = scaled(test);
    let sampler = Sampler::new(&texts, pieces.len());
    let mut decoder = Decoder::new(width, options.hidden, pieces.len());
    let mut best = (f64::NEG_INFINITY, Decoded::default());
    let mut places = sampler.places.clone();
    for epoch in 0..options.epochs as u64 {
        let mut random = SplitMix::keyed(&[14, epoch]);
        random.shuffle(&mut places);
        let views = scaled(mode.views(&split.train, Noise::Drawn(2 + epoch))?);
        for places in places.chunks(BATCH) {
            let (columns, chances) = sampler.columns(&texts, places, &mut random);
            decoder.train(&views, &texts, places, &columns, &chances);
        }
        let chosen_by = pieces.measure_written(&decoder.write(&held_out), &split.held_out).content;
        if chosen_by > best.0 {
            best = (chosen_by, pieces.measure_written(&decoder.write(&test), &split.test));
        }
    }
    Ok(best.1)
}

/// The sampler of the softmax: the columns of a batch, and the probability that each is in the sample.
struct Sampler {
    /// All places with a piece that is known, or an end.
    places: Vec<Place>,
    /// Times that each column is to be written.
    counts: Vec<usize>,
}

impl Sampler {
    fn new(texts: &[Vec<Option<usize>>], pieces: usize) -> Self {
        let (mut places, mut counts) = (Vec::new(), vec![0; pieces + 1]);
        for (question, text) in texts.iter().enumerate() {
            for at in 0..=text.len().min(LONGEST) {
                if let Some(column) = target(text, at, pieces) {
                    places.push((question, at));
                    counts[column] += 1;
                }
            }
        }
        Self { places, counts }
    }

    /// Returns the columns of a batch's pieces and drawn ones, ascending, and the logarithm of the chance of each to be
    /// among them.
    fn columns(
        &self,
        texts: &[Vec<Option<usize>>],
        places: &[Place],
        random: &mut SplitMix,
    ) -> (Vec<usize>, Vec<f32>) {
        let (count, drawn) = (self.counts.len(), DRAWN.min(self.counts.len()));
        let own = places.iter().filter_map(|(question, at)| target(&texts[*question], *at, count - 1));
        let mut columns: BTreeSet<usize> = own.collect();
        columns.extend((0..drawn).map(|_| random.below(count)));
        let not_drawn = (1.0 - 1.0 / count as f64).powi(drawn as i32);
        let chance = |column: &usize| {
            let share = self.counts[*column] as f64 / self.places.len().max(1) as f64;
            (1.0 - (1.0 - share).powi(places.len() as i32) * not_drawn).ln() as f32
        };
        let chances = columns.iter().map(chance).collect();
        (columns.into_iter().collect(), chances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&[Option<usize>]; 3] =
        [&[Some(0), Some(1)], &[Some(1), None, Some(2)], &[Some(2), Some(0)]];

    fn texts() -> Vec<Vec<Option<usize>>> {
        TEXTS.map(<[_]>::to_vec).to_vec()
    }

    /// The gradients that a step is taken by, against central differences of the loss over all columns.
    #[test]
    fn the_first_step_goes_down_the_loss() {
        let (views, texts) = ([0.9, -0.3, 0.4, 0.8, -0.7, 0.5], texts());
        let sampler = Sampler::new(&texts, 3);
        assert_eq!(sampler.places.len(), 9, "a piece that is not known is not to be written");
        let loss = |decoder: &Decoder| -> f64 {
            let mut rows = Vec::new();
            for (question, at) in &sampler.places {
                decoder.push_row(&views[question * 2..][..2], &texts[*question][..*at], &mut rows);
            }
            let scores = decoder.log_probabilities(&rows);
            let right = scores.chunks(4).zip(&sampler.places).map(|(scores, (question, at))| {
                f64::from(scores[target(&texts[*question], *at, 3).unwrap()])
            });
            -right.sum::<f64>() / 9.0
        };
        let columns = [0, 1, 2, 3];
        let parts: [fn(&mut Decoder) -> &mut Weights; 5] = [
            |decoder| &mut decoder.embedded,
            |decoder| &mut decoder.first,
            |decoder| &mut decoder.first_bias,
            |decoder| &mut decoder.second,
            |decoder| &mut decoder.second_bias,
        ];
        for (number, part) in parts.into_iter().enumerate() {
            for at in 0..4 {
                let mut decoder = Decoder::new(2, 5, 3);
                let before = part(&mut decoder).values[at];
                let mut at_value = |value: f32| {
                    part(&mut decoder).values[at] = value;
                    loss(&decoder)
                };
                let numeric = (at_value(before + 1e-2) - at_value(before - 1e-2)) / 2e-2;
                at_value(before);
                decoder.train(&views, &texts, &sampler.places, &columns, &[0.0; 4]);
                // After one step, the first moment is a tenth of the gradient.
                let got = f64::from(part(&mut decoder).first[at]) * 10.0;
                assert!((got - numeric).abs() < 5e-3, "part {number}, number {at}: {got} {numeric}");
            }
        }
    }

    #[test]
    fn questions_are_written_in_the_order_of_their_pieces() {
        let (views, texts) = ([0.9, -0.3, 0.4, 0.8, -0.7, 0.5], texts());
        let sampler = Sampler::new(&texts, 3);
        let mut decoder = Decoder::new(2, 16, 3);
        let mut random = SplitMix::new(4);
        for _ in 0..600 {
            let (columns, chances) = sampler.columns(&texts, &sampler.places, &mut random);
            decoder.train(&views, &texts, &sampler.places, &columns, &chances);
        }
        let written = decoder.write(&views);
        assert_eq!((&written[0][0], &written[2][0]), (&vec![0, 1], &vec![2, 0]));
        assert!(
            written.iter().all(|texts| texts.len() <= BEAM && texts.iter().all(|text| text.len() <= LONGEST))
        );
    }

    #[test]
    fn the_chance_of_a_column_is_how_often_it_is_drawn() {
        let texts: Vec<Vec<Option<usize>>> =
            (0..2000).map(|at| vec![Some(at % 1000 / (1 + at % 3))]).collect();
        let sampler = Sampler::new(&texts, 1000);
        let mut times = vec![0usize; 1001];
        let mut chances = vec![0f32; 1001];
        let mut random = SplitMix::new(6);
        let mut places = sampler.places.clone();
        for _ in 0..400 {
            random.shuffle(&mut places);
            let (columns, logarithms) = sampler.columns(&texts, &places[..100], &mut random);
            for (column, logarithm) in columns.iter().zip(logarithms) {
                times[*column] += 1;
                chances[*column] = logarithm.exp();
            }
        }
        for column in [0, 7, 500, 999, 1000] {
            let share = times[column] as f32 / 400.0;
            assert!((share - chances[column]).abs() < 0.08, "{column}: {share} {}", chances[column]);
        }
    }
}
