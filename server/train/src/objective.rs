//! Training objective (paper §3.2): every passage of a batch serves every question, so that `B` questions with `h`
//! hard negatives each are scored against `B (1 + h)` passages. With sizes of nested vectors the loss is that of
//! their first numbers too (Matryoshka representation learning; Kusupati et al. 2022).

use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{Device, Int, Tensor, TensorData};
use dpr_core::{EncoderConfig, Similarity};
use serde::{Deserialize, Serialize};

use super::error::TrainError;

/// The number that is added to a masked score: far below any score, and finite, since WGSL may assume that there are
/// no infinities.
const MASKED: f32 = -1.0e9;

/// Lower bound of squared distances and lengths: the gradient of the root has no bound at 0.
const LEAST: f32 = 1e-12;

/// The loss over scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// Negative log-likelihood of the positive passage among all of the batch (equation 2).
    #[default]
    Nll,
    /// Hinge: each negative is to score at least the margin below the positive (paper §5.2).
    Triplet,
}

/// The distance from a teacher's scores of the passages that a question brings: its positive and its own negatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeacherLoss {
    /// Kullback-Leibler divergence of the softmax of the scores from that of the teacher's.
    #[default]
    Divergence,
    /// Mean squared difference between the margins of the positive over each negative and the teacher's (Margin-MSE;
    /// Hofstätter et al. 2020).
    Margin,
}

/// Similarity, loss and their constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Objective {
    /// The loss over scores.
    pub loss: LossKind,
    /// The similarity of two vectors, which is the score.
    pub similarity: Similarity,
    /// Scores are divided by this. 1 in the paper; vectors of length 1 need less, as 0.05, because their scores
    /// lie between -1 and 1.
    pub temperature: f64,
    /// Margin of the triplet loss; the paper's 1.
    pub margin: f64,
    /// Sizes of nested vectors, as `[384, 192, 96]`: the loss is the mean over whole vectors and their first numbers,
    /// as many as each size says, so that an index may hold shorter vectors. None in the paper.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matryoshka: Vec<usize>,
    /// With a teacher, the distance from its scores.
    pub teacher_loss: TeacherLoss,
    /// With a teacher, the share of that distance in the loss, from 0 to 1; `loss` has the rest.
    pub teacher_weight: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            loss: LossKind::Nll,
            similarity: Similarity::Dot,
            temperature: 1.0,
            margin: 1.0,
            matryoshka: Vec::new(),
            teacher_loss: TeacherLoss::Divergence,
            teacher_weight: 0.5,
        }
    }
}

/// The passage that answers each question of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// The column of each question's positive.
    pub positive: Vec<usize>,
    /// Pairs `(question, column)` that do not count: the column answers the question too, and would wrongly be
    /// trained as a negative.
    pub masked: Vec<(usize, usize)>,
    /// With a teacher, its scores for each question; no questions without a teacher.
    pub taught: Vec<Taught>,
}

/// A teacher's scores of the passages that a question brings; none where it cannot read one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taught {
    /// The columns of the passages, that of the positive first.
    pub columns: Vec<usize>,
    /// The score of each, as a logit.
    pub scores: Vec<f32>,
}

/// The vectors of a batch that the loss is computed of.
#[derive(Clone, Debug)]
pub(super) struct BatchVectors {
    /// `[B, dim]`.
    pub(super) questions: Tensor<2>,
    /// `[P, dim]`.
    pub(super) passages: Tensor<2>,
    /// `true` if the encoders scale their vectors to length 1, so that shorter vectors are scaled too.
    pub(super) unit_length: bool,
}

impl BatchVectors {
    /// Returns the vectors of the first `size` numbers, as a model that is cut to that size makes them.
    fn nested(&self, size: usize) -> [Tensor<2>; 2] {
        [&self.questions, &self.passages].map(|vectors| {
            let first = vectors.clone().narrow(1, 0, size);
            if self.unit_length { unit(first) } else { first }
        })
    }
}

