//! Topics: clusters of an index's passages (spherical k-means).

use dpr_core::random::SplitMix;
use rayon::prelude::*;

use super::linear::products;

/// Passages that clusters are made of, at most.
const SAMPLE: usize = 20_000;

/// Turns of k-means.
const TURNS: usize = 12;

/// Centres of clusters, `[count, dim]`, each of length 1.
pub(super) struct Clusters {
    centres: Vec<f32>,
    dim: usize,
}

impl Clusters {
    /// Makes `count` clusters of vectors, the same for the same seed.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a [f32]>, dim: usize, count: usize, seed: u64) -> Self {
        let mut sample: Vec<&[f32]> = rows.collect();
        let mut random = SplitMix::keyed(&[seed, 64]);
        random.shuffle(&mut sample);
        sample.truncate(SAMPLE);
        let rows: Vec<f32> = sample.concat();
        let first = sample.iter().take(count).flat_map(|row| row.iter().copied());
        let mut clusters = Self { centres: first.collect(), dim };
        clusters.scale();
        for _ in 0..TURNS {
            let nearest = clusters.nearest(&rows);
            let mut sums = vec![0f32; clusters.centres.len()];
            for (row, cluster) in rows.chunks_exact(dim).zip(nearest) {
                let sum = &mut sums[cluster * dim..][..dim];
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            // A cluster that lost all its rows keeps its centre.
            for (centre, sum) in clusters.centres.chunks_exact_mut(dim).zip(sums.chunks_exact(dim)) {
                if sum.iter().any(|value| *value != 0.0) {
                    centre.copy_from_slice(sum);
                }
            }
            clusters.scale();
        }
        clusters
    }

    fn scale(&mut self) {
        for centre in self.centres.chunks_exact_mut(self.dim.max(1)) {
            let length = centre.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            centre.iter_mut().for_each(|value| *value /= length);
        }
    }

    /// Returns the number of clusters.
    pub(super) fn len(&self) -> usize {
        self.centres.len() / self.dim.max(1)
    }

    /// Returns the cluster of greatest inner product with each row `[any, dim]`.
    pub(super) fn nearest(&self, rows: &[f32]) -> Vec<usize> {
        let scores = products(rows, &self.centres, self.dim);
        scores.par_chunks_exact(self.len().max(1)).map(greatest).collect()
    }
}

/// Returns the position of the greatest score.
pub(super) fn greatest(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_direction_are_one_cluster() {
        let mut random = SplitMix::new(4);
        let rows: Vec<f32> = (0..300)
            .flat_map(|at| (0..8).map(move |axis| if axis == at % 3 { 1.0 } else { 0.0 }))
            .map(|value: f32| value + 0.1 * random.normal() as f32)
            .collect();
        let clusters = Clusters::of(rows.chunks(8), 8, 3, 2);
        let nearest = clusters.nearest(&rows);
        assert_eq!(clusters.len(), 3);
        assert!((0..300).all(|at| nearest[at] == nearest[at % 3]));
        assert_eq!(nearest[..3].iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    }
}
