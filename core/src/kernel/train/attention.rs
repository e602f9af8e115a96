//! Attention in training: `softmax(scale Q K^T + bias)`, with dropout, times `V`, and its gradients (Vaswani et al.
//! 2017 §3.2.1).
//!
//! One head of one row at a time, so that its scores stay in the cache. The backward pass computes the scores again, so
//! that the tape keeps no scores and no probabilities (as in Dao et al. 2022 §3.1).

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;

use super::super::dot::Single;
use super::super::gemm::{blocks, copy_scaled, pack, pack_transposed, product, product_transposed};
use super::super::isa::{Isa, MAX_MR, best, vectorised};
use super::super::math::{row_sum, softmax_numerators};
#[cfg(target_arch = "x86_64")]
use super::super::tiles::Tiles;
use super::super::vector::Simd;

/// Inputs of attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention<'a> {
    /// `[batch, tokens, hidden]`, the heads side by side.
    pub(crate) query: &'a [f32],
    /// The same.
    pub(crate) key: &'a [f32],
    /// The same.
    pub(crate) value: &'a [f32],
    /// Added to the scores.
    pub(crate) bias: Broadcast<'a>,
    /// Factors of dropout.
    pub(crate) mask: Broadcast<'a>,
    pub(crate) batch: usize,
    pub(crate) tokens: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    /// Narrow products: in bf16 where the processor has AMX, and in single precision elsewhere.
    pub(crate) narrow: bool,
}

/// Gradients of the inputs of attention.
#[derive(Debug)]
pub(crate) struct Gradients {
    /// `[batch, tokens, hidden]`.
    pub(crate) query: Vec<f32>,
    /// The same.
    pub(crate) key: Vec<f32>,
    /// The same.
    pub(crate) value: Vec<f32>,
    /// In the dimensions of the bias; empty where it was not asked for.
    pub(crate) bias: Vec<f32>,
}

/// Numbers for `[batch, heads, tokens, tokens]`, of length 1 in any dimension that they do not depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broadcast<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) dims: [usize; 4],
}

/// The place of a row `[tokens]` of scores in numbers that are broadcast.
#[derive(Clone, Copy)]
enum Row {
    /// One number a key, from a place on.
    Each(usize),
    /// One number for all keys.
    Same(usize),
}

impl Broadcast<'_> {
    /// Returns the place of the numbers for a query under a head of a row of the batch.
    #[inline(always)]
    fn row(&self, row: usize, head: usize, query: usize) -> Row {
        let [batch, heads, queries, keys] = self.dims;
        let at = |at: usize, length: usize| if length == 1 { 0 } else { at };
        let start = ((at(row, batch) * heads + at(head, heads)) * queries + at(query, queries)) * keys;
        if keys == 1 { Row::Same(start) } else { Row::Each(start) }
    }
}

/// Buffers of one head.
struct Buffers {
    /// A matrix in panels.
    panels: Vec<f32>,
    /// Scores; then probabilities, `[tokens, tokens]`.
    scores: Vec<f32>,
    /// Probabilities after dropout; then the gradient of the scores, `[tokens, tokens]`.
    scratch: Vec<f32>,
}

