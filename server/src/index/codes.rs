//! The vectors of an index a second time in eight bits, to choose rows by.

use std::io::{self, Write};

use dpr_core::kernel::codes::{
    code_product, code_products, code_products_at, quantize_question, quantize_row,
};
use rayon::prelude::*;

use super::Matrix;
use crate::mapped::Mapped;
use crate::vectors::rows;

/// Vectors `[count, dim]` as `i8` numbers with a scale each.
///
/// `codes.i8` holds the scales as little-endian f32, then the numbers. Formats before the third have no such file: then
/// they are made of the vectors when an index is opened.
#[derive(Debug)]
pub(super) struct Codes {
    values: Values,
    scales: Vec<f32>,
    dim: usize,
}

/// Where the numbers are.
#[derive(Debug)]
enum Values {
    Owned(Vec<i8>),
    /// A file, and where in it they begin.
    Mapped(Mapped, usize),
}

impl Values {
    fn as_slice(&self) -> &[i8] {
        match self {
            Self::Owned(values) => values,
            Self::Mapped(file, start) => bytemuck::cast_slice(&file.bytes()[*start..]),
        }
    }
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
        Self { values: Values::Owned(values), scales, dim }
    }

    /// Takes a file of the codes of `count` vectors of `dim` numbers. The error says what about it makes no sense.
    pub(super) fn of_file(file: Mapped, count: usize, dim: usize) -> Result<Self, String> {
        let (start, got) = (count * size_of::<f32>(), file.bytes().len());
        if count.checked_mul(dim).and_then(|numbers| numbers.checked_add(start)) != Some(got) {
            return Err(format!("{got} bytes are not those of {count} vectors of {dim} numbers"));
        }
        let scales = file.bytes()[..start].as_chunks().0.iter();
        let scales: Vec<f32> = scales.map(|scale| f32::from_le_bytes(*scale)).collect();
        match scales.iter().position(|scale| !scale.is_finite()) {
            Some(row) => Err(format!("the scale of row {row} is not finite")),
            None => Ok(Self { values: Values::Mapped(file, start), scales, dim }),
        }
    }

    /// Writes the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        rows::write(&self.scales, out)?;
        out.write_all(bytemuck::cast_slice(self.values.as_slice()))
    }

    /// Whether these are the codes of `matrix`.
    pub(super) fn are_of(&self, matrix: &Matrix) -> bool {
        let made = Self::of(matrix);
        made.scales == self.scales && made.values.as_slice() == self.values.as_slice()
    }

    pub(super) fn count(&self) -> usize {
        self.scales.len()
    }

    fn row(&self, row: u32) -> &[i8] {
        &self.values.as_slice()[row as usize * self.dim..][..self.dim]
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
        let rows = &self.values.as_slice()[start * self.dim..][..scores.len() * self.dim];
        code_products(&asked.values, rows, &mut asked.sums);
        for ((score, sum), scale) in scores.iter_mut().zip(&asked.sums).zip(&self.scales[start..]) {
            *score = *sum as f32 * (asked.scale * scale);
        }
    }

    /// The scores of the rows that are named, in place of what is in `scores`.
    pub(super) fn scores_at(&self, asked: &mut Asked, rows: &[u32], scores: &mut Vec<f32>) {
        code_products_at(&asked.values, self.values.as_slice(), rows, &mut asked.sums);
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
