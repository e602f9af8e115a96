//! Inner products of a batch of queries with many rows: a matrix product, in which a row that is read serves all
//! queries.
//!
//! Sums run in another order than in [`super::f32`]: use this module to choose rows, and `f32` to score them.

use super::super::gemm::{Panels, blocks, product};
use super::super::isa::{Isa, MAX_MR, best, vectorised};
use super::super::vector::Simd;

/// Queries `[count, dim]`, laid out for products.
#[derive(Debug)]
pub struct QueryBatch {
    panels: Panels,
    isa: Isa,
    dim: usize,
    /// Panels are of the narrower of the instruction set's two widths.
    is_narrow: bool,
}

impl QueryBatch {
    /// Takes queries of `dim` numbers each.
    pub fn new<'a>(queries: impl ExactSizeIterator<Item = &'a [f32]>, dim: usize) -> Self {
        let isa = best();
        let [wide, narrow] = vectorised!(isa, || -> [usize; 2] { [NR, NA] });
        // A panel costs its width, whatever part of it are queries: 64 of them are two narrow ones.
        let cost = |width: usize| queries.len().next_multiple_of(width);
        let is_narrow = cost(narrow) < cost(wide);
        let mut panels = Panels::new(queries.len(), dim, if is_narrow { narrow } else { wide });
        for (at, query) in queries.enumerate() {
            panels.set_rows(at, query);
        }
        Self { panels, isa, dim, is_narrow }
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.panels.n()
    }

    /// Returns whether the batch has no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Computes the inner products with `rows` `[any, dim]` into `scores` `[queries, any]`.
    ///
    /// # Panics
    /// When `scores` is too short.
    pub fn products(&self, rows: &[f32], scores: &mut [f32]) {
        if rows.is_empty() || self.is_empty() {
            return;
        }
        let queries = self;
        vectorised!(self.isa, |queries: &QueryBatch, rows: &[f32], scores: &mut [f32]| {
            match queries.is_narrow {
                true => panel_products::<S, NA, MR>(queries, rows, scores),
                false => panel_products::<S, NR, MR>(queries, rows, scores),
            }
        });
    }
}

#[inline(always)]
fn panel_products<S: Simd, const NR: usize, const MR: usize>(
    queries: &QueryBatch,
    rows: &[f32],
    scores: &mut [f32],
) {
    let (dim, count) = (queries.dim, rows.len() / queries.dim);
    let mut sums = [[0f32; NR]; MAX_MR];
    for (at, panel) in queries.panels.iter::<NR>().enumerate() {
        let width = NR.min(queries.len() - at * NR);
        for (first, block) in blocks::<MR>(count) {
            product::<S, NR, MR>(&rows[first * dim..], dim, block, panel, &mut sums);
            for column in 0..width {
                let to = &mut scores[(at * NR + column) * count + first..][..block];
                for (score, sums) in to.iter_mut().zip(&sums) {
                    *score = sums[column];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::f32::inner_product;
    use super::*;

    #[test]
    fn each_product_is_that_of_its_question_and_its_row() {
        for (queries, rows, dim) in [(1, 1, 3), (2, 7, 64), (49, 9, 100), (64, 33, 96), (100, 33, 768)] {
            let vectors = |count: usize, step: f32| -> Vec<f32> {
                (0..count * dim).map(|i| (i as f32 * step).sin()).collect()
            };
            let (given, held) = (vectors(queries, 0.37), vectors(rows, 0.11));
            let mut scores = vec![f32::NAN; queries * rows];
            QueryBatch::new(given.chunks(dim), dim).products(&held, &mut scores);
            for (at, score) in scores.iter().enumerate() {
                let (query, row) = (&given[at / rows * dim..][..dim], &held[at % rows * dim..][..dim]);
                let expected = inner_product(query, row);
                assert!((score - expected).abs() < 1e-3, "{queries} {rows} {dim} {at}: {score} {expected}");
            }
        }
    }
}
