//! The weights of terms: BM25 and TF-IDF.

use super::{SparseError, error};

/// The formula by which passages are ranked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scoring {
    /// `sum over terms of idf * tf / (tf + k1 * (1 - b + b * length / mean length))` with
    /// `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`, as Lucene since version 8. The length of a passage is the
    /// number of its terms, title included.
    Bm25 {
        /// Saturation of the term frequency: how soon repeating a term stops to count, from 0, which ignores
        /// repetition, to [`Scoring::MAX_K1`].
        k1: f32,
        /// Length normalization: how much a passage's length lowers its score, from 0 (not at all) to 1.
        b: f32,
    },
    /// Cosine of the vectors of `tf * idf` with `idf = ln((1 + N) / (1 + df)) + 1`, scikit-learn's default.
    TfIdf,
}

impl Scoring {
    /// BM25 with the constants of the DPR paper (§5): `k1 = 0.9`, `b = 0.4`.
    pub const PAPER: Self = Self::Bm25 { k1: 0.9, b: 0.4 };

    /// The greatest `k1`. Scores fall as it grows, and a passage whose score is below the least normal number of f32,
    /// about 1e-38, is not found: up to this `k1` every passage that shares a term with the question is.
    pub const MAX_K1: f32 = error::MAX_K1;

    /// Refuses constants that make no sense.
    pub(super) fn check(self) -> Result<(), SparseError> {
        match self {
            Self::Bm25 { k1, b } if !((0.0..=Self::MAX_K1).contains(&k1) && (0.0..=1.0).contains(&b)) => {
                Err(SparseError::Parameters { k1, b })
            }
            _ => Ok(()),
        }
    }

    /// Weight of a term that `frequency` of `count` passages hold.
    pub(super) fn idf(self, count: usize, frequency: usize) -> f64 {
        let (count, frequency) = (count as f64, frequency as f64);
        match self {
            Self::Bm25 { .. } => (1.0 + (count - frequency + 0.5) / (frequency + 0.5)).ln(),
            Self::TfIdf => tfidf_idf(count, frequency),
        }
    }
}

/// The `idf` of [`Scoring::TfIdf`].
pub(super) fn tfidf_idf(count: f64, frequency: f64) -> f64 {
    ((1.0 + count) / (1.0 + frequency)).ln() + 1.0
}
