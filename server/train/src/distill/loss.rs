//! Distillation loss: the distance of a student from its teacher.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Tensor, TensorData};
use dpr_core::Embedding;

use super::super::encoders::TrainDevice;
use super::super::error::TrainError;
use super::super::step::{BySide, Loss, LossOutcome, backward, gradient_at, leaf};
use super::config::DistillObjective;
use super::taught::Taught;
use dpr_index::ExactIndex;

/// The loss of one batch of questions.
pub(super) struct StudentLoss {
    objective: DistillObjective,
    /// The teacher's vectors, `[batch, dim]`.
    teacher: Vec<f32>,
    /// The teacher's best passages of all questions, each once, `[passages, dim]`; none without passages.
    passages: Vec<f32>,
}

impl StudentLoss {
    /// Prepares the loss of the questions `items` of `taught`, with `best` passages each.
    pub(super) fn new(
        objective: DistillObjective,
        taught: &Taught,
        items: &[usize],
        space: Option<&ExactIndex>,
        best: usize,
    ) -> Self {
        let teacher = items.iter().flat_map(|item| taught.vectors[*item].as_slice()).copied().collect();
        let mut rows: Vec<u32> =
            items.iter().flat_map(|item| taught.best[*item].iter().take(best)).copied().collect();
        rows.sort_unstable();
        rows.dedup();
        let vectors = space.map(|space| rows.iter().flat_map(|row| space.row(*row as usize)).copied());
        Self { objective, teacher, passages: vectors.map(Iterator::collect).unwrap_or_default() }
    }
}

impl Loss for StudentLoss {
    fn gradients(
        &self,
        [questions, passages]: BySide,
        dim: usize,
        device: &TrainDevice,
    ) -> Result<LossOutcome, TrainError> {
        let constant = |values: &[f32]| {
            let data = TensorData::new(values.to_vec(), [values.len() / dim, dim]);
            Tensor::<2>::from_data(data, &device.taped)
        };
        let correct = nearest(&questions, &self.teacher, dim);
        let student = leaf(questions, dim, device);
        let teacher = constant(&self.teacher);
        let apart = student.clone() - teacher.clone();
        let length = self.teacher.iter().map(|t| f64::from(*t) * f64::from(*t)).sum::<f64>();
        let mut loss = (apart.clone() * apart).sum() * (self.objective.distance / length.max(1e-12));
        if !self.passages.is_empty() && self.objective.passages > 0.0 {
            let found = constant(&self.passages).transpose();
            let logs = |questions: Tensor<2>| {
                log_softmax(questions.matmul(found.clone()) / self.objective.temperature, 1)
            };
            let (expected, got) = (logs(teacher), logs(student.clone()));
            let divergence = (expected.clone().exp() * (expected - got)).sum_dim(1).mean();
            loss = loss + divergence * self.objective.passages;
        }
        let (loss, mut gradients) = backward(loss)?;
        Ok(LossOutcome { loss, correct, gradients: [gradient_at(&student, &mut gradients)?, passages] })
    }
}

/// Returns the number of questions whose student vector has a greater inner product with its own teacher vector than
/// with that of any other question.
fn nearest(student: &[f32], teacher: &[f32], dim: usize) -> usize {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let is_nearest = |(row, vector): (usize, &[f32])| {
        let own = dot(vector, &teacher[row * dim..(row + 1) * dim]);
        let others = teacher.chunks_exact(dim).enumerate().filter(|(other, _)| *other != row);
        others.into_iter().all(|(_, other)| dot(vector, other) < own)
    };
    student.chunks_exact(dim).enumerate().filter(|pair| is_nearest(*pair)).count()
}

/// Returns the cosine of two vectors.
pub(super) fn cosine(student: &[f32], teacher: &Embedding) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let teacher = teacher.as_slice();
    dot(student, teacher) / (dot(student, student) * dot(teacher, teacher)).sqrt().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn device() -> TrainDevice {
        TrainDevice {
            plain: Device::flex(),
            taped: Device::flex().autodiff(),
            name: "flex".into(),
            gpu: false,
        }
    }

    fn loss(student: [f32; 4], passages: &[f32]) -> LossOutcome {
        let objective = DistillObjective { distance: 1.0, passages: 0.5, temperature: 0.5 };
        let teacher = vec![1.0, 0.0, 0.0, 2.0];
        let loss = StudentLoss { objective, teacher, passages: passages.to_vec() };
        loss.gradients([student.to_vec(), Vec::new()], 2, &device()).unwrap()
    }

    #[test]
    fn a_student_that_is_its_teacher_has_nothing_to_learn() {
        let outcome = loss([1.0, 0.0, 0.0, 2.0], &[1.0, 1.0, 0.0, -1.0, 0.5, 0.0]);
        assert!(outcome.loss.abs() < 1e-6, "{}", outcome.loss);
        assert_eq!(outcome.correct, 2);
        assert!(outcome.gradients[0].iter().all(|value| value.abs() < 1e-6), "{:?}", outcome.gradients[0]);
    }

    #[test]
    fn the_gradient_is_the_change_of_the_loss() {
        let (at, passages) = ([0.5, 0.25, -0.25, 1.5], [1.0, 1.0, 0.0, -1.0, 0.5, 0.0]);
        let outcome = loss(at, &passages);
        for place in 0..4 {
            let moved = |by: f32| {
                let mut at = at;
                at[place] += by;
                loss(at, &passages).loss
            };
            let change = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            let gradient = f64::from(outcome.gradients[0][place]);
            assert!((change - gradient).abs() < 1e-3, "{place}: {change} {gradient}");
        }
        // Apart (0.5, -0.25) and (0.25, 0.5) from teachers of squared lengths 1 and 4.
        let distance = loss(at, &[]).loss;
        assert!((distance - (0.25 + 0.0625 + 0.0625 + 0.25) / 5.0).abs() < 1e-6, "{distance}");
    }
}
