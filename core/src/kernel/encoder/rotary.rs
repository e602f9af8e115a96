//! Rotary positions: queries and keys turned by angles that grow with the position.

use super::super::isa::{Isa, vectorised};
use crate::rotary::angles;

/// Positions whose angles are kept; longer texts have theirs computed anew.
const KEPT: usize = 512;

/// Angles of one base.
#[derive(Debug)]
pub(super) struct Rotary {
    theta: f64,
    /// Width of a head.
    width: usize,
    /// Cosines and sines, `[positions, width / 2]` each.
    angles: (Vec<f32>, Vec<f32>),
}

impl Rotary {
    /// Prepares the angles of heads of `width` numbers, for texts of up to `limit` tokens.
    pub(super) fn new(theta: f64, width: usize, limit: usize) -> Self {
        Self { theta, width, angles: angles(theta, width, limit.min(KEPT)) }
    }

    /// Turns the queries and keys of one text; `qkv` holds queries, keys and values of `hidden` numbers side by side.
    pub(super) fn apply(&self, isa: Isa, hidden: usize, qkv: &mut [f32]) {
        let (tokens, width) = (qkv.len() / (3 * hidden), self.width);
        let longer = (tokens * width / 2 > self.angles.0.len()).then(|| angles(self.theta, width, tokens));
        let (cos, sin) = longer.as_ref().unwrap_or(&self.angles);
        let (cos, sin) = (cos.as_slice(), sin.as_slice());
        vectorised!(isa, |hidden: usize, width: usize, cos: &[f32], sin: &[f32], qkv: &mut [f32]| {
            let half = width / 2;
            let angles = cos.chunks_exact(half).zip(sin.chunks_exact(half));
            for (row, (cos, sin)) in qkv.chunks_exact_mut(3 * hidden).zip(angles) {
                for head in row[..2 * hidden].chunks_exact_mut(width) {
                    let (first, second) = head.split_at_mut(half);
                    for (((x, y), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        (*x, *y) = (*x * cos - *y * sin, *y * cos + *x * sin);
                    }
                }
            }
        });
    }
}
