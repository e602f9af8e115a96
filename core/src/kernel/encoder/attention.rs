//! Multi-head self-attention of one text at a time: in single precision, or in bf16 if the text is not short and the
//! processor multiplies in bf16, by AMX or by AVX-512 BF16.

#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(target_arch = "x86_64")]
mod words;

use super::super::gemm::{blocks, copy, copy_scaled, pack, pack_transposed, product};
use super::super::isa::{Isa, MAX_MR, Task};
use super::super::math::{self, softmax_numerators};
#[cfg(target_arch = "x86_64")]
use super::super::tiles::Tiles;
use super::super::vector::Simd;
use crate::relative::bucket;

/// Queries that are taken at once, so that they and their scores stay in the cache.
const QUERIES: usize = 32;

/// Tokens of a text up to which its attention is in single precision everywhere. Tiles of AMX multiply 32 queries by 32
/// keys, and filling them with zeros takes longer than the products; by AVX-512 BF16 the limit is the same, so that the
/// vectors of a short text are.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 16;

/// MPNet's bias by relative position (Song et al. 2020; the buckets are T5's, Raffel et al. 2020 §2.1).
#[derive(Debug)]
pub(super) struct RelativeBias {
    /// `[heads][2 * limit - 1]`, by key position minus query position plus `limit - 1`.
    table: Vec<f32>,
    limit: usize,
}

impl RelativeBias {
    /// Spreads the bias of each bucket, `[buckets, heads]`, over the relative positions below `limit`.
    pub(super) fn new(weight: &[f32], heads: usize, limit: usize) -> Self {
        let buckets = weight.len() / heads;
        let last = limit as i64 - 1;
        let table = (0..heads)
            .flat_map(|head| {
                (-last..=last).map(move |relative| weight[bucket(relative, buckets) * heads + head])
            })
            .collect();
        Self { table, limit }
    }

    /// Returns the bias of `query` with the keys `0..tokens`, under one head.
    #[inline(always)]
    fn row(&self, head: usize, query: usize, tokens: usize) -> &[f32] {
        &self.table[head * (2 * self.limit - 1) + self.limit - 1 - query..][..tokens]
    }
}

/// Buffers of [`Attention`]; reused from one text to the next.
#[derive(Debug, Default)]
pub(super) struct AttentionScratch {
    /// Some queries of one head, `[QUERIES, width]`, one after another: `3 * hidden` numbers apart, as they come, they
    /// would share a few sets of the cache.
    queries: Vec<f32>,
    /// The keys of one head in panels of tokens, `[ceil(tokens / NA)][width][NA]`.
    keys: Vec<f32>,
    /// The values of one head in panels of columns, `[ceil(width / NA)][tokens][NA]`.
    values: Vec<f32>,
    /// `[QUERIES, tokens]`, with `tokens` rounded up to a whole panel.
    scores: Vec<f32>,
    #[cfg(target_arch = "x86_64")]
    tiles: tiles::TileScratch,
    #[cfg(target_arch = "x86_64")]
    words: words::WordScratch,
}

/// Attention of the first tokens of one text: every head's `softmax(Q K^T + bias) V` over the tokens that a token sees,
/// `[queries, hidden]`.
///
/// The queries come scaled by `1 / sqrt(width)` (Vaswani et al. 2017 §3.2.1).
pub(super) struct Attention<'a> {
    /// Queries, keys and values side by side, `[tokens, 3 * hidden]`.
    pub(super) qkv: &'a [f32],
    /// Tokens of the text.
    pub(super) tokens: usize,
    /// Tokens whose attention is computed, from the first on.
    pub(super) queries: usize,
    /// Heads.
    pub(super) heads: usize,
    /// Width of a head.
    pub(super) width: usize,
    /// Added to the scores.
    pub(super) relative: Option<&'a RelativeBias>,
    /// Tokens before and after a token that it sees; all where there is none.
    pub(super) window: Option<usize>,
    /// Buffers.
    pub(super) scratch: &'a mut AttentionScratch,
    /// `[queries, hidden]`.
    pub(super) out: &'a mut [f32],
}

impl Attention<'_> {
    /// Computes the attention: `narrow` products of texts that are not [`SHORT`] are in bf16 where `isa` has products
    /// in bf16, all others in single precision.
    pub(super) fn apply(self, isa: Isa, narrow: bool) {
        #[cfg(target_arch = "x86_64")]
        if narrow && self.tokens > SHORT {
            if let Some(tiles) = Tiles::configure(isa) {
                return tiles.run(self);
            }
            if let Err(attention) = isa.run_native_bf16(self) {
                isa.run(attention);
            }
            return;
        }
        let _ = narrow;
        isa.run(self);
    }
}

