//! The trait of quantized codes, by which a search chooses rows to score, and the memory that holds them.

use std::ops::Range;

use bytemuck::Pod;
use dpr_files::Mapped;

/// Rows kept beyond `k` where what chooses them is rounded otherwise than scores are.
pub(super) const SPARE: usize = 16;

/// Returns the number of rows that are chosen by their quantized vectors and scored again, for a search for `k`.
pub(super) fn rescored(k: usize) -> usize {
    2 * k + SPARE
}

/// Vectors in fewer bits, by which an exact search chooses rows to score.
pub(super) trait Codes: Sync {
    /// A question in the form that rows are scored by.
    type Query: Clone + Default + Send + Sync;

    /// Prepares a question.
    fn query(&self, question: &[f32]) -> Self::Query;

    /// Fills `scores` with the scores of the rows from `start` on, which only compare rows.
    fn scores(&self, query: &mut Self::Query, start: usize, scores: &mut [f32]);

    /// Returns the number of rows that are chosen and scored again, for a search for `k`.
    fn rescored(&self, k: usize) -> usize {
        rescored(k)
    }
}

/// The memory of the numbers.
#[derive(Debug)]
pub(super) enum Values<C> {
    Owned(Vec<C>),
    /// A file, and the bytes of the numbers in it, which begin at a multiple of a number's size.
    Mapped(Mapped, Range<usize>),
}

impl<C: Pod> Values<C> {
    pub(super) fn as_slice(&self) -> &[C] {
        match self {
            Self::Owned(values) => values,
            Self::Mapped(file, bytes) => bytemuck::cast_slice(&file.bytes()[bytes.clone()]),
        }
    }
}
