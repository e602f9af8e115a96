//! The matrix of an index's vectors: checked once, then searched.

use std::sync::atomic::AtomicBool;

use dpr_core::Embedding;
use dpr_core::kernel::search::f32::{inner_products, inner_products_at};
use rayon::prelude::*;

use super::Rows;
use crate::ranking::{Candidate, TopK};
use crate::sums::product;
use crate::{CancelToken, MatrixError, QueryError, ScoredRow, Stopped};

/// Rows below which a piece of work is not split over threads.
const MIN_ROWS: usize = 256;

/// Rows that are scored before their scores are looked at.
pub(crate) const GROUP: usize = 64;

/// Rows that are scored between two looks at whether to stop.
pub(crate) const LOOK_ROWS: usize = 16 * GROUP;

/// Vectors `[count, dim]`, all finite, and short enough that no inner product of two of them overflows.
///
/// In an index that [`open_unchecked`](crate::IndexReader::open_unchecked) opened, a vector's checksum is verified when
/// the vector is first read. A wrong one is recorded, and every search of the index fails from then on.
#[derive(Debug)]
pub struct Matrix {
    rows: Rows,
    count: usize,
    dim: usize,
    max_squared_norm: f64,
}

impl Matrix {
    /// Checks `rows`, `[count, dim]`; `id_of` gives the id of a row for errors.
    ///
    /// # Errors
    /// [`MatrixError`] for no rows, another number of numbers, one that is not finite, or vectors too long.
    pub fn new<I: Into<String>>(
        rows: impl Into<Rows>,
        count: usize,
        dim: usize,
        id_of: impl Fn(usize) -> I,
    ) -> Result<Self, MatrixError> {
        let rows = rows.into();
        check_shape(&rows, count, dim)?;
        let max_squared_norm = greatest_norm(&rows, dim);
        if !max_squared_norm.is_finite() {
            for (row, vector) in rows.chunks_exact(dim).enumerate() {
                if let Some(position) = vector.iter().position(|value| !value.is_finite()) {
                    return Err(MatrixError::NotFinite { row, id: id_of(row).into(), position });
                }
            }
        }
        if overflow(max_squared_norm).is_some() {
            for (row, vector) in rows.chunks_exact(dim).enumerate() {
                if let Some((norm, max)) = overflow(squared_norm(vector)) {
                    return Err(MatrixError::Overflow { id: id_of(row).into(), norm, max });
                }
            }
        }
        Ok(Self { rows, count, dim, max_squared_norm })
    }

    /// As [`Matrix::new`], of numbers that were seen to be finite, and whose greatest squared norm is known and
    /// [may be that of a vector](is_squared_norm).
    pub(crate) fn of_checked(
        rows: Rows,
        count: usize,
        dim: usize,
        max_squared_norm: f64,
    ) -> Result<Self, MatrixError> {
        check_shape(&rows, count, dim)?;
        Ok(Self { rows, count, dim, max_squared_norm })
    }

    /// Computes the greatest squared norm of a row again; NaN or infinity where a number is.
    pub(crate) fn measure_max_squared_norm(&self) -> f64 {
        greatest_norm(self.rows(), self.dim)
    }

    /// Returns the numbers in a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of vectors.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the greatest squared norm of a row: `phi` of Bachrach et al. 2014, by which a graph is built.
    pub fn max_squared_norm(&self) -> f64 {
        self.max_squared_norm
    }

    /// Returns one vector, `[dim]`.
    pub fn row(&self, row: usize) -> &[f32] {
        self.rows_from(row, 1)
    }

    /// Returns all vectors, `[count * dim]`.
    pub fn as_slice(&self) -> &[f32] {
        self.rows.check_all();
        &self.rows
    }

    /// Returns all vectors as shared rows.
    pub(crate) fn rows(&self) -> &Rows {
        self.rows.check_all();
        &self.rows
    }

    /// Returns `count` vectors from row `start` on, `[count * dim]`.
    pub(crate) fn rows_from(&self, start: usize, count: usize) -> &[f32] {
        let numbers = start * self.dim..(start + count) * self.dim;
        self.rows.check(numbers.clone());
        &self.rows[numbers]
    }

    /// Checks the vectors on this thread, where that was put off, until `is_stopped`.
    pub(crate) fn check_until(&self, is_stopped: &AtomicBool) {
        self.rows.check_until(is_stopped);
    }

    /// Computes the squared norm of each row.
    pub(crate) fn squared_norms(&self) -> Vec<f64> {
        squared_norms(self.rows(), self.dim)
    }

    /// Fills `scores` with the scores of the rows from `start` on.
    pub(crate) fn scores(&self, query: &[f32], start: usize, scores: &mut [f32]) {
        inner_products(query, self.rows_from(start, scores.len()), scores);
    }

