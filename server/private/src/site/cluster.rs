//! Clusters of passages of nearly one size: spherical k-means with a least and a greatest size.
//!
//! Bisecting k-means finds the first clusters, and k-means then moves them. Passages that a cluster has too many
//! go to their next best one, and a cluster that has too few takes those that lose least by it.

use dpr_core::kernel::search::batch::QueryBatch;
use dpr_core::kernel::search::f32::{inner_product, inner_products};
use rayon::prelude::*;

/// Turns of k-means with two clusters by which rows are bisected.
const BISECTION_TURNS: usize = 8;

/// Turns of k-means.
const TURNS: usize = 10;

/// Rows whose products with all centroids are computed together.
const ROWS: usize = 256;

/// The sizes that clusters may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) clusters: usize,
    pub(super) least: usize,
    pub(super) most: usize,
}

impl Sizes {
    /// Returns the sizes of clusters of `count` passages that are to have `least` passages each, a quarter more on
    /// average; `None` where that makes fewer than two.
    pub(super) fn of(count: usize, least: usize) -> Option<Self> {
        let clusters =
            (count.saturating_mul(4) / least.saturating_mul(5).max(1)).max((count / least.max(1)).min(2));
        (clusters >= 2).then(|| Self::with(count, clusters, least))
    }

    /// Returns the sizes of so many clusters of `count` passages.
    fn with(count: usize, clusters: usize, least: usize) -> Self {
        let most = (least + least / 2).max((count + count / 5).div_ceil(clusters.max(1)));
        Self { clusters, least, most }
    }

    /// Returns the sizes of so many clusters that were made for another number of passages; `None` where they would be
    /// too small, or twice as large.
    pub(super) fn kept(count: usize, clusters: usize, least: usize) -> Option<Self> {
        let fits = clusters >= 2 && clusters * least <= count && count <= clusters.saturating_mul(least) * 2;
        fits.then(|| Self::with(count, clusters, least))
    }
}

/// Returns centroids `[clusters, dims]`, each of length 1, of rows `[any, dims]` of length 1, the same for the same
/// rows.
pub(super) fn centroids(rows: &[f32], dims: usize, sizes: Sizes) -> Vec<f32> {
    let all: Vec<u32> = (0..(rows.len() / dims.max(1)) as u32).collect();
    let mut centroids = middles(rows, dims, &bisect(rows, dims, all, sizes));
    for _ in 0..TURNS {
        centroids = middles(rows, dims, &assign(rows, dims, &centroids, sizes));
    }
    centroids
}

/// Returns the rows of each cluster, ascending: those whose nearest centroid it is, as far as its size allows.
pub(super) fn assign(rows: &[f32], dims: usize, centroids: &[f32], sizes: Sizes) -> Vec<Vec<u32>> {
    let clusters = centroids.len() / dims.max(1);
    let nearest: Vec<usize> = rows
        .par_chunks(ROWS * dims.max(1))
        .flat_map_iter(|rows| {
            let products = products(rows, centroids, dims);
            (0..rows.len() / dims).map(move |row| best(&products[row * clusters..][..clusters], |_| true))
        })
        .collect();
    let mut of: Vec<usize> = nearest;
    let mut counts = vec![0usize; clusters];
    of.iter().for_each(|cluster| counts[*cluster] += 1);
    shrink(rows, dims, centroids, sizes, &mut of, &mut counts);
    grow(rows, dims, centroids, sizes, &mut of, &mut counts);
    let mut members: Vec<Vec<u32>> = counts.iter().map(|count| Vec::with_capacity(*count)).collect();
    (0..).zip(of).for_each(|(row, cluster)| members[cluster].push(row));
    members
}

/// Moves rows of clusters that are too large to their next best clusters with room, those first that lose least.
fn shrink(
    rows: &[f32],
    dims: usize,
    centroids: &[f32],
    sizes: Sizes,
    of: &mut [usize],
    counts: &mut [usize],
) {
    let clusters = counts.len();
    for cluster in 0..clusters {
        while counts[cluster] > sizes.most {
            let members = (0..of.len()).filter(|row| of[*row] == cluster);
            let mut moves: Vec<(f32, usize, usize)> = members
                .map(|row| {
                    let scores = products(&rows[row * dims..][..dims], centroids, dims);
                    let to = best(&scores, |to| to != cluster && counts[to] < sizes.most);
                    (scores[cluster] - scores[to], row, to)
                })
                .collect();
            moves.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let before = counts[cluster];
            for (_, row, to) in moves {
                if counts[cluster] > sizes.most && to != cluster && counts[to] < sizes.most {
                    of[row] = to;
                    counts[to] += 1;
                    counts[cluster] -= 1;
                }
            }
            // Where no cluster has room, which sizes that fit the rows exclude.
            if counts[cluster] == before {
                break;
            }
        }
    }
}

