//! Single-precision (f32) inner products of one vector with many: the work that searching an index spends its time
//! on.
//!
//! Every sum runs over the same lanes in the same order on every instruction set, without fused operations, so that a
//! pair of vectors has one score everywhere, to the bit.

use super::super::isa::{best, vectorised};
use super::super::vector::prefetch;

/// Sums kept side by side: enough that one addition need not wait for the one before on any instruction set.
const LANES: usize = 64;

/// The number of rows by which prefetching is ahead of the sums, where rows lie apart.
const AHEAD: usize = 4;

/// Returns the inner product of two vectors of one length.
pub fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    vectorised!(best(), |a: &[f32], b: &[f32]| -> f32 { dot(a, b) })
}

/// Returns the squared Euclidean distance of two vectors of one length: exactly 0 for equal ones, and the same both
/// ways.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    vectorised!(best(), |a: &[f32], b: &[f32]| -> f32 { sum(a, b, |a, b| (a - b) * (a - b)) })
}

/// Computes the inner products of `query` with `rows` `[scores, dim]`, row after row, into `scores`.
pub fn inner_products(query: &[f32], rows: &[f32], scores: &mut [f32]) {
    debug_assert_eq!(rows.len(), scores.len() * query.len());
    vectorised!(best(), |query: &[f32], rows: &[f32], scores: &mut [f32]| {
        for (score, row) in scores.iter_mut().zip(rows.chunks_exact(query.len())) {
            *score = dot(query, row);
        }
    });
}

/// Replaces `scores` by the inner products of `query` with the rows of `rows` `[any, dim]` that `picked` names.
///
/// # Panics
/// When `picked` names a row that is not in `rows`.
pub fn inner_products_at(query: &[f32], rows: &[f32], picked: &[u32], scores: &mut Vec<f32>) {
    scores.clear();
    vectorised!(best(), |query: &[f32], rows: &[f32], picked: &[u32], scores: &mut Vec<f32>| {
        let row = |row: u32| &rows[row as usize * query.len()..][..query.len()];
        picked.iter().take(AHEAD).for_each(|next| prefetch(row(*next)));
        for (at, here) in picked.iter().enumerate() {
            if let Some(next) = picked.get(at + AHEAD) {
                prefetch(row(*next));
            }
            scores.push(dot(query, row(*here)));
        }
    });
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |a, b| a * b)
}

#[inline(always)]
fn sum(a: &[f32], b: &[f32], of: impl Fn(f32, f32) -> f32) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0f32; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += of(a[lane], b[lane]);
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += of(*a, *b);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::super::super::isa::Isa;
    use super::*;

    fn vectors(len: usize) -> (Vec<f32>, Vec<f32>) {
        (
            (0..len).map(|i| (i as f32 * 0.37).sin()).collect(),
            (0..len).map(|i| (i as f32 * 0.11).cos()).collect(),
        )
    }

    #[test]
    fn sums_of_every_length_are_the_plain_ones() {
        for len in [0, 1, 7, 63, 64, 65, 127, 384, 767, 768] {
            let (a, b) = vectors(len);
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(inner_product(&a, &b)) - plain).abs() < 1e-4, "{len}");
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            assert!((f64::from(squared_distance(&a, &b)) - plain).abs() < 1e-4, "{len}");
            assert_eq!(squared_distance(&a, &a), 0.0);
            assert_eq!(squared_distance(&a, &b), squared_distance(&b, &a));
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for len in [5, 100, 768] {
            let (a, b) = vectors(len);
            let (a, b) = (a.as_slice(), b.as_slice());
            for isa in Isa::available() {
                let found = vectorised!(isa, |a: &[f32], b: &[f32]| -> f32 { dot(a, b) });
                assert_eq!(found.to_bits(), inner_product(a, b).to_bits(), "{isa:?} {len}");
            }
        }
    }

    #[test]
    fn many_at_once_are_each_one_s_own() {
        let dim = 100;
        let (rows, _) = vectors(dim * 9);
        let (_, query) = vectors(dim);
        let mut scores = vec![0.0; 9];
        inner_products(&query, &rows, &mut scores);
        let single: Vec<f32> = rows.chunks(dim).map(|row| inner_product(&query, row)).collect();
        assert_eq!(scores, single);
        let mut picked = vec![7.0];
        inner_products_at(&query, &rows, &[8, 0, 3, 3, 1, 7], &mut picked);
        assert_eq!(picked, [8, 0, 3, 3, 1, 7].map(|row| single[row]));
    }
}
