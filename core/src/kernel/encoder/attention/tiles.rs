//! Attention by AMX: queries, keys, values and the softmax's numerators in bf16, sums, scores and the softmax in single
//! precision. 32 queries with 32 keys at a time.

use super::super::super::math::softmax_numerators;
use super::super::super::tiles::{PAIR, ROWS, Tile, TileTask, Tiles, WORDS};
use super::super::super::vector::Avx512;
use super::Attention;

/// Numbers in a line of a tile.
const LINE: usize = 2 * WORDS;

/// Buffers of attention by tiles; reused from one text to the next.
#[derive(Debug, Default)]
pub(super) struct TileScratch {
    /// 32 queries of one head, `[2][ceil(width / 32)]`.
    queries: Vec<Tile>,
    /// The keys of one head, transposed, `[ceil(tokens / 32)][2][ceil(width / 32)]`: columns of 16 tokens.
    keys: Vec<Tile>,
    /// The values of one head, `[ceil(width / 32)][2][ceil(tokens / 32)]`: 16 columns of the head.
    values: Vec<Tile>,
    /// The numerators of 32 queries, `[2][ceil(tokens / 32)]`.
    numerators: Vec<Tile>,
    /// The scores of 32 queries, `[32, stride]`.
    scores: Vec<f32>,
}

impl TileTask for Attention<'_> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        let Self { qkv, tokens, queries: all, heads, width, relative, window, scratch, out } = self;
        let TileScratch { queries, keys, values, numerators, scores } = &mut scratch.tiles;
        let (window, hidden) = (window.unwrap_or(tokens), heads * width);
        // Tiles along a head, and along the tokens.
        let (depth, length) = (width.div_ceil(LINE), tokens.div_ceil(LINE));
        // Rows are no power of two apart, so that they do not share a few sets of the cache.
        let stride = length * LINE + WORDS;
        queries.resize(2 * depth, Tile::ZERO);
        keys.resize(length * 2 * depth, Tile::ZERO);
        values.resize(depth * 2 * length, Tile::ZERO);
        numerators.resize(2 * length, Tile::ZERO);
        scores.resize(PAIR * stride, 0.0);
        let mut sums = [[0f32; PAIR]; PAIR];
        let mut factors = [0f32; PAIR];
        for head in 0..heads {
            let column = head * width;
            let part = |token: usize, at: usize| &qkv[token * 3 * hidden + at * hidden + column..][..width];
            for (first, keys) in (0..).step_by(ROWS).zip(keys.chunks_exact_mut(depth)) {
                for (step, to) in keys.iter_mut().enumerate() {
                    let mut lines = Tile::ZERO;
                    for (token, line) in (first..tokens).zip(&mut lines.0) {
                        *line = tiles.line(piece(part(token, 1), step * LINE, LINE));
                    }
                    to.set_transposed(tiles, &lines);
                }
            }
            for (first, values) in (0..).step_by(WORDS).zip(values.chunks_exact_mut(length)) {
                for (step, to) in values.iter_mut().enumerate() {
                    for (token, line) in (step * LINE..).step_by(2).zip(&mut to.0) {
                        // Zeros beyond the tokens, since a numerator of 0 times what is not finite is no 0.
                        let [low, high] = [token, token + 1].map(|token| match token < tokens {
                            true => piece(part(token, 2), first, WORDS),
                            false => &[],
                        });
                        *line = tiles.interleaved(low, high);
                    }
                }
            }
            for start in (0..all).step_by(PAIR) {
                let count = PAIR.min(all - start);
                // What any of these queries sees, in tiles.
                let low = start.saturating_sub(window) / LINE;
                let high = (start + count + window).min(tokens).div_ceil(LINE);
                for query in 0..count {
                    let to = &mut queries[query / ROWS * depth..][..depth];
                    for (step, to) in to.iter_mut().enumerate() {
                        to.0[query % ROWS] = tiles.line(piece(part(start + query, 0), step * LINE, LINE));
                    }
                }
                for step in low..high {
                    let to = &mut scores[step * LINE..];
                    tiles.square(halves(queries), halves(&keys[step * 2 * depth..][..2 * depth]), to, stride);
                }
                let rows = scores.chunks_exact_mut(stride).zip(&mut factors);
                for (query, (row, factor)) in rows.take(count).enumerate() {
                    let token = start + query;
                    if let Some(relative) = relative {
                        let bias = relative.row(head, token, tokens);
                        row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
                    }
                    let (first, end) = (token.saturating_sub(window), (token + window + 1).min(tokens));
                    // Keys that the token does not see, up to whole vectors and to whole tiles, have no weight.
                    let padded = end.next_multiple_of(WORDS);
                    row[end..padded].fill(f32::NEG_INFINITY);
                    row[low * LINE..first].fill(0.0);
                    row[padded..high * LINE].fill(0.0);
                    *factor = softmax_numerators::<Avx512>(&mut row[first..padded]);
                    for step in low..high {
                        let numbers = tiles.line(&row[step * LINE..][..LINE]);
                        numerators[query / ROWS * length + step].0[query % ROWS] = numbers;
                    }
                }
                let numerators = halves(numerators).map(|band| &band[low..high]);
                for (step, values) in values.chunks_exact(2 * length).enumerate() {
                    let values = halves(values).map(|columns| &columns[low..high]);
                    tiles.square(numerators, values, sums.as_flattened_mut(), PAIR);
                    let used = LINE.min(width - step * LINE);
                    for (query, (sums, factor)) in sums.iter().zip(&factors).take(count).enumerate() {
                        let to = (start + query) * hidden + column + step * LINE;
                        let to = out[to..][..used].iter_mut().zip(sums);
                        to.for_each(|(to, sum)| *to = sum * factor);
                    }
                }
            }
        }
    }
}

/// Returns the numbers of a head from `first` on, at most `count`.
#[inline(always)]
fn piece(numbers: &[f32], first: usize, count: usize) -> &[f32] {
    let rest = numbers.get(first..).unwrap_or_default();
    &rest[..count.min(rest.len())]
}

/// Returns the two halves of some tiles.
#[inline(always)]
fn halves(tiles: &[Tile]) -> [&[Tile]; 2] {
    let (low, high) = tiles.split_at(tiles.len() / 2);
    [low, high]
}