/// Moves rows to clusters that are too small, those first that lose least, from clusters that can spare them.
fn grow(rows: &[f32], dims: usize, centroids: &[f32], sizes: Sizes, of: &mut [usize], counts: &mut [usize]) {
    for cluster in 0..counts.len() {
        if counts[cluster] >= sizes.least {
            continue;
        }
        let centroid = |cluster: usize| &centroids[cluster * dims..][..dims];
        let mut scores = vec![0f32; of.len()];
        inner_products(centroid(cluster), rows, &mut scores);
        let others = (0..of.len()).filter(|row| of[*row] != cluster && counts[of[*row]] > sizes.least);
        let mut moves: Vec<(f32, usize)> = others
            .map(|row| (inner_product(centroid(of[row]), &rows[row * dims..][..dims]) - scores[row], row))
            .collect();
        moves.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, row) in moves {
            if counts[cluster] >= sizes.least {
                break;
            }
            if counts[of[row]] > sizes.least {
                counts[of[row]] -= 1;
                counts[cluster] += 1;
                of[row] = cluster;
            }
        }
    }
}

/// Returns the inner products of some rows with all centroids, `[rows, clusters]`.
fn products(rows: &[f32], centroids: &[f32], dims: usize) -> Vec<f32> {
    let mut products = vec![0f32; rows.len() / dims * (centroids.len() / dims)];
    QueryBatch::new(rows.chunks_exact(dims), dims).products(centroids, &mut products);
    products
}

/// Returns the position of the greatest of the scores that are allowed, the first of equal ones; 0 where none is.
fn best(scores: &[f32], allowed: impl Fn(usize) -> bool) -> usize {
    let all = scores.iter().enumerate().filter(|(at, _)| allowed(*at));
    let better = |best: Option<(usize, f32)>, (at, score): (usize, &f32)| match best {
        Some((_, most)) if most >= *score => best,
        _ => Some((at, *score)),
    };
    all.fold(None, better).map_or(0, |(at, _)| at)
}

/// Returns the mean direction of each cluster, `[clusters, dims]`.
fn middles(rows: &[f32], dims: usize, clusters: &[Vec<u32>]) -> Vec<f32> {
    clusters.par_iter().flat_map_iter(|members| middle(rows, dims, members)).collect()
}

/// Returns the mean direction of some rows, of length 1; zeros where they have none.
fn middle(rows: &[f32], dims: usize, members: &[u32]) -> Vec<f32> {
    let mut sum = vec![0f64; dims];
    for member in members {
        let row = &rows[*member as usize * dims..][..dims];
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    sum.into_iter().map(|value| (value / length) as f32).collect()
}

/// Returns clusters by bisecting k-means: rows in two, each part in two again, until there are `sizes.clusters`.
fn bisect(rows: &[f32], dims: usize, members: Vec<u32>, sizes: Sizes) -> Vec<Vec<u32>> {
    let Sizes { clusters, least, most } = sizes;
    if clusters <= 1 {
        return vec![members];
    }
    let row = |member: u32| &rows[member as usize * dims..][..dims];
    let far = |from: &[f32]| {
        let products = members.iter().map(|member| (*member, inner_product(from, row(*member))));
        products.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(member, _)| member)
    };
    // Two rows that are far apart.
    let first = far(&middle(rows, dims, &members));
    let mut ends = [row(first).to_vec(), row(far(row(first))).to_vec()];
    let (mut order, mut left, mut cut) = (members.clone(), clusters / 2, members.len() / 2);
    for _ in 0..BISECTION_TURNS {
        let between: Vec<f32> = ends[0].iter().zip(&ends[1]).map(|(a, b)| a - b).collect();
        let mut scored: Vec<(f32, u32)> =
            members.par_iter().map(|member| (inner_product(&between, row(*member)), *member)).collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let (count, nearer) = (scored.len(), scored.iter().filter(|(score, _)| *score > 0.0).count());
        left = ((nearer * clusters + count / 2) / count.max(1)).clamp(1, clusters - 1);
        let right = clusters - left;
        let lowest = (left * least).max(count.saturating_sub(right * most));
        let highest = (left * most).min(count.saturating_sub(right * least));
        cut = nearer.clamp(lowest.min(highest), highest);
        order = scored.into_iter().map(|(_, member)| member).collect();
        ends = [middle(rows, dims, &order[..cut]), middle(rows, dims, &order[cut..])];
    }
    let (one, other) = (order[..cut].to_vec(), order[cut..].to_vec());
    let of = |clusters: usize| Sizes { clusters, ..sizes };
    let (mut found, more) =
        rayon::join(|| bisect(rows, dims, one, of(left)), || bisect(rows, dims, other, of(clusters - left)));
    found.extend(more);
    found
}

