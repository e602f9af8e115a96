//! Attention in training: `softmax(scale Q K^T + bias)`, with dropout, times `V`, and its gradients (Vaswani et al.
//! 2017 §3.2.1).
//!
//! One head of one row at a time, so that its scores stay in the cache. The backward pass computes the scores again, so
//! that the tape keeps no scores and no probabilities (as in Dao et al. 2022 §3.1).

use super::super::dot::Single;
use super::super::gemm::{blocks, copy, copy_scaled, pack, pack_transposed, product, product_transposed};
use super::super::isa::{Isa, MAX_MR, best, vectorised};
use super::super::math::{row_sum, softmax_numerators};
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
        let (attention, out) = (self, output.as_mut_slice());
        vectorised!(isa, |attention: &Attention<'_>, out: &mut [f32]| {
            let (mut buffers, [tokens, width]) = (attention.buffers(NA), attention.sizes());
            let hidden = attention.hidden;
            for (row, head) in attention.heads() {
                let start = row * tokens * hidden + head * width;
                attention.probabilities::<S, NA, MR>(row, head, &mut buffers);
                let Buffers { panels, scores, .. } = &mut buffers;
                attention.apply_dropout(row, head, scores);
                let values = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&attention.value[start..], hidden, tokens, width, values);
                multiply::<S, NA, MR>(
                    Left::Rows(scores, tokens),
                    tokens,
                    (values, tokens),
                    |token, at, sums| {
                        copy::<S, NA>(sums, &mut out[start + token * hidden + at..][..NA.min(width - at)]);
                    },
                );
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
                attention.apply_dropout(row, head, scratch);
                let gradients = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&gradient[start..], hidden, tokens, width, gradients);
                let (left, to) = (Left::Columns(scratch, tokens), &mut out.value[start..]);
                multiply::<S, NA, MR>(left, tokens, (gradients, tokens), |token, at, sums| {
                    copy_scaled::<NA>(sums, 1.0, &mut to[token * hidden + at..][..NA.min(width - at)]);
                });

                // Gradient of the probabilities, and from it that of the scores, before they are scaled.
                let values = &mut panels[..tokens.next_multiple_of(NA) * width];
                pack_transposed::<NA>(&attention.value[start..], hidden, tokens, width, values);
                let left = Left::Rows(&gradient[start..], hidden);
                multiply::<S, NA, MR>(left, tokens, (values, width), |token, at, sums| {
                    copy::<S, NA>(sums, &mut scratch[token * tokens + at..][..NA.min(tokens - at)]);
                });
                attention.apply_dropout(row, head, scratch);
                let rows = scratch.chunks_exact_mut(tokens).zip(probabilities.chunks_exact(tokens));
                for (query, (gradient, probabilities)) in rows.enumerate() {
                    let mean = row_sum(gradient, probabilities, |gradient, share| gradient * share);
                    for (gradient, share) in gradient.iter_mut().zip(probabilities) {
                        *gradient = (*gradient - mean) * share;
                    }
                    if !out.bias.is_empty() {
                        attention.bias.row(row, head, query).add_to(gradient, &mut out.bias);
                    }
                }

                // Gradients of the queries and of the keys.
                let keys = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&attention.key[start..], hidden, tokens, width, keys);
                let (left, to) = (Left::Rows(scratch, tokens), &mut out.query[start..]);
                multiply::<S, NA, MR>(left, tokens, (keys, tokens), |token, at, sums| {
                    copy_scaled::<NA>(sums, scale, &mut to[token * hidden + at..][..NA.min(width - at)]);
                });
                let queries = &mut panels[..width.next_multiple_of(NA) * tokens];
                pack::<S, NA>(&attention.query[start..], hidden, tokens, width, queries);
                let (left, to) = (Left::Columns(scratch, tokens), &mut out.key[start..]);
                multiply::<S, NA, MR>(left, tokens, (queries, tokens), |token, at, sums| {
                    copy_scaled::<NA>(sums, scale, &mut to[token * hidden + at..][..NA.min(width - at)]);
                });
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
        pack_transposed::<NA>(&self.key[start..], self.hidden, tokens, width, keys);
        let left = Left::Rows(&self.query[start..], self.hidden);
        multiply::<S, NA, MR>(left, tokens, (keys, width), |token, at, sums| {
            for (score, sum) in scores[token * tokens..][..tokens][at..].iter_mut().zip(sums) {
                *score = sum * scale;
            }
        });
        for (query, scores) in scores.chunks_exact_mut(tokens).enumerate() {
            match self.bias.row(row, head, query) {
                Row::Each(at) => {
                    let bias = &self.bias.values[at..][..tokens];
                    scores.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
                }
                Row::Same(at) => scores.iter_mut().for_each(|score| *score += self.bias.values[at]),
            }
            let factor = softmax_numerators::<S>(scores);
            scores.iter_mut().for_each(|score| *score *= factor);
        }
    }

    /// Multiplies the numbers of a head, `[tokens, tokens]`, by the factors of dropout.
    #[inline(always)]
    fn apply_dropout(&self, row: usize, head: usize, numbers: &mut [f32]) {
        for (query, numbers) in numbers.chunks_exact_mut(self.tokens).enumerate() {
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
}

/// The left matrix of a product.
#[derive(Clone, Copy)]
enum Left<'a> {
    /// `[m, k]`, whose rows are a stride apart.
    Rows(&'a [f32], usize),
    /// `[k, m]`, whose rows are a stride apart.
    Columns(&'a [f32], usize),
}

/// Multiplies `left` of `m` rows by panels of `k` inputs each. Gives the sums of each row with each panel to `store`,
/// which is told the row and the first column.
#[inline(always)]
fn multiply<S: Simd, const NA: usize, const MR: usize>(
    left: Left<'_>,
    m: usize,
    (panels, k): (&[f32], usize),
    mut store: impl FnMut(usize, usize, &[f32; NA]),
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
                store(row, index * NA, sums);
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

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 4] = [2, 5, 12, 3];

    fn wave(length: usize, step: f32) -> Vec<f64> {
        (0..length).map(|i| f64::from((i as f32 * step).sin())).collect()
    }

    fn single(values: &[f64]) -> Vec<f32> {
        values.iter().map(|value| *value as f32).collect()
    }

    /// Returns the attention by its definition, in double precision.
    fn reference(inputs: [&[f64]; 3], bias: (&[f64], [usize; 4]), mask: &[f64]) -> Vec<f64> {
        let [batch, tokens, hidden, heads] = SIZES;
        let width = hidden / heads;
        let [query, key, value] = inputs;
        let mut out = vec![0f64; query.len()];
        for (row, head, token) in (0..batch)
            .flat_map(|row| (0..heads).flat_map(move |head| (0..tokens).map(move |token| (row, head, token))))
        {
            let place = |token: usize| (row * tokens + token) * hidden + head * width;
            let score = |other: usize| {
                let dot: f64 = (0..width).map(|at| query[place(token) + at] * key[place(other) + at]).sum();
                let index = [row, head, token, other].into_iter().zip(bias.1);
                let index =
                    index.fold(0, |sum, (at, length)| sum * length + if length == 1 { 0 } else { at });
                (dot / (width as f64).sqrt() + bias.0[index]).exp()
            };
            let sum: f64 = (0..tokens).map(score).sum();
            for other in 0..tokens {
                let kept = mask[((row * heads + head) * tokens + token) * tokens + other];
                for at in 0..width {
                    out[place(token) + at] += score(other) / sum * kept * value[place(other) + at];
                }
            }
        }
        out
    }

    fn near(what: &str, got: &[f32], expected: &[f64]) {
        assert_eq!(got.len(), expected.len(), "{what}");
        for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
            assert!((f64::from(*got) - expected).abs() < 2e-5, "{what} at {at}: {got} is not {expected}");
        }
    }

    /// Returns the gradient of the sum of `output` times `weights`, by central differences.
    fn numeric(input: &[f64], weights: &[f64], output: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let loss = |input: &[f64]| output(input).iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
        let moved = |at: usize, by: f64| {
            let mut input = input.to_vec();
            input[at] += by;
            loss(&input)
        };
        (0..input.len()).map(|at| (moved(at, 1e-5) - moved(at, -1e-5)) / 2e-5).collect()
    }

    #[test]
    fn attention_and_its_gradients_are_those_of_the_definition() {
        let [batch, tokens, hidden, heads] = SIZES;
        let size = batch * tokens * hidden;
        let [query, key, value, gradient] = [0.7, 0.3, 1.1, 0.9].map(|step| wave(size, step));
        let mask: Vec<f64> =
            (0..batch * heads * tokens * tokens).map(|at| if at % 7 == 0 { 0.0 } else { 1.25 }).collect();
        for dims in [[1, 1, 1, 1], [batch, 1, 1, tokens], [1, heads, tokens, tokens], [batch, 1, tokens, 1]] {
            let bias = wave(dims.iter().product(), 1.7);
            let singles = [&query, &key, &value, &gradient, &bias, &mask].map(|values| single(values));
            let attention = Attention {
                query: &singles[0],
                key: &singles[1],
                value: &singles[2],
                bias: Broadcast { values: &singles[4], dims },
                mask: Broadcast { values: &singles[5], dims: [batch, heads, tokens, tokens] },
                batch,
                tokens,
                hidden,
                heads,
            };
            let of = |inputs: [&[f64]; 3], bias: &[f64]| reference(inputs, (bias, dims), &mask);
            let output = of([&query, &key, &value], &bias);
            let expected = [
                numeric(&query, &gradient, |x| of([x, &key, &value], &bias)),
                numeric(&key, &gradient, |x| of([&query, x, &value], &bias)),
                numeric(&value, &gradient, |x| of([&query, &key, x], &bias)),
                numeric(&bias, &gradient, |x| of([&query, &key, &value], x)),
            ];
            for isa in Isa::available() {
                near("output", &attention.forward_by(isa), &output);
                let got = attention.backward_by(isa, &singles[3], true);
                let got = [got.query, got.key, got.value, got.bias];
                for ((name, got), expected) in
                    ["query", "key", "value", "bias"].iter().zip(&got).zip(&expected)
                {
                    near(&format!("{name} on {isa:?}"), got, expected);
                }
            }
            assert!(attention.backward(&singles[3], false).bias.is_empty());
        }
    }

    #[test]
    fn padding_has_no_gradient() {
        let [batch, tokens, hidden, heads] = SIZES;
        let [query, key, value, gradient] =
            [0.7, 0.3, 1.1, 0.9].map(|step| single(&wave(batch * tokens * hidden, step)));
        let is_padding = |token: usize| token + 2 >= tokens;
        let bias: Vec<f32> =
            (0..batch * tokens).map(|at| if is_padding(at % tokens) { -1e4 } else { 0.0 }).collect();
        let attention = Attention {
            query: &query,
            key: &key,
            value: &value,
            bias: Broadcast { values: &bias, dims: [batch, 1, 1, tokens] },
            mask: Broadcast { values: &[1.0], dims: [1; 4] },
            batch,
            tokens,
            hidden,
            heads,
        };
        for isa in Isa::available() {
            let got = attention.backward_by(isa, &gradient, false);
            for of_keys in [&got.key, &got.value] {
                for (at, row) in of_keys.chunks_exact(hidden).enumerate() {
                    // Not even a subnormal number.
                    let is_none = row.iter().all(|number| *number == 0.0);
                    assert_eq!(is_none, is_padding(at % tokens), "token {at} on {isa:?}: {row:?}");
                }
            }
        }
    }

    #[test]
    fn rows_without_tokens_have_no_attention() {
        let none = Broadcast { values: &[0.0], dims: [1; 4] };
        let attention = Attention {
            query: &[],
            key: &[],
            value: &[],
            bias: none,
            mask: none,
            batch: 2,
            tokens: 0,
            hidden: 12,
            heads: 3,
        };
        assert!(attention.forward().is_empty());
        assert!(attention.backward(&[], true).query.is_empty());
    }
}
