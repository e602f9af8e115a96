//! Principal directions of vectors (principal component analysis).

use dpr_core::kernel::search::batch::QueryBatch;
use dpr_core::private::projection::{Projection, ProjectionError};
use nalgebra::{DMatrix, SymmetricEigen};
use rayon::prelude::*;

/// Most vectors that directions are made of; more are sampled.
pub const SAMPLE: usize = 100_000;

/// Vectors whose covariance is summed in f32, before the sums go on in f64.
const BLOCK: usize = 512;

/// Blocks that are summed at once.
const GROUP: usize = 16;

/// The share of the greatest variance below which a direction is left out: vectors that were widened have no more.
const LEAST: f64 = 1e-7;

/// The error of making directions.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectionsError {
    /// Vectors that are all alike, or fewer than two.
    #[error(
        "{count} vectors have no principal directions: two that differ are the least, some thousands make good ones"
    )]
    TooFew {
        /// Vectors given.
        count: usize,
    },
    /// Vectors so long that their products overflow.
    #[error("the products of the vectors overflow: scale the vectors to length 1, and build the index again")]
    Overflow,
    /// See [`ProjectionError`].
    #[error(transparent)]
    Projection(#[from] ProjectionError),
}

/// Returns the projection on the principal directions of `vectors` (`[dim]` each), by decreasing variance, and the
/// share of the variance that the first so many keep. Of more than [`SAMPLE`] vectors, every so-manieth is looked at.
///
/// # Errors
/// [`DirectionsError`] when there are none.
pub fn principal_directions(
    vectors: &[&[f32]],
    dim: usize,
) -> Result<(Projection, Vec<f64>), DirectionsError> {
    let too_few = DirectionsError::TooFew { count: vectors.len() };
    let step = vectors.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<&[f32]> = vectors.iter().step_by(step).copied().collect();
    if sample.len() < 2 || dim == 0 || sample.iter().any(|vector| vector.len() != dim) {
        return Err(too_few);
    }
    let mut mean = vec![0f64; dim];
    for vector in &sample {
        mean.iter_mut().zip(*vector).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let mean: Vec<f32> = mean.iter().map(|sum| (sum / sample.len() as f64) as f32).collect();
    let covariance = covariance(&sample, &mean);
    // The iteration would not end.
    if covariance.iter().any(|value| !value.is_finite()) {
        return Err(DirectionsError::Overflow);
    }
    let eigen = SymmetricEigen::new(covariance);
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    let greatest = eigen.eigenvalues[order[0]];
    if !greatest.is_finite() || greatest <= 0.0 {
        return Err(too_few);
    }
    order.retain(|at| eigen.eigenvalues[*at] > LEAST * greatest);
    let mut rows = Vec::with_capacity(order.len() * dim);
    for at in &order {
        let direction = eigen.eigenvectors.column(*at);
        // A direction and its opposite are as good: one of them is chosen, so that every build gives the same.
        let sign = direction[direction.iamax()].signum();
        rows.extend(direction.iter().map(|value| (value * sign) as f32));
    }
    let kept = order.iter().scan(0.0, |sum, at| {
        *sum += eigen.eigenvalues[*at];
        Some(*sum)
    });
    let kept: Vec<f64> = kept.collect();
    let all = kept.last().copied().unwrap_or(1.0);
    Ok((Projection::new(mean, &rows)?, kept.into_iter().map(|sum| sum / all).collect()))
}

/// Returns the sums of products of centred numbers, `[dim, dim]`: the covariance, but for a factor.
fn covariance(sample: &[&[f32]], mean: &[f32]) -> DMatrix<f64> {
    let dim = mean.len();
    let of_block = |block: &[&[f32]]| {
        // `[dim, block]`: the numbers at one place, one after another.
        let mut columns = vec![0f32; dim * block.len()];
        for (at, vector) in block.iter().enumerate() {
            for (place, (value, mean)) in vector.iter().zip(mean).enumerate() {
                columns[place * block.len() + at] = value - mean;
            }
        }
        let mut sums = vec![0f32; dim * dim];
        QueryBatch::new(columns.chunks_exact(block.len()), block.len()).products(&columns, &mut sums);
        sums
    };
    let mut all = vec![0f64; dim * dim];
    let blocks: Vec<&[&[f32]]> = sample.chunks(BLOCK).collect();
    for group in blocks.chunks(GROUP) {
        // Collected before they are added: the order of sums is the same on any number of threads.
        let sums: Vec<Vec<f32>> = group.par_iter().map(|block| of_block(block)).collect();
        for sums in sums {
            all.iter_mut().zip(sums).for_each(|(all, sum)| *all += f64::from(sum));
        }
    }
    let matrix = DMatrix::from_vec(dim, dim, all);
    // Kernels may sum a pair in two orders.
    (&matrix + matrix.transpose()) * 0.5
}

#[cfg(test)]
mod tests {
    use dpr_core::random::SplitMix;

    use super::*;

    #[test]
    fn directions_are_those_of_most_variance_around_the_mean() {
        // Along axis 3 the standard deviation is 3, along axis 1 it is 2, along axis 5 it is 1; the others do not vary.
        let mut random = SplitMix::new(3);
        let rows: Vec<Vec<f32>> = (0..3000)
            .map(|_| {
                let mut row = vec![0.5f32; 6];
                for (axis, deviation) in [(3, 3.0), (1, 2.0), (5, 1.0)] {
                    row[axis] += (deviation * random.normal()) as f32;
                }
                row
            })
            .collect();
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let (projection, kept) = principal_directions(&rows, 6).unwrap();
        assert_eq!((projection.rank(), projection.dim()), (3, 6));
        assert!(projection.mean().iter().all(|mean| (mean - 0.5).abs() < 0.2), "{:?}", projection.mean());
        for (axis, place) in [(3, 0), (1, 1), (5, 2)] {
            let unit: Vec<f32> = (0..6).map(|at| f32::from(u8::from(at == axis))).collect();
            assert!(projection.project(&unit, 3)[place] > 0.99, "axis {axis}");
        }
        for (kept, expected) in kept.iter().zip([9.0 / 14.0, 13.0 / 14.0, 1.0]) {
            assert!((kept - expected).abs() < 0.03, "{kept} {expected}");
        }
    }

    #[test]
    fn vectors_without_directions_are_refused() {
        let row = [1.0f32, 2.0];
        for count in [0, 1, 5] {
            let refused = principal_directions(&vec![&row[..]; count], 2);
            assert_eq!(refused, Err(DirectionsError::TooFew { count }));
        }
        let other = [1.0f32];
        assert!(principal_directions(&[&row[..], &other[..]], 2).is_err());
        let long = [[3e30f32, 1e30], [-2e30, 1e30]];
        assert_eq!(principal_directions(&[&long[0][..], &long[1][..]], 2), Err(DirectionsError::Overflow));
        let nan = [f32::NAN, 1.0];
        assert!(principal_directions(&[&row[..], &nan[..]], 2).is_err());
    }
}