#[cfg(test)]
mod tests {
    use dpr_core::random::SplitMix;

    use super::*;

    const DIMS: usize = 10;

    /// Rows around so many directions, of which the first has half of all.
    fn rows(count: usize, topics: usize) -> Vec<f32> {
        let mut random = SplitMix::new(3);
        let topic_rows: Vec<f64> = (0..topics * DIMS).map(|_| random.normal()).collect();
        let mut rows = Vec::new();
        for at in 0..count {
            let topic = if at % 2 == 0 { 0 } else { random.below(topics) };
            let row: Vec<f64> =
                (0..DIMS).map(|axis| topic_rows[topic * DIMS + axis] + 0.3 * random.normal()).collect();
            let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            rows.extend(row.into_iter().map(|value| (value / length) as f32));
        }
        rows
    }

    #[test]
    fn every_row_is_in_one_cluster_and_every_cluster_has_a_size_that_is_allowed() {
        for (count, least) in [(1000, 100), (1000, 30), (257, 100), (401, 200), (64, 3), (2067, 100)] {
            let rows = rows(count, 12);
            let sizes = Sizes::of(count, least).unwrap();
            let centroids = centroids(&rows, DIMS, sizes);
            let clusters = assign(&rows, DIMS, &centroids, sizes);
            assert_eq!((centroids.len(), clusters.len()), (sizes.clusters * DIMS, sizes.clusters));
            let within = |members: &Vec<u32>| (sizes.least..=sizes.most).contains(&members.len());
            let lengths: Vec<usize> = clusters.iter().map(Vec::len).collect();
            assert!(clusters.iter().all(within), "{count} {least}: {lengths:?} {sizes:?}");
            assert!(clusters.iter().all(|members| members.is_sorted()));
            let mut all: Vec<u32> = clusters.concat();
            all.sort_unstable();
            assert_eq!(all, (0..count as u32).collect::<Vec<_>>());
            // The same again, and from the same centroids.
            assert_eq!(super::centroids(&rows, DIMS, sizes), centroids);
            assert_eq!(assign(&rows, DIMS, &centroids, sizes), clusters);
        }
    }

    #[test]
    fn rows_of_one_topic_are_together() {
        let rows = rows(2000, 20);
        let sizes = Sizes::of(2000, 40).unwrap();
        let centroids = centroids(&rows, DIMS, sizes);
        let clusters = assign(&rows, DIMS, &centroids, sizes);
        let mean: f64 = clusters
            .iter()
            .enumerate()
            .flat_map(|(cluster, members)| members.iter().map(move |member| (cluster, *member as usize)))
            .map(|(cluster, row)| {
                f64::from(inner_product(&centroids[cluster * DIMS..][..DIMS], &rows[row * DIMS..][..DIMS]))
            })
            .sum::<f64>()
            / 2000.0;
        assert!(mean > 0.9, "{mean}");
    }

    #[test]
    fn rows_that_are_all_the_same_are_clustered_too() {
        for rows in [vec![0.0; 100 * DIMS], vec![(DIMS as f32).sqrt().recip(); 100 * DIMS]] {
            let sizes = Sizes::of(100, 20).unwrap();
            let centroids = centroids(&rows, DIMS, sizes);
            let clusters = assign(&rows, DIMS, &centroids, sizes);
            assert!(clusters.iter().all(|members| (20..=sizes.most).contains(&members.len())));
        }
    }

    #[test]
    fn too_few_passages_are_not_clustered_and_sizes_are_kept_while_they_fit() {
        assert_eq!(Sizes::of(1999, 1000), None);
        assert_eq!(Sizes::of(2000, 1000), Some(Sizes { clusters: 2, least: 1000, most: 1500 }));
        assert_eq!(Sizes::of(60_000, 1000).unwrap().clusters, 48);
        assert_eq!(Sizes::of(0, 1000), None);
        assert_eq!(Sizes::kept(48_000, 48, 1000).unwrap().clusters, 48);
        assert_eq!(Sizes::kept(47_999, 48, 1000), None);
        assert_eq!(Sizes::kept(96_001, 48, 1000), None);
        for count in [2000, 2600, 3749, 10_000, 61_111] {
            let Sizes { clusters, least, most } = Sizes::of(count, 1000).unwrap();
            assert!(clusters * least <= count && count <= clusters * most, "{count}");
        }
    }
}