impl Attention<'_> {
    /// Returns the attention, `[batch, tokens, hidden]`.
    pub(crate) fn forward(&self) -> Vec<f32> {
        self.forward_by(best())
    }

    fn forward_by(&self, isa: Isa) -> Vec<f32> {
        let mut output = vec![0f32; self.query.len()];
        #[cfg(target_arch = "x86_64")]
        if let Some(tiles) = self.tiles(isa) {
            tiles.run(tiles::Forward { attention: self, out: &mut output });
            return output;
        }
        let _ = self.narrow;
        let (attention, out) = (self, output.as_mut_slice());
        vectorised!(isa, |attention: &Attention<'_>, out: &mut [f32]| {
            let (mut buffers, [tokens, width]) = (attention.buffers(NA), attention.sizes());
            let hidden = attention.hidden;
            for (row, head) in attention.heads() {
                let start = row * tokens * hidden + head * width;
                attention.probabilities::<S, NA, MR>(row, head, &mut buffers);
                let Buffers { panels, scores, .. } = &mut buffers;
                attention.apply_dropout(row, head, scores, tokens);
                let values = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&attention.value[start..], hidden, tokens, width, values);
                let to = To { values: &mut out[start..], stride: hidden, n: width, factor: 1.0 };
                multiply::<S, NA, MR>(Left::Rows(scores, tokens), tokens, (values, tokens), to);
            }
        });
        output
    }

    /// Returns the gradients of the inputs from `gradient`, that of the attention; that of the bias if `with_bias`.
    pub(crate) fn backward(&self, gradient: &[f32], with_bias: bool) -> Gradients {
        self.backward_by(best(), gradient, with_bias)
    }

    fn backward_by(&self, isa: Isa, gradient: &[f32], with_bias: bool) -> Gradients {
        let zeros = || vec![0f32; self.query.len()];
        let bias = vec![0f32; if with_bias { self.bias.values.len() } else { 0 }];
        let mut gradients = Gradients { query: zeros(), key: zeros(), value: zeros(), bias };
        #[cfg(target_arch = "x86_64")]
        if let Some(tiles) = self.tiles(isa) {
            tiles.run(tiles::Backward { attention: self, gradient, out: &mut gradients });
            return gradients;
        }
        let (attention, out) = (self, &mut gradients);
        vectorised!(isa, |attention: &Attention<'_>, gradient: &[f32], out: &mut Gradients| {
            let (mut buffers, [tokens, width]) = (attention.buffers(NA), attention.sizes());
            let (hidden, scale) = (attention.hidden, attention.scale());
            for (row, head) in attention.heads() {
                let start = row * tokens * hidden + head * width;
                attention.probabilities::<S, NA, MR>(row, head, &mut buffers);
                let Buffers { panels, scores: probabilities, scratch } = &mut buffers;

                // Gradient of the values: the probabilities after dropout, transposed, times that of the output.
                scratch.copy_from_slice(probabilities);
                attention.apply_dropout(row, head, scratch, tokens);
                let gradients = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&gradient[start..], hidden, tokens, width, gradients);
                let to = To { values: &mut out.value[start..], stride: hidden, n: width, factor: 1.0 };
                multiply::<S, NA, MR>(Left::Columns(scratch, tokens), tokens, (gradients, tokens), to);

                // Gradient of the probabilities, and from it that of the scores, before they are scaled.
                let values = &mut panels[..tokens.next_multiple_of(NA) * width];
                pack_transposed::<f32, NA>(&attention.value[start..], hidden, tokens, width, values);
                let to = To { values: scratch, stride: tokens, n: tokens, factor: 1.0 };
                multiply::<S, NA, MR>(Left::Rows(&gradient[start..], hidden), tokens, (values, width), to);
                attention.score_gradients(row, head, probabilities, scratch, tokens, &mut out.bias);

                // Gradients of the queries and of the keys.
                let keys = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&attention.key[start..], hidden, tokens, width, keys);
                let to = To { values: &mut out.query[start..], stride: hidden, n: width, factor: scale };
                multiply::<S, NA, MR>(Left::Rows(scratch, tokens), tokens, (keys, tokens), to);
                let queries = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&attention.query[start..], hidden, tokens, width, queries);
                let to = To { values: &mut out.key[start..], stride: hidden, n: width, factor: scale };
                multiply::<S, NA, MR>(Left::Columns(scratch, tokens), tokens, (queries, tokens), to);
            }
        });
        gradients
    }

    /// Returns the tokens of a row and the width of a head.
    #[inline(always)]
    fn sizes(&self) -> [usize; 2] {
        [self.tokens, self.hidden / self.heads.max(1)]
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        1.0 / (self.sizes()[1] as f32).sqrt()
    }

    /// Returns each row of the batch with each head; none where a row has no tokens.
    #[inline(always)]
    fn heads(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (batch, heads) = (if self.tokens == 0 { 0 } else { self.batch }, self.heads);
        (0..batch).flat_map(move |row| (0..heads).map(move |head| (row, head)))
    }

    /// Returns buffers for panels of `na` columns.
    fn buffers(&self, na: usize) -> Buffers {
        let [tokens, width] = self.sizes();
        Buffers {
            panels: vec![0.0; tokens.next_multiple_of(na) * width.next_multiple_of(na)],
            scores: vec![0.0; tokens * tokens],
            scratch: vec![0.0; tokens * tokens],
        }
    }

    /// Sets the scores to the probabilities of a head, before dropout.
    #[inline(always)]
    fn probabilities<S: Simd, const NA: usize, const MR: usize>(
        &self,
        row: usize,
        head: usize,
        buffers: &mut Buffers,
    ) {
        let ([tokens, width], scale) = (self.sizes(), self.scale());
        let start = row * tokens * self.hidden + head * width;
        let Buffers { panels, scores, .. } = buffers;
        let keys = &mut panels[..tokens.next_multiple_of(NA) * width];
        pack_transposed::<f32, NA>(&self.key[start..], self.hidden, tokens, width, keys);
        let left = Left::Rows(&self.query[start..], self.hidden);
        let to = To { values: &mut scores[..], stride: tokens, n: tokens, factor: scale };
        multiply::<S, NA, MR>(left, tokens, (keys, width), to);
        self.softmax::<S>(row, head, scores, tokens);
    }

    /// Replaces the scores of a head, `[tokens, stride]`, by their softmax after the bias was added.
    #[inline(always)]
    fn softmax<S: Simd>(&self, row: usize, head: usize, scores: &mut [f32], stride: usize) {
        for (query, scores) in self.rows_of(scores, stride) {
            match self.bias.row(row, head, query) {
                Row::Each(at) => {
                    let bias = &self.bias.values[at..][..self.tokens];
                    scores.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
                }
                Row::Same(at) => scores.iter_mut().for_each(|score| *score += self.bias.values[at]),
            }
            let factor = softmax_numerators::<S>(scores);
            scores.iter_mut().for_each(|score| *score *= factor);
        }
    }

    /// Multiplies the numbers of a head, `[tokens, stride]`, by the factors of dropout.
    #[inline(always)]
    fn apply_dropout(&self, row: usize, head: usize, numbers: &mut [f32], stride: usize) {
        for (query, numbers) in self.rows_of(numbers, stride) {
            match self.mask.row(row, head, query) {
                Row::Each(at) => {
                    let factors = &self.mask.values[at..][..self.tokens];
                    numbers.iter_mut().zip(factors).for_each(|(number, factor)| *number *= factor);
                }
                Row::Same(at) => {
                    let factor = self.mask.values[at];
                    numbers.iter_mut().for_each(|number| *number *= factor);
                }
            }
        }
    }

    /// Replaces the gradient of the probabilities after dropout, `[tokens, stride]` as these, by that of the scores
    /// before they are scaled, and adds that of the bias to `bias` unless it is empty.
    #[inline(always)]
    fn score_gradients(
        &self,
        row: usize,
        head: usize,
        probabilities: &[f32],
        gradient: &mut [f32],
        stride: usize,
        bias: &mut [f32],
    ) {
        self.apply_dropout(row, head, gradient, stride);
        for ((query, gradient), probabilities) in
            self.rows_of(gradient, stride).zip(probabilities.chunks_exact(stride))
        {
            let probabilities = &probabilities[..self.tokens];
            let mean = row_sum(gradient, probabilities, |gradient, share| gradient * share);
            for (gradient, share) in gradient.iter_mut().zip(probabilities) {
                *gradient = (*gradient - mean) * share;
            }
            if !bias.is_empty() {
                self.bias.row(row, head, query).add_to(gradient, bias);
            }
        }
    }

    /// Returns the rows of numbers of a head, `[tokens, stride]`, each with its query.
    #[inline(always)]
    fn rows_of<'a>(
        &self,
        numbers: &'a mut [f32],
        stride: usize,
    ) -> impl Iterator<Item = (usize, &'a mut [f32])> + use<'a> {
        let tokens = self.tokens;
        let rows = numbers.chunks_exact_mut(stride).take(tokens).map(move |row| &mut row[..tokens]);
        rows.enumerate()
    }

    /// Returns the tiles that the products are computed by, where there are some and the products may be in bf16.
    #[cfg(target_arch = "x86_64")]
    fn tiles(&self, isa: Isa) -> Option<Tiles> {
        self.narrow.then(|| Tiles::configure(isa)).flatten()
    }
}