    /// Replaces `scores` by the scores of these rows.
    pub(crate) fn scores_at(&self, query: &[f32], rows: &[u32], scores: &mut Vec<f32>) {
        for row in rows {
            let start = *row as usize * self.dim;
            self.rows.check(start..start + self.dim);
        }
        inner_products_at(query, &self.rows, rows, scores);
    }

    /// Returns the best `k` of these rows by their exact scores.
    pub(crate) fn rank(
        &self,
        query: &[f32],
        rows: &[u32],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, Stopped> {
        let mut top = TopK::new(k);
        self.offer(query, rows, &mut top, cancel)?;
        Ok(top.into_rows(k))
    }

    /// Offers these rows with their exact scores.
    pub(crate) fn offer(
        &self,
        query: &[f32],
        rows: &[u32],
        top: &mut TopK,
        cancel: &CancelToken,
    ) -> Result<(), Stopped> {
        let mut scores = Vec::new();
        for rows in rows.chunks(LOOK_ROWS) {
            cancel.check()?;
            for rows in rows.chunks(GROUP) {
                self.scores_at(query, rows, &mut scores);
                for (row, score) in rows.iter().zip(&scores) {
                    top.offer(Candidate { score: *score, row: *row });
                }
            }
        }
        Ok(())
    }

    /// Returns twice the most that the sum of a row's and `query`'s products changes with the order of adding.
    pub(crate) fn rounding(&self, query: &[f32]) -> f32 {
        (self.dim as f64 * f64::from(f32::EPSILON) * self.greatest_product(query)) as f32
    }

    /// Returns a bound on the inner product of a row and `query` (Cauchy and Schwarz).
    pub(crate) fn greatest_product(&self, query: &[f32]) -> f64 {
        (product(query, query) * self.max_squared_norm).sqrt()
    }

    /// Refuses a query that cannot be searched, and returns the number of rows to find.
    pub(crate) fn check(&self, query: &Embedding, k: usize) -> Result<usize, QueryError> {
        let got = query.as_slice().len();
        if got != self.dim {
            return Err(QueryError::Dimension { got, expected: self.dim });
        }
        if k == 0 {
            return Err(QueryError::K);
        }
        // |q . p| <= |q| |p|, and so is every partial sum.
        let norm = product(query.as_slice(), query.as_slice()).sqrt();
        if norm * self.max_squared_norm.sqrt() > f64::from(f32::MAX) / 8.0 {
            return Err(QueryError::Overflow { norm });
        }
        Ok(k.min(self.count()))
    }
}

fn check_shape(values: &[f32], count: usize, dim: usize) -> Result<(), MatrixError> {
    if count == 0 {
        return Err(MatrixError::Empty);
    }
    if dim == 0 || count.checked_mul(dim) != Some(values.len()) {
        return Err(MatrixError::Shape { numbers: values.len(), count, dim });
    }
    Ok(())
}

/// The greatest squared norm of a vector. By a greater one f32 overflows: squared distances in the graph reach four
/// times the greatest squared norm, and twice that leaves room for rounding.
const MAX_SQUARED_NORM: f64 = f32::MAX as f64 / 8.0;

/// Returns the norm of a vector and the greatest that one may have, where inner products of it overflow f32.
pub(crate) fn overflow(squared_norm: f64) -> Option<(f64, f64)> {
    (squared_norm > MAX_SQUARED_NORM).then(|| (squared_norm.sqrt(), MAX_SQUARED_NORM.sqrt()))
}

/// Returns `true` for a number that may be the squared norm of an index's vector.
pub(crate) fn is_squared_norm(number: f64) -> bool {
    (0.0..=MAX_SQUARED_NORM).contains(&number)
}

/// Computes the greatest squared norm of a row; it is not finite where a number is not.
fn greatest_norm(rows: &Rows, dim: usize) -> f64 {
    squared_norms(rows, dim).into_iter().fold(0.0, |a, b| if a > b || a.is_nan() { a } else { b })
}

/// Computes the squared norm of each row.
fn squared_norms(rows: &Rows, dim: usize) -> Vec<f64> {
    let mut norms = vec![0.0; rows.len() / dim.max(1)];
    rows.for_each_block(dim, |start, block| {
        let rows = block.par_chunks_exact(dim).with_min_len(MIN_ROWS);
        rows.zip(&mut norms[start..]).for_each(|(row, norm)| *norm = squared_norm(row));
    });
    norms
}

/// Computes the squared norm of a vector in f64, where it cannot overflow.
pub(crate) fn squared_norm(vector: &[f32]) -> f64 {
    vector.iter().map(|value| f64::from(*value) * f64::from(*value)).sum()
}
