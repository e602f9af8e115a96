//! The vectors of an index, in memory.

use dpr_core::Embedding;
use dpr_core::kernel::search::f32::{inner_products, inner_products_at};
use rayon::prelude::*;

use super::{IndexError, ScoredRow};
use crate::ranking::{Candidate, Top};
use dpr_files::Mapped;

/// Rows worth a thread's while.
const MIN_ROWS: usize = 256;

/// Rows whose scores are kept at a time.
const GROUP: usize = 64;

/// Vectors `[count, dim]`, all finite, and short enough that no inner product of two of them overflows.
#[derive(Debug)]
pub struct Matrix {
    rows: Rows,
    count: usize,
    dim: usize,
    phi: f64,
}

/// Where vectors are.
#[derive(Debug)]
enum Rows {
    Owned(Vec<f32>),
    /// A file of as many whole numbers.
    Mapped(Mapped),
}

impl Rows {
    fn as_slice(&self) -> &[f32] {
        match self {
            Self::Owned(rows) => rows,
            Self::Mapped(file) => file.numbers().unwrap_or_default(),
        }
    }
}

impl Matrix {
    /// Takes `rows` as `[count, dim]`; `id_of` names a row for errors.
    ///
    /// # Errors
    /// [`IndexError`] for no rows, another number of numbers, one that is not finite, or vectors too long.
    pub fn new<I: Into<String>>(
        rows: Vec<f32>,
        count: usize,
        dim: usize,
        id_of: impl Fn(usize) -> I,
    ) -> Result<Self, IndexError> {
        Self::of(Rows::Owned(rows), count, dim, id_of)
    }

    /// As [`Matrix::new`], of a file of little-endian numbers: what is not looked at need not be in memory.
    pub(super) fn of_file<I: Into<String>>(
        file: Mapped,
        count: usize,
        dim: usize,
        id_of: impl Fn(usize) -> I,
    ) -> Result<Self, IndexError> {
        Self::of(Rows::Mapped(file), count, dim, id_of)
    }

    fn of<I: Into<String>>(
        rows: Rows,
        count: usize,
        dim: usize,
        id_of: impl Fn(usize) -> I,
    ) -> Result<Self, IndexError> {
        check_shape(rows.as_slice(), count, dim)?;
        let (values, phi) = (rows.as_slice(), greatest_norm(rows.as_slice(), dim));
        if !phi.is_finite() {
            for (row, vector) in values.chunks_exact(dim).enumerate() {
                if let Some(position) = vector.iter().position(|value| !value.is_finite()) {
                    return Err(IndexError::NotFinite { row, id: id_of(row).into(), position });
                }
            }
        }
        check_norm(phi)?;
        Ok(Self { rows, count, dim, phi })
    }

    /// As [`Matrix::of_file`], of numbers that were seen to be finite, and whose greatest squared norm is known.
    pub(super) fn of_checked(file: Mapped, count: usize, dim: usize, phi: f64) -> Result<Self, IndexError> {
        let rows = Rows::Mapped(file);
        check_shape(rows.as_slice(), count, dim)?;
        check_norm(phi)?;
        Ok(Self { rows, count, dim, phi })
    }

    /// Computes the greatest squared norm of a row again; NaN or infinity where a number is.
    pub(super) fn measure_phi(&self) -> f64 {
        greatest_norm(self.as_slice(), self.dim)
    }

    /// Numbers in a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of vectors.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The greatest squared norm of a row.
    pub fn phi(&self) -> f64 {
        self.phi
    }

    /// One vector, `[dim]`.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.as_slice()[row * self.dim..][..self.dim]
    }

    /// All vectors, `[count * dim]`.
    pub fn as_slice(&self) -> &[f32] {
        self.rows.as_slice()
    }

    /// The scores of the rows from `start` on, as many as there are places.
    pub(super) fn scores(&self, query: &[f32], start: usize, scores: &mut [f32]) {
        let rows = &self.as_slice()[start * self.dim..][..scores.len() * self.dim];
        inner_products(query, rows, scores);
    }

    /// The scores of the rows that are named, in place of what is in `scores`.
    pub(super) fn scores_at(&self, query: &[f32], rows: &[u32], scores: &mut Vec<f32>) {
        inner_products_at(query, self.as_slice(), rows, scores);
    }

    /// The best `k` of the rows that are named, by their exact scores.
    pub(super) fn rank(&self, query: &[f32], rows: &[u32], k: usize) -> Vec<ScoredRow> {
        let (mut top, mut scores) = (Top::new(k), Vec::new());
        for rows in rows.chunks(GROUP) {
            self.scores_at(query, rows, &mut scores);
            for (row, score) in rows.iter().zip(&scores) {
                top.offer(Candidate { score: *score, row: *row });
            }
        }
        top.into_rows(k)
    }

    /// The most that a sum of a row's and `query`'s products changes with its order, twice over.
    pub(super) fn rounding(&self, query: &[f32]) -> f32 {
        (self.dim as f64 * f64::from(f32::EPSILON) * self.greatest_product(query)) as f32
    }

    /// The greatest inner product that a row can have with `query` (Cauchy and Schwarz).
    pub(super) fn greatest_product(&self, query: &[f32]) -> f64 {
        (squared_norm(query) * self.phi).sqrt()
    }

    /// Refuses a query that cannot be searched, and returns how many rows to give.
    pub(super) fn check(&self, query: &Embedding, k: usize) -> Result<usize, IndexError> {
        let got = query.as_slice().len();
        if got != self.dim {
            return Err(IndexError::Dimension { got, expected: self.dim });
        }
        if k == 0 {
            return Err(IndexError::K);
        }
        // |q . p| <= |q| |p|, and so is every partial sum.
        let norm = squared_norm(query.as_slice()).sqrt();
        if norm * self.phi.sqrt() > f64::from(f32::MAX) / 8.0 {
            return Err(IndexError::Overflow { what: "the query", norm });
        }
        Ok(k.min(self.count()))
    }
}

fn check_shape(values: &[f32], count: usize, dim: usize) -> Result<(), IndexError> {
    if count == 0 {
        return Err(IndexError::Empty);
    }
    if dim == 0 || count.checked_mul(dim) != Some(values.len()) {
        return Err(IndexError::Shape { numbers: values.len(), count, dim });
    }
    Ok(())
}

/// Squared distances reach 4 phi in the graph; a factor more leaves room for rounding.
fn check_norm(phi: f64) -> Result<(), IndexError> {
    if phi > f64::from(f32::MAX) / 8.0 {
        return Err(IndexError::Overflow { what: "a passage's vector", norm: phi.sqrt() });
    }
    Ok(())
}

/// The greatest squared norm of a row. What is not finite makes one that is not.
fn greatest_norm(values: &[f32], dim: usize) -> f64 {
    values
        .par_chunks(dim)
        .with_min_len(MIN_ROWS)
        .map(squared_norm)
        .reduce(|| 0.0, |a, b| if a > b || a.is_nan() { a } else { b })
}

/// Squared length in f64, where it cannot overflow.
pub(super) fn squared_norm(vector: &[f32]) -> f64 {
    vector.iter().map(|value| f64::from(*value) * f64::from(*value)).sum()
}