/// The left matrix of a product.
#[derive(Clone, Copy)]
enum Left<'a> {
    /// `[m, k]`, whose rows are a stride apart.
    Rows(&'a [f32], usize),
    /// `[k, m]`, whose rows are a stride apart.
    Columns(&'a [f32], usize),
}

/// Where a product goes, `[m, n]`: rows a stride apart, times a factor. A closure in its place would not be compiled
/// for the instruction set.
struct To<'a> {
    values: &'a mut [f32],
    stride: usize,
    n: usize,
    factor: f32,
}

/// Sets `to` to the product of `left`, of `m` rows, with panels of `k` inputs each.
#[inline(always)]
fn multiply<S: Simd, const NA: usize, const MR: usize>(
    left: Left<'_>,
    m: usize,
    (panels, k): (&[f32], usize),
    to: To<'_>,
) {
    let mut sums = [[0f32; NA]; MAX_MR];
    for (index, panel) in panels.as_chunks::<NA>().0.chunks_exact(k).enumerate() {
        for (first, rows) in blocks::<MR>(m) {
            match left {
                Left::Rows(left, stride) => {
                    product::<S, NA, MR>(&left[first * stride..], stride, rows, panel, &mut sums);
                }
                Left::Columns(left, stride) => {
                    product_transposed::<Single<S>, NA, MR>(&left[first..], stride, rows, panel, &mut sums);
                }
            }
            for (row, sums) in (first..).zip(&sums[..rows]) {
                let place = &mut to.values[row * to.stride + index * NA..];
                copy_scaled::<NA>(sums, to.factor, &mut place[..NA.min(to.n - index * NA)]);
            }
        }
    }
}

impl Row {
    /// Adds the gradients of a row of scores to that of the numbers that were broadcast to it.
    #[inline(always)]
    fn add_to(self, gradient: &[f32], sums: &mut [f32]) {
        match self {
            Self::Each(at) => sums[at..].iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value),
            Self::Same(at) => sums[at] += gradient.iter().sum::<f32>(),
        }
    }
}
