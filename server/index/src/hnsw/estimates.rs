//! The choice between two ways of searching a graph: scoring every row that is met, or estimating its score by its
//! signs (RaBitQ) first and scoring only the best.

use super::graph::Graph;
use crate::Matrix;
use crate::binary::Binary;
use crate::quantized::{GraphQuery, Quantized};

/// Numbers of a vector from which estimates are worth their time: with 768 a search takes less at the same recall, with
/// 384, where codes are short and estimates further off, as much.
const LONG: usize = 512;

/// The greatest relative [`error`] with which estimates still order neighbours. Random vectors and groups far apart are
/// above it, and a search by estimates may find fewer of their best rows; mixtures of an encoder's vectors are below it.
const ORDERLY: f64 = 0.1;

/// Rows whose neighbours are looked at.
const SAMPLE: usize = 16;

/// Returns `true` if a search of this graph estimates scores first. It depends on the index alone, not on the question.
pub(super) fn are_used(graph: &Graph, matrix: &Matrix, codes: &Quantized, signs: &Binary) -> bool {
    matrix.dim() >= LONG && error(graph, matrix, codes, signs) < ORDERLY
}

/// Returns the mean squared error of the estimates of the nearer half of a row's neighbours, divided by the variance of
/// their scores, for questions that are rows of the graph; not a number where no scores differ. Links to far rows are
/// left out, which any estimate tells from near ones.
fn error(graph: &Graph, matrix: &Matrix, codes: &Quantized, signs: &Binary) -> f64 {
    let (mut errors, mut variance) = (0.0, 0.0);
    let (mut scores, mut estimates) = (Vec::new(), Vec::new());
    let sample = SAMPLE.min(matrix.count());
    for row in (0..sample).map(|at| at * matrix.count() / sample) {
        let (question, mut rows) = (matrix.row(row), graph.links(0, row as u32).to_vec());
        let mut query = GraphQuery::of(question);
        codes.scores_at(&mut query, &rows, &mut scores);
        signs.sign_query(question).estimate(&mut rows, f32::NEG_INFINITY, query.unit(), &mut estimates);
        let mut near: Vec<(f32, f32)> = scores.iter().copied().zip(estimates.iter().copied()).collect();
        near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(near.len().div_ceil(2));
        let mean = near.iter().map(|(score, _)| f64::from(*score)).sum::<f64>() / near.len() as f64;
        for (score, estimate) in near {
            errors += (f64::from(estimate) - f64::from(score)).powi(2);
            variance += (f64::from(score) - mean).powi(2);
        }
    }
    errors / variance
}