impl Objective {
    /// Refuses constants that no loss can be computed with.
    ///
    /// # Errors
    /// [`TrainError::Setting`] names the setting, its value and what it should be.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        let bad = |setting, got: String, expected: &str| {
            Err(TrainError::Setting { setting, got, expected: expected.into() })
        };
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return bad("objective.temperature", self.temperature.to_string(), "it must be above 0");
        }
        if !(self.margin >= 0.0 && self.margin.is_finite()) {
            return bad("objective.margin", self.margin.to_string(), "it must be 0 or above");
        }
        if !(0.0..=1.0).contains(&self.teacher_weight) {
            return bad(
                "objective.teacher_weight",
                self.teacher_weight.to_string(),
                "it must be from 0 to 1",
            );
        }
        let sizes = &self.matryoshka;
        let is_smaller = |pair: &[usize]| pair[1] < pair[0];
        if sizes.contains(&0) || !sizes.windows(2).all(is_smaller) {
            return bad(
                "objective.matryoshka",
                format!("{sizes:?}"),
                "each size must be less than the one before",
            );
        }
        if !sizes.is_empty() && self.similarity == Similarity::L2 {
            return bad(
                "objective.similarity",
                "l2".into(),
                "vectors with a coordinate for the distance cannot be cut: leave objective.matryoshka out, or train by \
                 dot or cosine",
            );
        }
        Ok(())
    }

    /// Refuses nested vectors that are not shorter than those of a model with these encoders, of questions and of
    /// passages, or that it cannot be cut to.
    ///
    /// # Errors
    /// [`TrainError::Setting`] likewise.
    pub(super) fn check_sizes(&self, encoders: [&EncoderConfig; 2]) -> Result<(), TrainError> {
        let Some(longest) = self.matryoshka.first() else { return Ok(()) };
        let bad = |expected: String| {
            let got = format!("{:?}", self.matryoshka);
            Err(TrainError::Setting { setting: "objective.matryoshka", got, expected })
        };
        if encoders.iter().any(|encoder| encoder.projection_dim > 0) {
            return bad(
                "the model has a projection, whose vectors cannot be cut: import it without one".into()
            );
        }
        let dim = encoders[0].dim();
        if *longest >= dim {
            return bad(format!("sizes must be less than {dim}, that of the model's vectors"));
        }
        Ok(())
    }

    /// Returns the scores `[B, P]` of whole vectors, and the loss `[1]`: the mean over whole and nested vectors of
    /// [`loss`](Self::loss), where there is a teacher with its share.
    pub(super) fn of_batch(
        &self,
        vectors: &BatchVectors,
        targets: &Targets,
        device: &Device,
    ) -> (Tensor<2>, Tensor<1>) {
        let scores = self.scores(vectors.questions.clone(), vectors.passages.clone());
        let mut loss = self.mixed(scores.clone(), targets, device);
        for size in &self.matryoshka {
            let [questions, passages] = vectors.nested(*size);
            loss = loss + self.mixed(self.scores(questions, passages), targets, device);
        }
        (scores, loss / (1 + self.matryoshka.len()) as f64)
    }

    /// Returns the loss `[1]` of scores `[B, P]`: that of the labels, and with a teacher's scores its share. A batch
    /// without any has the loss of the labels alone.
    fn mixed(&self, scores: Tensor<2>, targets: &Targets, device: &Device) -> Tensor<1> {
        let of_labels = self.loss(scores.clone(), targets, device);
        match self.teacher_distance(scores, &targets.taught, device) {
            Some(distance) => of_labels * (1.0 - self.teacher_weight) + distance * self.teacher_weight,
            None => of_labels,
        }
    }

    /// Returns the distance `[1]` of scores `[B, P]` from the teacher's: the mean over the questions that it has scored
    /// (divergence), or over their pairs of a positive and a negative (margin). `None` where it has scored none.
    fn teacher_distance(&self, scores: Tensor<2>, taught: &[Taught], device: &Device) -> Option<Tensor<1>> {
        let (questions, width) = (taught.len(), taught.iter().map(|taught| taught.columns.len()).max()?);
        let count = taught.iter().filter(|taught| taught.columns.len() > 1).count();
        if count == 0 {
            return None;
        }
        let of_each = |value: &dyn Fn(&Taught, usize) -> f32| {
            let rows = taught.iter().flat_map(|taught| (0..width).map(move |at| value(taught, at)));
            Tensor::<2>::from_data(TensorData::new(rows.collect::<Vec<_>>(), [questions, width]), device)
        };
        // Rows that are shorter are filled with the first column, which counts once.
        let columns = taught.iter().flat_map(|taught| {
            (0..width).map(|at| taught.columns.get(at).or(taught.columns.first()).map_or(0, |at| *at as i32))
        });
        let columns = TensorData::new(columns.collect::<Vec<_>>(), [questions, width]);
        let brought = scores.gather(1, Tensor::<2, Int>::from_data(columns, device));
        Some(match self.teacher_loss {
            TeacherLoss::Divergence => {
                let fill = of_each(&|taught, at| if at < taught.columns.len() { 0.0 } else { MASKED });
                let counts = of_each(&|taught, at| f32::from(at < taught.columns.len()));
                let theirs = of_each(&|taught, at| taught.scores.get(at).copied().unwrap_or(MASKED));
                let (theirs, ours) = (log_softmax(theirs, 1), log_softmax(brought + fill, 1));
                (theirs.clone().exp() * (theirs - ours) * counts).sum() / count as f64
            }
            TeacherLoss::Margin => {
                let counts = of_each(&|taught, at| f32::from(at > 0 && at < taught.columns.len()));
                let margins = of_each(&|taught, at| match (taught.scores.first(), taught.scores.get(at)) {
                    (Some(positive), Some(negative)) => positive - negative,
                    _ => 0.0,
                });
                let pairs: usize = taught.iter().map(|taught| taught.columns.len().saturating_sub(1)).sum();
                let apart = (brought.clone().narrow(1, 0, 1) - brought - margins) * counts;
                (apart.clone() * apart).sum() / pairs as f64
            }
        })
    }

    /// Returns the scores `[B, P]` of questions `[B, dim]` and passages `[P, dim]`, divided by the temperature.
    pub fn scores(&self, questions: Tensor<2>, passages: Tensor<2>) -> Tensor<2> {
        let scores = match self.similarity {
            Similarity::Dot => questions.matmul(passages.transpose()),
            Similarity::Cosine => unit(questions).matmul(unit(passages).transpose()),
            Similarity::L2 => {
                let squared = |x: &Tensor<2>| (x.clone() * x.clone()).sum_dim(1);
                let lengths = squared(&questions) + squared(&passages).transpose();
                let distances = lengths - questions.matmul(passages.transpose()) * 2.0;
                distances.clamp_min(LEAST).sqrt().neg()
            }
        };
        scores / self.temperature
    }

    /// Returns the loss `[1]` of scores `[B, P]`: the mean over the questions (NLL), or over all pairs of a question
    /// and a negative that counts (triplet).
    pub fn loss(&self, scores: Tensor<2>, targets: &Targets, device: &Device) -> Tensor<1> {
        let [questions, passages] = scores.dims();
        let positive: Vec<i32> = targets.positive.iter().map(|column| *column as i32).collect();
        let positive = Tensor::<2, Int>::from_data(TensorData::new(positive, [questions, 1]), device);
        match self.loss {
            LossKind::Nll => {
                let scores = match targets.masked.is_empty() {
                    true => scores,
                    false => {
                        let mut mask = vec![0f32; questions * passages];
                        targets.masked.iter().for_each(|(q, p)| mask[q * passages + p] = MASKED);
                        scores + Tensor::from_data(TensorData::new(mask, [questions, passages]), device)
                    }
                };
                log_softmax(scores, 1).gather(1, positive).mean().neg()
            }
            LossKind::Triplet => {
                let mut counts = vec![1f32; questions * passages];
                let right = targets.positive.iter().enumerate().map(|(q, p)| (q, *p));
                let left_out = right.chain(targets.masked.iter().copied());
                left_out.for_each(|(q, p)| counts[q * passages + p] = 0.0);
                let pairs = counts.iter().sum::<f32>().max(1.0);
                let counts = Tensor::from_data(TensorData::new(counts, [questions, passages]), device);
                let right = scores.clone().gather(1, positive);
                (relu(scores - right + self.margin) * counts).sum() / pairs
            }
        }
    }

    /// Returns the number of questions whose positive scores above every passage that counts; `scores` is `[B, P]`,
    /// row-major.
    pub fn correct(scores: &[f32], targets: &Targets) -> usize {
        let columns = scores.len() / targets.positive.len().max(1);
        let mut counts = vec![true; scores.len()];
        targets.masked.iter().for_each(|(question, column)| counts[question * columns + column] = false);
        let is_best = |(question, positive): (usize, &usize)| {
            let of_question = question * columns..(question + 1) * columns;
            let (row, counts) = (&scores[of_question.clone()], &counts[of_question]);
            let mut others = row.iter().zip(counts).enumerate().filter(|(column, _)| column != positive);
            others.all(|(_, (score, counts))| !counts || *score < row[*positive])
        };
        targets.positive.iter().enumerate().filter(|pair| is_best(*pair)).count()
    }
}

