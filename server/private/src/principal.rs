//! Principal directions of the passages' vectors.

use nalgebra::{DMatrix, SymmetricEigen};
use rayon::prelude::*;

use crate::{BuildError, lengths};

/// Vectors that the directions are computed from: evenly spread rows when there are more.
const SAMPLE: usize = 20_000;

/// The mean `[dim]` and the principal directions of vectors.
pub(crate) struct Principal {
    pub(crate) mean: Vec<f32>,
    /// `[dims, dim]`, the most important first, each of length 1.
    pub(crate) directions: Vec<f32>,
}

impl Principal {
    /// Computes the directions of `rows` `[any, dim]`; `dims` is at most `dim`. Rows that are far longer than the others
    /// are [shortened](lengths::limit), so that they move neither the mean nor the directions of all.
    ///
    /// # Errors
    /// [`BuildError::Overflow`] for rows so long that their products overflow.
    pub(crate) fn of(rows: &[f32], dim: usize, dims: usize) -> Result<Self, BuildError> {
        let count = rows.len() / dim.max(1);
        let step = count.div_ceil(SAMPLE).max(1);
        let sample: Vec<&[f32]> = rows.chunks_exact(dim).step_by(step).collect();
        let all: Vec<f64> = sample.iter().map(|row| lengths::of(row)).collect();
        let most = lengths::limit(all.clone());
        let factors: Vec<f64> =
            all.into_iter().map(|length| if length > most { most / length } else { 1.0 }).collect();
        let mut mean = vec![0f64; dim];
        for (row, factor) in sample.iter().zip(&factors) {
            mean.iter_mut().zip(*row).for_each(|(sum, number)| *sum += f64::from(*number) * factor);
        }
        mean.iter_mut().for_each(|sum| *sum /= sample.len().max(1) as f64);
        let mean: Vec<f32> = mean.into_iter().map(|number| number as f32).collect();

        // Column by column: [dim, sample].
        let centred = sample.iter().zip(&factors).flat_map(|(row, factor)| {
            let factor = *factor as f32;
            row.iter().zip(&mean).map(move |(x, mean)| x * factor - mean)
        });
        let centred: Vec<f32> = centred.collect();
        let centred = DMatrix::from_vec(dim, sample.len(), centred);
        let covariance = (&centred * centred.transpose()).cast::<f64>();
        // The iteration would not end.
        if !covariance.iter().all(|number| number.is_finite()) {
            return Err(BuildError::Overflow);
        }
        let SymmetricEigen { eigenvectors, eigenvalues } = SymmetricEigen::new(covariance);
        let mut order: Vec<usize> = (0..dim).collect();
        order.sort_by(|a, b| eigenvalues[*b].total_cmp(&eigenvalues[*a]));
        let directions = order.iter().take(dims).flat_map(|at| {
            let column = eigenvectors.column(*at);
            // A direction has two signs: the one whose greatest number is positive is the same on every machine.
            let greatest = column.iter().copied().fold(0f64, |a, b| if b.abs() > a.abs() { b } else { a });
            let sign = if greatest < 0.0 { -1.0 } else { 1.0 };
            column.iter().map(|number| (number * sign) as f32).collect::<Vec<f32>>()
        });
        Ok(Self { directions: directions.collect(), mean })
    }

    /// Returns the coordinates of vectors `[any, dim]` less the mean, `[any, dims]`.
    pub(crate) fn project(&self, rows: &[f32]) -> Vec<f32> {
        let dim = self.mean.len();
        rows.par_chunks_exact(dim)
            .flat_map_iter(|row| {
                let centred: Vec<f32> = row.iter().zip(&self.mean).map(|(x, mean)| x - mean).collect();
                let along = |direction: &[f32]| direction.iter().zip(&centred).map(|(a, b)| a * b).sum();
                self.directions.chunks_exact(dim).map(along).collect::<Vec<f32>>()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::random::SplitMix;

    #[test]
    fn the_directions_of_greatest_spread_come_first_and_are_orthonormal() {
        let (dim, dims) = (40, 32);
        let mut random = SplitMix::new(1);
        // Coordinate i is spread by i + 1, around i.
        let rows: Vec<f32> = (0..3000)
            .flat_map(|_| {
                (0..dim).map(|i| (random.normal() * (i + 1) as f64) as f32 + i as f32).collect::<Vec<_>>()
            })
            .collect();
        let principal = Principal::of(&rows, dim, dims).unwrap();
        assert!((principal.mean[0] - 0.0).abs() < 0.1 && (principal.mean[39] - 39.0).abs() < 3.0);
        let dot = |a: usize, b: usize| -> f32 {
            let row = |at: usize| &principal.directions[at * dim..][..dim];
            row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum()
        };
        for a in 0..dims {
            for b in 0..=a {
                let expected = if a == b { 1.0 } else { 0.0 };
                assert!((dot(a, b) - expected).abs() < 1e-4, "{a} {b}: {}", dot(a, b));
            }
        }
        let coordinates = principal.project(&rows);
        let spread = |at: usize| coordinates.iter().skip(at).step_by(dims).map(|x| x * x).sum::<f32>();
        assert!((1..dims).all(|at| spread(at) <= spread(at - 1) * 1.001));
        assert!(spread(0) > 3000.0 * 35.0 * 35.0);
    }

    #[test]
    fn one_row_that_is_far_longer_moves_neither_mean_nor_directions_and_an_overflow_is_an_error() {
        let mut random = SplitMix::new(2);
        let mut rows: Vec<f32> = (0..60 * 32).map(|_| random.normal() as f32).collect();
        let plain = Principal::of(&rows, 32, 32).unwrap();
        rows.extend((0..32).map(|_| 3000.0 * random.normal() as f32));
        let beside = Principal::of(&rows, 32, 32).unwrap();
        assert!(plain.mean.iter().zip(&beside.mean).all(|(a, b)| (a - b).abs() < 0.2), "{:?}", beside.mean);
        rows.iter_mut().for_each(|number| *number *= 1e25);
        assert!(matches!(Principal::of(&rows, 32, 32), Err(BuildError::Overflow)));
    }
}