/// The softmax of the scores of some queries of a head, `[queries, stride]`.
struct Softmax<'a> {
    relative: Option<&'a RelativeBias>,
    head: usize,
    /// The first query.
    start: usize,
    tokens: usize,
    /// Tokens before and after a token that it sees.
    window: usize,
    stride: usize,
}

impl Softmax<'_> {
    /// Replaces the scores by their numerators, 0 for a key that a query does not see, and sets a factor of each query
    /// to one over their sum.
    #[inline(always)]
    fn apply<S: Simd>(&self, scores: &mut [f32], factors: &mut [f32]) {
        let Self { relative, head, start, tokens, window, stride } = *self;
        // Length of the softmax of a row that sees the last token: padded to whole vectors, so that a row without a
        // window has no remainder. Browser modules do not pad, for less code.
        let padded = match cfg!(target_arch = "wasm32") {
            true => tokens,
            false => tokens.next_multiple_of(math::LANES).min(stride),
        };
        for ((token, row), factor) in (start..).zip(scores.chunks_exact_mut(stride)).zip(factors) {
            // Keys beyond the tokens have no weight.
            row[tokens..padded].fill(f32::NEG_INFINITY);
            if let Some(relative) = relative {
                let bias = relative.row(head, token, tokens);
                row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
            }
            let (first, end) = (token.saturating_sub(window), (token + window + 1).min(tokens));
            row[..first].fill(0.0);
            let end = if end == tokens { padded } else { end };
            row[end..].fill(0.0);
            *factor = softmax_numerators::<S>(&mut row[first..end]);
        }
    }
}

impl Task for Attention<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) {
        let Self { qkv, tokens, queries: all, heads, width, relative, window, scratch, out } = self;
        let window = window.unwrap_or(tokens);
        let hidden = heads * width;
        let AttentionScratch { queries: copied, keys, values, scores, .. } = scratch;
        copied.resize(QUERIES.min(all) * width, 0.0);
        let stride = tokens.next_multiple_of(NA);
        keys.resize(stride * width, 0.0);
        values.resize(width.next_multiple_of(NA) * tokens, 0.0);
        scores.resize(QUERIES.min(all) * stride, 0.0);
        let mut sums = [[0f32; NA]; MAX_MR];
        let mut factors = [0f32; QUERIES];
        for head in 0..heads {
            let column = head * width;
            pack_transposed::<f32, NA>(&qkv[hidden + column..], 3 * hidden, tokens, width, keys);
            pack::<S, NA>(&qkv[2 * hidden + column..], 3 * hidden, tokens, width, values);
            for start in (0..all).step_by(QUERIES) {
                let queries = QUERIES.min(all - start);
                // What any of these queries sees.
                let (low, high) = (start.saturating_sub(window), (start + queries + window).min(tokens));
                for (to, from) in copied.chunks_exact_mut(width).zip(qkv.chunks_exact(3 * hidden).skip(start))
                {
                    to.copy_from_slice(&from[column..][..width]);
                }
                for (index, panel) in keys.as_chunks::<NA>().0.chunks_exact(width).enumerate() {
                    if (index + 1) * NA <= low || index * NA >= high {
                        continue;
                    }
                    for (first, rows) in blocks::<MR>(queries) {
                        product::<S, NA, MR>(&copied[first * width..], width, rows, panel, &mut sums);
                        for (i, sums) in sums[..rows].iter().enumerate() {
                            copy::<S, NA>(sums, &mut scores[(first + i) * stride + index * NA..][..NA]);
                        }
                    }
                }
                let softmax = Softmax { relative, head, start, tokens, window, stride };
                softmax.apply::<S>(scores, &mut factors[..queries]);
                for (index, panel) in values.as_chunks::<NA>().0.chunks_exact(tokens).enumerate() {
                    let used = NA.min(width - index * NA);
                    for (first, rows) in blocks::<MR>(queries) {
                        let (scores, panel) = (&scores[first * stride + low..], &panel[low..high]);
                        product::<S, NA, MR>(scores, stride, rows, panel, &mut sums);
                        for (i, sums) in sums[..rows].iter().enumerate() {
                            let factor = factors[first + i];
                            let to = (start + first + i) * hidden + column + index * NA;
                            copy_scaled::<NA>(sums, factor, &mut out[to..][..used]);
                        }
                    }
                }
            }
        }
    }
}
