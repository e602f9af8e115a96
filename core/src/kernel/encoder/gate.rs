//! Gated feed-forward layers (Shazeer 2020): the activated part times the linear part.

use super::super::isa::{Isa, vectorised};
use super::super::math::{gelu, silu};
use crate::config::FeedForward;

/// Replaces rows `[activated, linear]` of twice `width` numbers by `activation(activated) * linear`, `[rows, width]`,
/// at the front of `wide`.
pub(super) fn gate(isa: Isa, kind: FeedForward, width: usize, wide: &mut [f32]) {
    let (swish, rows) = (kind == FeedForward::SwiGlu, &mut *wide);
    vectorised!(isa, |swish: bool, width: usize, rows: &mut [f32]| {
        for row in rows.chunks_exact_mut(2 * width) {
            let (active, linear) = row.split_at_mut(width);
            if swish {
                active.iter_mut().zip(linear).for_each(|(x, y)| *x = silu::<S>(*x) * *y);
            } else {
                active.iter_mut().zip(linear).for_each(|(x, y)| *x = gelu::<S>(*x) * *y);
            }
        }
    });
    // Each row moves towards the front, over what has been moved already.
    for row in 1..wide.len() / (2 * width) {
        wide.copy_within(2 * row * width..(2 * row + 1) * width, row * width);
    }
}
