//! Exact search among the rows that a filter allows: 8-bit codes say which of them cannot be among the best, and the
//! vectors rank the others.
//!
//! A code is off by half a step at most, so a row's codes bound its score from above. Once `k` rows are scored by their
//! vectors, a row whose bound is below the worst of these needs no look at its vector. The result is that of scoring all
//! allowed rows by their vectors, to the bit.

use std::cmp::Ordering;

use super::codes::rescored;
use super::quantized::{GraphQuery, Quantized};
use super::{CancelToken, Matrix, RowSet, ScoredRow, Stopped};
use crate::ranking::{Candidate, TopK};

/// Rows that are bounded between two looks at whether to stop.
const LOOK_ROWS: usize = 1024;

/// Finds the best `k` of the allowed rows; those beyond the matrix are left out.
pub(super) fn search_allowed(
    matrix: &Matrix,
    codes: &Quantized,
    query: &[f32],
    allowed: &RowSet,
    k: usize,
    cancel: &CancelToken,
) -> Result<Vec<ScoredRow>, Stopped> {
    let rows = allowed.rows_below(matrix.count());
    let (k, first) = (k.min(rows.len()), rescored(k));
    // So few that their codes would be read in vain.
    if rows.len() <= 2 * first {
        return matrix.rank(query, &rows, k, cancel);
    }
    let mut bounds = codes.bounds(query, matrix.rounding(query));
    let mut bounded = Vec::with_capacity(rows.len());
    for rows in rows.chunks(LOOK_ROWS) {
        cancel.check()?;
        codes.bounds_at(&mut bounds, rows, |row, bound| bounded.push((bound, row)));
    }
    let (best, _, _) = bounded.select_nth_unstable_by(first, |a, b| b.0.total_cmp(&a.0));
    let picked = |bounded: &[(f64, u32)]| bounded.iter().map(|(_, row)| *row).collect::<Vec<u32>>();
    let mut top = TopK::new(k);
    matrix.offer(query, &picked(best), &mut top, cancel)?;
    let floor = f64::from(top.floor());
    // An equal score of a lower row is better, and a bound that is not a number rules nothing out.
    bounded.drain(..first);
    bounded.retain(|(bound, _)| bound.partial_cmp(&floor) != Some(Ordering::Less));
    matrix.offer(query, &picked(&bounded), &mut top, cancel)?;
    Ok(top.into_rows(k))
}