fn unit(vectors: Tensor<2>) -> Tensor<2> {
    let squared = (vectors.clone() * vectors.clone()).sum_dim(1);
    vectors / squared.clamp_min(LEAST).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(objective: &Objective, scores: [[f32; 3]; 2], masked: &[(usize, usize)]) -> f32 {
        let device = Device::flex();
        let targets = Targets { positive: vec![0, 1], masked: masked.to_vec(), ..Targets::default() };
        objective.loss(Tensor::from_data(scores, &device), &targets, &device).into_scalar()
    }

    #[test]
    fn a_false_negative_costs_nothing() {
        let nll = Objective::default();
        let with = loss(&nll, [[1.0, 9.0, 0.0], [0.0, 1.0, 0.5]], &[(0, 1)]);
        let without = loss(&nll, [[1.0, -9e8, 0.0], [0.0, 1.0, 0.5]], &[]);
        assert!((with - without).abs() < 1e-6, "{with} {without}");
        let triplet = Objective { loss: LossKind::Triplet, ..nll };
        // Three pairs count: hinges 0, 0 and 0.5.
        let got = loss(&triplet, [[1.0, 9.0, 0.0], [0.0, 1.0, 0.5]], &[(0, 1)]);
        assert!((got - 0.5 / 3.0).abs() < 1e-6, "{got}");
    }

    #[test]
    fn equal_vectors_have_a_score_and_a_finite_gradient() {
        let device = Device::flex().autodiff();
        for similarity in [Similarity::Dot, Similarity::L2, Similarity::Cosine] {
            let objective = Objective { similarity, ..Objective::default() };
            for row in [[0.0f32, 0.0], [3.0, 4.0]] {
                let questions = Tensor::<2>::from_data([row], &device).require_grad();
                let scores =
                    objective.scores(questions.clone(), Tensor::from_data([row, [1.0, 0.0]], &device));
                let gradients = objective
                    .loss(scores, &Targets { positive: vec![0], ..Targets::default() }, &device)
                    .backward();
                let gradient = questions.grad(&gradients).unwrap().into_data().try_into_vec::<f32>().unwrap();
                assert!(gradient.iter().all(|v| v.is_finite()), "{similarity:?} {row:?} {gradient:?}");
            }
        }
    }

    /// The scores of two questions, of whose passages a teacher has scored the second's first and last.
    fn taught(teacher_loss: TeacherLoss, scores: [[f32; 3]; 2], teacher: &[f32]) -> f32 {
        let device = Device::flex();
        let objective = Objective { teacher_loss, teacher_weight: 1.0, ..Objective::default() };
        let of_second = Taught { columns: vec![1, 2][..teacher.len()].to_vec(), scores: teacher.to_vec() };
        let taught = vec![Taught::default(), of_second];
        let targets = Targets { positive: vec![0, 1], taught, ..Targets::default() };
        objective.mixed(Tensor::from_data(scores, &device), &targets, &device).into_scalar()
    }

    #[test]
    fn scores_are_taught_of_the_passages_that_a_question_brings_alone() {
        let scores = [[3.0, 0.0, 7.0], [9.0, 2.0, 1.0]];
        // Two passages with a margin of 1, which a shift does not change.
        for loss in [TeacherLoss::Divergence, TeacherLoss::Margin] {
            let same = taught(loss, scores, &[-4.0, -5.0]);
            assert!(same.abs() < 1e-6, "{loss:?} {same}");
        }
        assert!((taught(TeacherLoss::Margin, scores, &[0.5, 2.0]) - 2.5 * 2.5).abs() < 1e-5);
        // Shares of e and 1 against equal ones: ln of (1 + e) / (2 sqrt(e)).
        let divergence = taught(TeacherLoss::Divergence, scores, &[0.0, 0.0]);
        let expected = ((1.0 + 1f32.exp()) / (2.0 * 0.5f32.exp())).ln();
        assert!((divergence - expected).abs() < 1e-6, "{divergence} {expected}");
        // Where the teacher could read none, the labels are all that is learned, with their whole weight.
        let labels = loss(&Objective::default(), scores, &[]);
        for none in [&[][..], &[1.0]] {
            assert_eq!(taught(TeacherLoss::Margin, scores, none), labels);
        }
    }

    #[test]
    fn the_gradient_from_a_teacher_is_the_change_of_the_loss() {
        let device = Device::flex().autodiff();
        let of_first = Taught { columns: vec![0, 2, 1], scores: vec![1.0, 2.0, -0.5] };
        let of_second = Taught { columns: vec![1, 0], scores: vec![0.5, 0.0] };
        let targets =
            Targets { positive: vec![0, 1], taught: vec![of_first, of_second], ..Targets::default() };
        for teacher_loss in [TeacherLoss::Divergence, TeacherLoss::Margin] {
            let objective = Objective { teacher_loss, teacher_weight: 0.7, ..Objective::default() };
            let at = [0.5f32, -0.25, 1.0, 0.75, 0.1, -2.0];
            let loss = |at: [f32; 6]| {
                let scores = Tensor::<1>::from_data(at, &device).reshape([2, 3]).require_grad();
                (objective.mixed(scores.clone(), &targets, &device), scores)
            };
            let (value, scores) = loss(at);
            let gradient = scores.grad(&value.backward()).unwrap().into_data().try_into_vec::<f32>().unwrap();
            for place in 0..6 {
                let moved = |by: f32| {
                    let mut at = at;
                    at[place] += by;
                    loss(at).0.inner().into_scalar::<f32>()
                };
                let change = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!(
                    (change - gradient[place]).abs() < 1e-3,
                    "{teacher_loss:?} {place}: {change} {gradient:?}"
                );
            }
        }
    }

    #[test]
    fn a_positive_that_only_ties_is_not_best() {
        let targets = Targets { positive: vec![0, 1], masked: vec![(1, 2)], ..Targets::default() };
        assert_eq!(Objective::correct(&[2.0, 2.0, 1.0, 0.0, 1.0, 5.0], &targets), 1);
    }
}
