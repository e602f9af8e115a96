//! Attention by products of words in bf16: queries, keys, values and the softmax's numerators in bf16, scores, softmax
//! and sums in single precision.

use super::super::super::dot::{Dot, set_words, to_bf16};
use super::super::super::gemm::{blocks, copy, copy_scaled, pack_transposed, product_by};
use super::super::super::isa::{DotTask, MAX_MR};
use super::super::super::vector::Simd;
use super::{Attention, QUERIES, Softmax};

/// Keys, or numbers of values, of a panel: two vectors, of which a head of 32 numbers has no remainder.
const PANEL: usize = 32;

/// Buffers of attention by words; reused from one text to the next.
#[derive(Debug, Default)]
pub(super) struct WordScratch {
    /// The keys of one head, `[tokens, ceil(width / 2)]`.
    rows: Vec<u32>,
    /// Some queries of one head, `[QUERIES, ceil(width / 2)]`.
    queries: Vec<u32>,
    /// The keys of one head in panels of tokens, `[ceil(tokens / PANEL)][ceil(width / 2)][PANEL]`.
    keys: Vec<u32>,
    /// The values of one head in panels of columns, `[ceil(width / PANEL)][ceil(tokens / 2)][PANEL]`: a word
    /// holds the numbers of two tokens.
    values: Vec<u32>,
    /// `[QUERIES, tokens]`, with `tokens` rounded up to a whole panel.
    scores: Vec<f32>,
    /// The numerators of the softmax, those of two keys a word, `[QUERIES, stride / 2]` where rows of scores are
    /// `stride` numbers.
    numerators: Vec<u32>,
}

impl DotTask for Attention<'_> {
    #[inline(always)]
    fn run<S: Simd, D: Dot<Number = u32>, const NR: usize, const MR: usize>(self) {
        let Self { qkv, tokens, queries: all, heads, width, relative, window, scratch, out } = self;
        let WordScratch { rows: key_rows, queries: copied, keys, values, scores, numerators } =
            &mut scratch.words;
        let (window, hidden) = (window.unwrap_or(tokens), heads * width);
        let (words, pairs) = (width.div_ceil(2), tokens.div_ceil(2));
        let stride = tokens.next_multiple_of(PANEL);
        key_rows.resize(tokens * words, 0);
        copied.resize(QUERIES.min(all) * words, 0);
        keys.resize(stride * words, 0);
        values.resize(width.next_multiple_of(PANEL) * pairs, 0);
        scores.resize(QUERIES.min(all) * stride, 0.0);
        numerators.resize(scores.len() / 2, 0);
        let mut sums = [[0f32; PANEL]; MAX_MR];
        let mut factors = [0f32; QUERIES];
        for head in 0..heads {
            let column = head * width;
            let of_head = |part: usize, token: usize| &qkv[(3 * token + part) * hidden + column..][..width];
            for (token, to) in key_rows.chunks_exact_mut(words).enumerate() {
                set_words(of_head(1, token), to);
            }
            pack_transposed::<u32, PANEL>(key_rows, words, tokens, words, keys);
            for (index, panel) in values.as_chunks_mut::<PANEL>().0.chunks_exact_mut(pairs).enumerate() {
                let used = PANEL.min(width - index * PANEL);
                for (pair, to) in panel.iter_mut().enumerate() {
                    let of_token = |token: usize| &of_head(2, token)[index * PANEL..][..used];
                    let (low, high) = (of_token(2 * pair), 2 * pair + 1);
                    match high < tokens {
                        true => {
                            let both = low.iter().zip(of_token(high));
                            let both = both.map(|(low, high)| to_bf16(*low) | to_bf16(*high) << 16);
                            to.iter_mut().zip(both).for_each(|(to, word)| *to = word);
                        }
                        false => to.iter_mut().zip(low).for_each(|(to, low)| *to = to_bf16(*low)),
                    }
                }
            }
            for start in (0..all).step_by(QUERIES) {
                let queries = QUERIES.min(all - start);
                // What any of these queries sees.
                let (low, high) = (start.saturating_sub(window), (start + queries + window).min(tokens));
                for (token, to) in (start..start + queries).zip(copied.chunks_exact_mut(words)) {
                    set_words(of_head(0, token), to);
                }
                for (index, panel) in keys.as_chunks::<PANEL>().0.chunks_exact(words).enumerate() {
                    if (index + 1) * PANEL <= low || index * PANEL >= high {
                        continue;
                    }
                    for (first, rows) in blocks::<MR>(queries) {
                        let left = &copied[first * words..];
                        product_by::<D, PANEL, MR>(left, words, rows, panel, None, &mut sums);
                        for (i, sums) in sums[..rows].iter().enumerate() {
                            let to = &mut scores[(first + i) * stride + index * PANEL..][..PANEL];
                            copy::<S, PANEL>(sums, to);
                        }
                    }
                }
                let softmax = Softmax { relative, head, start, tokens, window, stride };
                softmax.apply::<S>(scores, &mut factors[..queries]);
                // In whole words.
                let (low, high) = (low / 2, high.div_ceil(2));
                let rows =
                    scores.chunks_exact(stride).zip(numerators.chunks_exact_mut(stride / 2)).take(queries);
                rows.for_each(|(row, to)| set_words(&row[2 * low..2 * high], &mut to[low..high]));
                for (index, panel) in values.as_chunks::<PANEL>().0.chunks_exact(pairs).enumerate() {
                    let used = PANEL.min(width - index * PANEL);
                    for (first, rows) in blocks::<MR>(queries) {
                        let (left, panel) = (&numerators[first * stride / 2 + low..], &panel[low..high]);
                        product_by::<D, PANEL, MR>(left, stride / 2, rows, panel, None, &mut sums);
                        for (i, sums) in sums[..rows].iter().enumerate() {
                            let to = (start + first + i) * hidden + column + index * PANEL;
                            copy_scaled::<PANEL>(sums, factors[first + i], &mut out[to..][..used]);
                        }
                    }
                }
            }
        }
    }
}
