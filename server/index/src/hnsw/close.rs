//! Whether 4-bit codes lead through a graph as well as 8-bit codes do, by searching it with both.

use std::sync::Arc;

use super::super::nibbles::Nibbles;
use super::super::recall::sample;
use super::{CancelToken, HnswIndex, ScoredRow};

/// Rows that the graph is searched for.
const ASKED: usize = 128;

/// Rows that a search finds.
const K: usize = 20;

/// The least share of what 8-bit codes find that 4-bit codes must find too.
const LEAST: f64 = 0.995;

impl HnswIndex {
    /// Makes 4-bit codes of the vectors, and returns them if they find what the quantized vectors find.
    ///
    /// This index has no 4-bit codes yet. It is asked with some of its rows; the same vectors give the same answer.
    pub(in super::super) fn close_nibbles(mut self) -> Option<Arc<Nibbles>> {
        let expected = self.found_of_rows();
        let nibbles = Arc::new(Nibbles::of(&self.matrix));
        self.nibbles = Some(Arc::clone(&nibbles));
        let found = self.found_of_rows();
        (share(&found, &expected) >= LEAST).then_some(nibbles)
    }

    /// Searches the graph for some of the rows.
    fn found_of_rows(&self) -> Vec<Vec<ScoredRow>> {
        let (k, never) = (K.min(self.matrix.count()), CancelToken::never());
        let found = |query: &[f32]| self.find(query, k, self.ef(k), None, &never).ok().flatten();
        let asked = sample(&self.matrix, ASKED);
        asked.iter().map(|query| found(query.as_slice()).unwrap_or_default()).collect()
    }
}

/// Returns the share of the expected rows that were found; a row that scores as high as the last one counts.
fn share(found: &[Vec<ScoredRow>], expected: &[Vec<ScoredRow>]) -> f64 {
    let (mut hits, mut all) = (0, 0);
    for (found, expected) in found.iter().zip(expected) {
        let Some(last) = expected.last() else { continue };
        hits += found.iter().filter(|row| row.score >= last.score).count().min(expected.len());
        all += expected.len();
    }
    if all == 0 { 1.0 } else { f64::from(hits as u32) / f64::from(all as u32) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::super::quantized::Quantized;
    use super::super::{HnswParams, Matrix, VectorIndex as _, build};
    use super::*;
    use dpr_core::Embedding;
    use dpr_core::random::SplitMix;
    use dpr_files::progress::Silent;

    fn graph(rows: Vec<f32>, dim: usize, ef_search: usize) -> HnswIndex {
        let count = rows.len() / dim;
        let matrix = Arc::new(Matrix::new(rows, count, dim, |row| row.to_string()).unwrap());
        let codes = Arc::new(Quantized::of(&matrix));
        let params = HnswParams { ef_search, ..HnswParams::default() };
        let graph = build(&matrix, &codes, params, &AtomicBool::new(false), &Silent).unwrap();
        HnswIndex::new(matrix, codes, None, graph, ef_search)
    }

    /// Returns the recall@10 of the graph's own search, whatever else would be quicker.
    fn recall(index: &HnswIndex, questions: &[Vec<f32>]) -> f64 {
        let found = |question: &Vec<f32>| {
            index.find(question, 10, index.ef(10), None, &CancelToken::never()).unwrap().unwrap()
        };
        let exact = |question: &Vec<f32>| {
            index.exact.search(&Embedding::new(question.clone(), question.len()).unwrap(), 10).unwrap()
        };
        let found: Vec<_> = questions.iter().map(found).collect();
        share(&found, &questions.iter().map(exact).collect::<Vec<_>>())
    }

    #[test]
    fn four_bits_lead_to_the_nearest_of_vectors_with_an_added_coordinate_as_eight_bits_do() {
        // Vectors of many lengths around a mean, and the coordinate by which inner products order them as distances.
        let (dim, count, weight) = (256, 3000, 24.0);
        let mut random = SplitMix::new(7);
        let mean: Vec<f64> = (0..dim).map(|_| random.normal()).collect();
        let mut point = || {
            let spread = 0.3 + 0.5 * random.normal().abs().min(2.0);
            mean.iter().map(|mean| (mean + spread * random.normal()) as f32).collect::<Vec<f32>>()
        };
        let rows = (0..count).flat_map(|_| {
            let mut row = point();
            row.push(-row.iter().map(|value| value * value).sum::<f32>() / (2.0 * weight));
            row
        });
        let rows: Vec<f32> = rows.collect();
        let questions: Vec<Vec<f32>> =
            (0..100).map(|_| point().into_iter().chain([weight]).collect()).collect();
        let eight = graph(rows.clone(), dim + 1, 160);
        let by_eight = recall(&eight, &questions);
        let four =
            HnswIndex { nibbles: Some(Arc::new(Nibbles::of(&eight.matrix))), ..graph(rows, dim + 1, 160) };
        let by_four = recall(&four, &questions);
        assert!(by_eight >= 0.98 && by_four >= by_eight - 0.005, "{by_four} {by_eight}");
    }

    #[test]
    fn four_bits_are_kept_where_they_find_the_rows_and_left_out_where_they_do_not() {
        let mut random = SplitMix::new(3);
        let normal: Vec<f32> = (0..3000 * 64).map(|_| random.normal() as f32).collect();
        let index = graph(normal, 64, 100);
        let expected = index.found_of_rows();
        assert_eq!(share(&expected, &expected), 1.0);
        assert!(index.close_nibbles().is_some());
        // Two groups far apart: beside the way from one to the other, nothing is left of what rows differ by.
        let apart = (0..3000 * 64).map(|at| {
            let far = if (at / 64) % 2 == 0 { 100.0 } else { -100.0 };
            random.normal() as f32 + if at % 3 == 0 { far } else { 0.0 }
        });
        assert!(graph(apart.collect(), 64, 100).close_nibbles().is_none());
    }
}
