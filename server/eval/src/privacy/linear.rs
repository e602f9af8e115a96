//! Linear algebra of the attackers: products of matrices on all threads, and ridge regression.

use dpr_core::kernel::search::batch::QueryBatch;
use nalgebra::DMatrix;
use rayon::prelude::*;

use super::PrivacyError;

/// Rows of a product that a thread takes at a time.
const ROWS: usize = 64;

/// Returns the inner products of the rows of `a` `[m, width]` with those of `b` `[n, width]`, `[m, n]`.
pub(super) fn products(a: &[f32], b: &[f32], width: usize) -> Vec<f32> {
    let width = width.max(1);
    let (m, n) = (a.len() / width, b.len() / width);
    let mut sums = vec![0f32; m * n];
    if m == 0 || n == 0 {
        return sums;
    }
    sums.par_chunks_mut(ROWS * n).zip(a.par_chunks(ROWS * width)).for_each(|(sums, a)| {
        QueryBatch::new(a.chunks_exact(width), width).products(b, sums);
    });
    sums
}

/// Returns the transpose of `matrix` `[rows, width]`, `[width, rows]`.
pub(super) fn transposed(matrix: &[f32], width: usize) -> Vec<f32> {
    let rows = matrix.len() / width.max(1);
    let mut out = vec![0f32; matrix.len()];
    if rows == 0 {
        return out;
    }
    out.par_chunks_mut(rows).enumerate().for_each(|(column, out)| {
        out.iter_mut().zip(matrix[column..].iter().step_by(width)).for_each(|(to, from)| *to = *from);
    });
    out
}

/// Views `[rows, width]`, one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Views {
    /// All numbers.
    pub(super) numbers: Vec<f32>,
    /// Numbers in a view.
    pub(super) width: usize,
}

impl Views {
    /// Makes views of rows that have one length.
    pub fn of(rows: Vec<Vec<f32>>) -> Self {
        let width = rows.first().map_or(0, Vec::len);
        Self { numbers: rows.concat(), width }
    }

    /// Returns the rows, each `[width]`.
    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.width.max(1))
    }

    /// Returns the rows with a 1 after each, for equations with a constant, `[rows, width + 1]`.
    fn with_ones(&self) -> Vec<f32> {
        self.rows().flat_map(|row| row.iter().copied().chain([1.0])).collect()
    }
}

/// Ridge regression from views to columns that are 0 or 1: all that does not depend on what is regressed on.
pub(super) struct Ridge {
    /// `[rows, width + 1]`.
    rows: Vec<f32>,
    /// `[width + 1, width + 1]`.
    gram: Vec<f32>,
    width: usize,
}

impl Ridge {
    /// Takes the views to train on.
    pub(super) fn new(views: &Views) -> Self {
        let (rows, width) = (views.with_ones(), views.width + 1);
        let columns = transposed(&rows, width);
        let gram = products(&columns, &columns, rows.len() / width);
        Self { rows, gram, width }
    }

    /// Returns the weights `[columns, width + 1]` with the penalty `lambda`; `labels` are the columns that are 1 in
    /// each row.
    pub(super) fn fit(
        &self,
        labels: &[Vec<usize>],
        columns: usize,
        lambda: f64,
    ) -> Result<Vec<f32>, PrivacyError> {
        let width = self.width;
        let mut sums = vec![0f32; columns * width];
        for (row, labels) in self.rows.chunks_exact(width).zip(labels) {
            for label in labels {
                let sum = &mut sums[label * width..][..width];
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
        let mut gram = DMatrix::from_iterator(width, width, self.gram.iter().map(|value| f64::from(*value)));
        (0..width).for_each(|at| gram[(at, at)] += lambda);
        let inverse = gram.cholesky().ok_or(PrivacyError::Singular { width: width - 1 })?.inverse();
        // Symmetric: rows are columns.
        let inverse: Vec<f32> = inverse.iter().map(|value| *value as f32).collect();
        if inverse.iter().any(|value| !value.is_finite()) {
            return Err(PrivacyError::Singular { width: width - 1 });
        }
        Ok(products(&sums, &inverse, width))
    }
}

/// Returns what `weights` `[columns, width + 1]` make of views, `[rows, columns]`.
pub(super) fn predict(weights: &[f32], views: &Views) -> Vec<f32> {
    products(&views.with_ones(), weights, views.width + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_transposes_are_those_of_matrices() {
        let a: Vec<f32> = (0..70 * 3).map(|at| at as f32).collect();
        let b = [1.0, 0.0, 2.0, 0.0, 1.0, 0.0];
        let sums = products(&a, &b, 3);
        assert_eq!(
            (sums.len(), &sums[..2], &sums[138..]),
            (140, &[4.0, 1.0][..], &[207.0 + 2.0 * 209.0, 208.0][..])
        );
        assert_eq!(transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(products(&[], &b, 3).is_empty() && transposed(&[], 3).is_empty());
    }

    /// From numpy: X = [[0,1],[1,0],[2,1],[1,3]], Y = [[1,0],[0,1],[0,1],[1,1]], A = [X 1],
    /// solve(A.T @ A + 0.5 * eye(3), A.T @ Y).
    #[test]
    fn ridge_is_that_of_the_reference() {
        let views = Views { numbers: vec![0.0, 1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 3.0], width: 2 };
        let labels = [vec![0], vec![1], vec![1], vec![0, 1]];
        let weights = Ridge::new(&views).fit(&labels, 2, 0.5).unwrap();
        assert!(weights.iter().zip(RIDGE).all(|(a, b)| (a - b).abs() < 1e-5), "{weights:?}");
        let same = Views { numbers: vec![f32::NAN; 8], width: 2 };
        assert!(matches!(Ridge::new(&same).fit(&labels, 2, 0.5), Err(PrivacyError::Singular { width: 2 })));
    }

    const RIDGE: [f32; 6] =
        [-0.326_332_8, 0.329_563_8, 0.368_336_03, 0.439_418_4, 0.071_082_39, 0.197_092_08];
}
