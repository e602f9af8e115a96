//! Weights of one linear layer before they are packed beside those of others with the same inputs.

use crate::weights::Matrix;

/// One of the layers that [`Linear::new`](super::linear::Linear::new) puts side by side.
pub(super) struct Part {
    /// `[outputs, k]`.
    pub(super) weight: Matrix,
    /// `[outputs]`.
    pub(super) bias: Vec<f32>,
    /// The factor that the outputs are multiplied by.
    pub(super) factor: f32,
}

impl Part {
    /// Returns the part as `factors.len()` parts of as many outputs, each times its factor.
    pub(super) fn split(self, factors: &[f32]) -> Vec<Self> {
        let Self { weight, bias, factor } = self;
        let length = bias.len() / factors.len();
        let part = |index: usize, weight: Matrix, by: f32| Self {
            weight,
            bias: bias[index * length..][..length].to_vec(),
            factor: factor * by,
        };
        let factors = factors.iter().copied().enumerate();
        match weight {
            Matrix::F32(values) => {
                let columns = values.len() / bias.len().max(1);
                let rows = |index| values[index * length * columns..][..length * columns].to_vec();
                factors.map(|(index, by)| part(index, Matrix::F32(rows(index)), by)).collect()
            }
            Matrix::Q8 { values, scales } => {
                let columns = values.len() / bias.len().max(1);
                let rows = |index| Matrix::Q8 {
                    values: values[index * length * columns..][..length * columns].to_vec(),
                    scales: scales[index * length..][..length].to_vec(),
                };
                factors.map(|(index, by)| part(index, rows(index), by)).collect()
            }
        }
    }
}