/// Returns the best `k` of `found`, rows with their scores by codes, best first. The vector of a row whose bound is
/// below the worst score of the first `k` is not read.
pub(super) fn rank_bounded(
    matrix: &Matrix,
    codes: &Quantized,
    (question, query): (&[f32], &GraphQuery),
    found: &[Candidate],
    k: usize,
    cancel: &CancelToken,
) -> Result<Vec<ScoredRow>, Stopped> {
    let (first, rest) = found.split_at(k.min(found.len()));
    let first: Vec<u32> = first.iter().map(|found| found.row).collect();
    let mut top = TopK::new(k);
    matrix.offer(question, &first, &mut top, cancel)?;
    let (floor, error) = (f64::from(top.floor()), codes.error_of(query, question, matrix.rounding(question)));
    // A bound that is not a number rules nothing out.
    let may_be_best = |found: &&Candidate| {
        codes.bound(error, found.row, found.score).partial_cmp(&floor) != Some(Ordering::Less)
    };
    let left: Vec<u32> = rest.iter().filter(may_be_best).map(|found| found.row).collect();
    matrix.offer(question, &left, &mut top, cancel)?;
    Ok(top.into_rows(k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::random::SplitMix;

    /// Returns how long a row is, given its place.
    type Size = fn(usize) -> f32;

    /// Rows of normal numbers, each row `size` of its place times as long, one number of each `great` times as great.
    fn matrix(count: usize, dim: usize, great: f32, size: impl Fn(usize) -> f32) -> Matrix {
        let mut random = SplitMix::new(count as u64);
        let mut values: Vec<f32> = (0..count * dim).map(|_| random.normal() as f32).collect();
        for (row, vector) in values.chunks_mut(dim).enumerate() {
            vector[dim - 1] *= great;
            vector.iter_mut().for_each(|value| *value *= size(row));
        }
        Matrix::new(values, count, dim, |row| row.to_string()).unwrap()
    }

    #[test]
    fn allowed_rows_rank_as_by_their_vectors_whatever_their_lengths_and_numbers() {
        let never = CancelToken::never();
        let cases: [(f32, Size); 9] = [
            (1.0, |_| 1.0),
            (30.0, |_| 1.0),
            (1.0, |row| 1.0 + (row % 7) as f32),
            (1.0, |row| if row % 3 == 0 { 1.0 } else { 1e-3 }),
            (1.0, |_| 1e-20),
            (1.0, |_| 1e-37),
            (1.0, |row| if row % 2 == 0 { 1e15 } else { 1e-30 }),
            (1.0, |row| if row < 900 { 0.0 } else { 1.0 }),
            (1.0, |_| 1e16),
        ];
        for dim in [3, 64, 200] {
            for (at, (great, size)) in cases.into_iter().enumerate() {
                let matrix = matrix(1500, dim, great, size);
                let codes = Quantized::of(&matrix);
                let mut random = SplitMix::new(at as u64);
                for (part, k) in [(1, 1), (1, 20), (2, 7), (3, 200), (3, 400), (40, 5), (1400, 3)] {
                    let mut allowed = RowSet::none(1500);
                    (0..1500).step_by(part).for_each(|row| assert!(allowed.insert(row)));
                    let rows: Vec<u32> = allowed.iter().map(|row| row as u32).collect();
                    for length in [1.0, 1e-3, 1e-30, 1e-35, 1e15] {
                        let query: Vec<f32> = (0..dim).map(|_| random.normal() as f32 * length).collect();
                        let found = search_allowed(&matrix, &codes, &query, &allowed, k, &never).unwrap();
                        let expected = matrix.rank(&query, &rows, k, &never).unwrap();
                        assert_eq!(found, expected, "dim {dim}, case {at}, one of {part}, k {k}, {length}");
                        let (mut by_codes, mut scores) = (GraphQuery::of(&query), Vec::new());
                        codes.scores_at(&mut by_codes, &rows, &mut scores);
                        let scored = rows.iter().zip(scores);
                        let mut scored: Vec<_> =
                            scored.map(|(row, score)| Candidate { score, row: *row }).collect();
                        scored.sort_by(|a, b| b.cmp(a));
                        let found =
                            rank_bounded(&matrix, &codes, (&query, &by_codes), &scored, k, &never).unwrap();
                        assert_eq!(found, expected, "dim {dim}, case {at}, one of {part}, k {k}, {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn allowed_rows_beyond_the_matrix_are_left_out() {
        let (matrix, never) = (matrix(500, 8, 1.0, |_| 1.0), CancelToken::never());
        let codes = Quantized::of(&matrix);
        for (from, to) in [(0, 500), (0, 501), (0, 2000), (497, 2000), (500, 2000), (1999, 2000)] {
            let (mut more, mut within) = (RowSet::none(2000), RowSet::none(500));
            more.insert_range(from..to);
            within.insert_range(from..to);
            for k in [1, 5, 500, 3000] {
                let search = |allowed: &RowSet| {
                    search_allowed(&matrix, &codes, &[1.0; 8], allowed, k, &never).unwrap()
                };
                assert_eq!(search(&more), search(&within), "{from}..{to}, k {k}");
                assert_eq!(search(&more).len(), k.min(within.len()), "{from}..{to}, k {k}");
            }
        }
    }

    #[test]
    fn codes_bound_each_score_from_above_and_leave_most_rows_out() {
        let (matrix, dim) = (matrix(4000, 256, 1.0, |_| 1.0), 256);
        let codes = Quantized::of(&matrix);
        let mut random = SplitMix::new(3);
        let query: Vec<f32> = (0..dim).map(|_| random.normal() as f32).collect();
        let rows: Vec<u32> = (0..4000).collect();
        let (mut bounds, mut bounded) = (codes.bounds(&query, matrix.rounding(&query)), Vec::new());
        codes.bounds_at(&mut bounds, &rows, |_, bound| bounded.push(bound));
        let mut scores = Vec::new();
        matrix.scores_at(&query, &rows, &mut scores);
        assert!(bounded.iter().zip(&scores).all(|(bound, score)| *bound >= f64::from(*score)));
        let mut best = scores.clone();
        best.sort_by(|a, b| b.total_cmp(a));
        let open = bounded.iter().filter(|bound| **bound >= f64::from(best[19])).count();
        assert!((20..400).contains(&open), "{open} of 4,000");
        let (mut by_codes, mut scored) = (GraphQuery::of(&query), Vec::new());
        codes.scores_at(&mut by_codes, &rows, &mut scored);
        let error = codes.error_of(&by_codes, &query, matrix.rounding(&query));
        for (row, bound) in bounded.iter().enumerate() {
            let of_score = codes.bound(error, row as u32, scored[row]);
            assert!(of_score >= *bound && of_score - bound < 1e-4, "{of_score} {bound}");
        }
    }

    #[test]
    fn a_search_that_is_cancelled_scores_nothing() {
        let matrix = matrix(500, 8, 1.0, |_| 1.0);
        let (codes, cancel) = (Quantized::of(&matrix), CancelToken::new());
        cancel.cancel();
        let found = search_allowed(&matrix, &codes, &[1.0; 8], &RowSet::all(500), 5, &cancel);
        assert_eq!(found, Err(Stopped::Cancelled));
    }
}
