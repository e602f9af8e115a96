//! Attention by AMX: queries, keys, values and the softmax's numerators in bf16, scores, softmax and sums in single
//! precision. 32 queries with 32 keys at a time.

use super::super::super::math::softmax_numerators;
use super::super::super::tiles::{LINE_NUMBERS, PAIR, Rows, Side, TileTask, Tiles, WORDS};
use super::super::super::vector::Avx512;
use super::Attention;

/// Buffers of attention by tiles; reused from one text to the next.
#[derive(Debug, Default)]
pub(super) struct TileScratch {
    /// 32 queries of one head.
    queries: Side,
    /// The keys of one head.
    keys: Side,
    /// The values of one head.
    values: Side,
    /// The numerators of 32 queries.
    numerators: Side,
    /// The scores of 32 queries, `[32, stride]`.
    scores: Vec<f32>,
}

impl TileTask for Attention<'_> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        let Self { qkv, tokens, queries: all, heads, width, relative, window, scratch, out } = self;
        let TileScratch { queries, keys, values, numerators, scores } = &mut scratch.tiles;
        let (window, hidden) = (window.unwrap_or(tokens), heads * width);
        // Rows are no power of two apart, so that they do not share a few sets of the cache.
        let stride = tokens.next_multiple_of(LINE_NUMBERS) + WORDS;
        scores.resize(PAIR * stride, 0.0);
        let mut sums = [[0f32; PAIR]; PAIR];
        let mut factors = [0f32; PAIR];
        for head in 0..heads {
            let column = head * width;
            let of_query = Rows { values: &qkv[column..], stride: 3 * hidden, count: tokens, length: width };
            keys.set_right_transposed(tiles, Rows { values: &qkv[hidden + column..], ..of_query });
            values.set_right(tiles, Rows { values: &qkv[2 * hidden + column..], ..of_query });
            for start in (0..all).step_by(PAIR) {
                let count = PAIR.min(all - start);
                // What any of these queries sees, in whole tiles.
                let low = start.saturating_sub(window) / LINE_NUMBERS;
                let high = (start + count + window).min(tokens).div_ceil(LINE_NUMBERS);
                let (from, to) = (low * LINE_NUMBERS, high * LINE_NUMBERS);
                let of_start = &qkv[start * 3 * hidden + column..];
                queries.set_left(tiles, Rows { values: of_start, count, ..of_query });
                for step in low..high {
                    let to = &mut scores[step * LINE_NUMBERS..];
                    tiles.square(queries.pair(0), keys.pair(step), to, stride);
                }
                let rows = scores.chunks_exact_mut(stride).zip(&mut factors);
                for (token, (row, factor)) in (start..start + count).zip(rows) {
                    if let Some(relative) = relative {
                        let bias = relative.row(head, token, tokens);
                        row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
                    }
                    let (first, end) = (token.saturating_sub(window), (token + window + 1).min(tokens));
                    // Keys that the token does not see, up to whole vectors and to whole tiles, have no weight.
                    let padded = end.next_multiple_of(WORDS);
                    row[end..padded].fill(f32::NEG_INFINITY);
                    row[from..first].fill(0.0);
                    row[padded..to].fill(0.0);
                    *factor = softmax_numerators::<Avx512>(&mut row[first..padded]);
                }
                let rows = Rows { values: &scores[from..], stride, count, length: to - from };
                numerators.set_left(tiles, rows);
                for step in 0..values.pairs() {
                    let values = values.pair(step).map(|columns| &columns[low..high]);
                    tiles.square(numerators.pair(0), values, sums.as_flattened_mut(), PAIR);
                    let used = PAIR.min(width - step * PAIR);
                    for (query, (sums, factor)) in sums.iter().zip(&factors).take(count).enumerate() {
                        let to = (start + query) * hidden + column + step * PAIR;
                        let to = out[to..][..used].iter_mut().zip(sums);
                        to.for_each(|(to, sum)| *to = sum * factor);
                    }
                }
            }
        }
    }
}
