//! The vectors of an index a second time in eight bits, to choose rows by.

use dpr_core::kernel::codes::{
    code_product, code_products, code_products_at, quantize_question, quantize_row,
};
use rayon::prelude::*;

use super::Matrix;

/// Vectors `[count, dim]` as `i8` numbers with a scale each. They are made of the vectors whenever an index is opened:
/// no file holds them.
#[derive(Debug)]
pub(super) struct Codes {
    values: Vec<i8>,
    scales: Vec<f32>,
    dim: usize,
}

/// A question, or a row that asks for its neighbours, as codes are scored by it.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    values: Vec<i16>,
    scale: f32,
    sums: Vec<i32>,
}

impl Codes {
    pub(super) fn of(matrix: &Matrix) -> Self {
        let (dim, count) = (matrix.dim(), matrix.count());
        let (mut values, mut scales) = (vec![0; count * dim], vec![0.0; count]);
        let rows = values.par_chunks_mut(dim).zip(matrix.as_slice().par_chunks(dim)).zip(&mut scales);
        rows.with_min_len(64).for_each(|((codes, row), scale)| *scale = quantize_row(row, codes));
        Self { values, scales, dim }
    }

    pub(super) fn count(&self) -> usize {
        self.scales.len()
    }

    fn row(&self, row: u32) -> &[i8] {
        &self.values[row as usize * self.dim..][..self.dim]
    }

    /// A question. Its length is left out of its scores, which serve to compare rows, so that none is too small for that.
    pub(super) fn ask(&self, question: &[f32]) -> Asked {
        let mut asked = Asked { scale: 1.0, ..Asked::default() };
        quantize_question(question, &mut asked.values);
        asked
    }

    /// Makes `asked` a row.
    pub(super) fn ask_as(&self, row: u32, asked: &mut Asked) {
        asked.values.clear();
        asked.values.extend(self.row(row).iter().map(|code| i16::from(*code)));
        asked.scale = self.scales[row as usize];
    }

    /// The scores of the rows from `start` on, as many as there are places.
    pub(super) fn scores(&self, asked: &mut Asked, start: usize, scores: &mut [f32]) {
        asked.sums.resize(scores.len(), 0);
        let rows = &self.values[start * self.dim..][..scores.len() * self.dim];
        code_products(&asked.values, rows, &mut asked.sums);
        for ((score, sum), scale) in scores.iter_mut().zip(&asked.sums).zip(&self.scales[start..]) {
            *score = *sum as f32 * (asked.scale * scale);
        }
    }

    /// The scores of the rows that are named, in place of what is in `scores`.
    pub(super) fn scores_at(&self, asked: &mut Asked, rows: &[u32], scores: &mut Vec<f32>) {
        code_products_at(&asked.values, &self.values, rows, &mut asked.sums);
        scores.clear();
        let scaled = rows.iter().zip(&asked.sums);
        scores.extend(scaled.map(|(row, sum)| *sum as f32 * (asked.scale * self.scales[*row as usize])));
    }

    /// The inner product of two rows.
    pub(super) fn product(&self, a: u32, b: u32) -> f32 {
        let scale = self.scales[a as usize] * self.scales[b as usize];
        code_product(self.row(a), self.row(b)) as f32 * scale
    }
}
