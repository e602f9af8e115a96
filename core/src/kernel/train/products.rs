//! The three matrix products of a linear layer in training, in bf16 with sums in single precision: its outputs, and the
//! gradients of its inputs and of its weights.
//!
//! Numbers are rounded to bf16 as they are packed into words of two along the inputs of a sum (see
//! [`super::super::dot`]), so that states and gradients between the layers stay in single precision.

#[cfg(target_arch = "x86_64")]
mod tiles;

use std::cell::RefCell;
use std::mem::take;

use half::bf16;

use super::super::dot::{Dot, set_words, to_bf16};
use super::super::gemm::{Panels, blocks, copy, product_by, product_transposed};
use super::super::isa::{DotTask, Isa, MAX_MR, best};
#[cfg(target_arch = "x86_64")]
use super::super::tiles::{LeftTiles, Tiles};
use super::super::vector::Simd;

/// Sizes of a linear layer's products: `rows` tokens of `inputs` numbers each give `outputs` numbers each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// Returns a layer's outputs `[rows, outputs]`: `x` `[rows, inputs]` times `weight` `[inputs, outputs]` plus `bias`
/// `[outputs]`.
pub(crate) fn outputs(x: &[f32], weight: &[bf16], bias: &[f32], sizes: Sizes) -> Vec<f32> {
    let Sizes { rows, inputs, outputs } = sizes;
    let right = Right::Bf16(weight);
    let mut out = vec![0f32; rows * outputs];
    multiply(best(), Left::Rows(x), right, Some(bias), [rows, inputs, outputs], &mut out);
    out
}

/// Returns the gradient of a layer's inputs, `[rows, inputs]`, from that of its outputs.
pub(crate) fn input_gradient(gradient: &[f32], weight: &[bf16], sizes: Sizes) -> Vec<f32> {
    let Sizes { rows, inputs, outputs } = sizes;
    let right = Right::TransposedBf16(weight);
    let mut out = vec![0f32; rows * inputs];
    multiply(best(), Left::Rows(gradient), right, None, [rows, outputs, inputs], &mut out);
    out
}

/// Returns the gradient of a layer's weights, `[inputs, outputs]`, from its inputs and the gradient of its outputs.
pub(crate) fn weight_gradient(x: &[f32], gradient: &[f32], sizes: Sizes) -> Vec<f32> {
    let Sizes { rows, inputs, outputs } = sizes;
    let mut out = vec![0f32; inputs * outputs];
    multiply(best(), Left::Columns(x), Right::F32(gradient), None, [inputs, rows, outputs], &mut out);
    out
}

/// The left matrix of a product, `[m, k]`.
#[derive(Clone, Copy)]
enum Left<'a> {
    /// `[m, k]`, row-major.
    Rows(&'a [f32]),
    /// `[k, m]`, row-major.
    Columns(&'a [f32]),
}

/// The right matrix of a product, `[k, n]`.
#[derive(Clone, Copy)]
enum Right<'a> {
    /// `[k, n]`, row-major.
    F32(&'a [f32]),
    /// `[k, n]`, row-major.
    Bf16(&'a [bf16]),
    /// `[n, k]`, row-major.
    TransposedBf16(&'a [bf16]),
}

/// Buffers of the packed matrices, reused from one product to the next of a thread.
#[derive(Default)]
struct Buffers {
    left: Vec<u32>,
    right: Vec<u32>,
    line: Vec<u32>,
    #[cfg(target_arch = "x86_64")]
    tiles: LeftTiles,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// A product `[m, k]` by `[k, n]`.
struct Product<'a> {
    buffers: &'a mut Buffers,
    left: Left<'a>,
    right: Right<'a>,
    bias: Option<&'a [f32]>,
    sizes: [usize; 3],
    out: &'a mut [f32],
}

fn multiply(
    isa: Isa,
    left: Left<'_>,
    right: Right<'_>,
    bias: Option<&[f32]>,
    sizes: [usize; 3],
    out: &mut [f32],
) {
    let mut buffers = BUFFERS.take();
    let product = Product { buffers: &mut buffers, left, right, bias, sizes, out };
    match sizes.contains(&0) {
        true => product.of_nothing(),
        false => product.run_by(isa),
    }
    BUFFERS.set(buffers);
}

impl Product<'_> {
    /// Runs a product one of whose sizes is 0: outputs are the bias.
    fn of_nothing(self) {
        if let Some(bias) = self.bias {
            self.out.chunks_exact_mut(bias.len().max(1)).for_each(|row| row.copy_from_slice(bias));
        }
    }

    fn run_by(self, isa: Isa) {
        #[cfg(target_arch = "x86_64")]
        if let Some(tiles) = Tiles::configure(isa) {
            return tiles.run(self);
        }
        isa.run_bf16(self);
    }
}

impl DotTask for Product<'_> {
    #[inline(always)]
    fn run<S: Simd, D: Dot<Number = u32>, const NR: usize, const MR: usize>(self) {
        let Self { buffers, left, right, bias, sizes: [m, k, n], out } = self;
        let words = k.div_ceil(2);
        let by_columns = matches!(left, Left::Columns(_));
        let packed = grown(&mut buffers.left, m * words);
        left.pack(m, k, packed);
        let mut panels = Panels::reusing(take(&mut buffers.right), n, words, NR);
        let interleave = |low: &[f32], high: &[f32], to: &mut [u32]| interleave(low, high, round, to);
        right.pack([k, n, words], interleave, &mut buffers.line, &mut panels);
        let mut sums = [[0f32; NR]; MAX_MR];
        for (index, panel) in panels.iter::<NR>().enumerate() {
            let column = index * NR;
            let width = NR.min(n - column);
            for (first, rows) in blocks::<MR>(m) {
                match by_columns {
                    true => product_transposed::<D, NR, MR>(&packed[first..], m, rows, panel, &mut sums),
                    false => {
                        product_by::<D, NR, MR>(&packed[first * words..], words, rows, panel, None, &mut sums)
                    }
                }
                for (row, sums) in (first..).zip(&sums[..rows]) {
                    let to = &mut out[row * n + column..][..width];
                    match bias {
                        Some(bias) => {
                            let all = to.iter_mut().zip(sums).zip(&bias[column..]);
                            all.for_each(|((to, sum), bias)| *to = sum + bias);
                        }
                        None => copy::<S, NR>(sums, to),
                    }
                }
            }
        }
        buffers.right = panels.into_buffer();
    }
}

/// Returns the first `length` words of a buffer, which grows if it is shorter.
#[inline(always)]
fn grown(buffer: &mut Vec<u32>, length: usize) -> &mut [u32] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    &mut buffer[..length]
}

impl Left<'_> {
    /// Sets `words` to the matrix, `[m, ceil(k / 2)]` or, of columns, `[ceil(k / 2), m]`.
    #[inline(always)]
    fn pack(self, m: usize, k: usize, words: &mut [u32]) {
        let stride = k.div_ceil(2);
        match self {
            Left::Rows(values) => {
                for (row, to) in values.chunks_exact(k).zip(words.chunks_exact_mut(stride)) {
                    set_words(row, to);
                }
            }
            Left::Columns(values) => {
                for (pair, line) in values.chunks(2 * m).zip(words.chunks_exact_mut(m)) {
                    let (low, high) = pair.split_at(m);
                    interleave(low, high, round, line);
                }
            }
        }
    }
}

impl Right<'_> {
    /// Sets the panels, each of `words` words for an output, of which those beyond `ceil(k / 2)` are 0. Rows in f32 are
    /// interleaved by `interleaved`, as by [`interleave`]. `line` is a buffer.
    #[inline(always)]
    fn pack(
        self,
        [k, n, words]: [usize; 3],
        interleaved: impl Fn(&[f32], &[f32], &mut [u32]),
        line: &mut Vec<u32>,
        panels: &mut Panels<u32>,
    ) {
        let line = grown(line, words);
        line.fill(0);
        for beyond in k.div_ceil(2)..words {
            panels.input_mut(beyond).for_each(|(_, words)| words.fill(0));
        }
        match self {
            Right::F32(values) => pack_rows(values, n, interleaved, panels),
            Right::Bf16(values) => {
                pack_rows(values, n, |low, high, to| interleave(low, high, bits, to), panels);
            }
            Right::TransposedBf16(values) => {
                for (output, values) in values.chunks_exact(k).enumerate() {
                    for (to, pair) in line.iter_mut().zip(values.chunks(2)) {
                        *to = bits(&pair[0]) | pair.get(1).map_or(0, bits) << 16;
                    }
                    panels.set_rows(output, line);
                }
            }
        }
    }
}

/// Sets the panels to a matrix of rows of `n` numbers, two rows to a row of words, which `interleave` sets.
#[inline(always)]
fn pack_rows<T>(
    values: &[T],
    n: usize,
    interleave: impl Fn(&[T], &[T], &mut [u32]),
    panels: &mut Panels<u32>,
) {
    for (input, pair) in values.chunks(2 * n).enumerate() {
        let (low, high) = pair.split_at(n);
        for (first, words) in panels.input_mut(input) {
            interleave(&low[first..], high.get(first..).unwrap_or_default(), words);
        }
    }
}

/// Returns the bits of the bf16 nearest to a number.
#[inline(always)]
fn round(x: &f32) -> u32 {
    to_bf16(*x)
}

/// Returns the bits of a bf16.
#[inline(always)]
fn bits(x: &bf16) -> u32 {
    u32::from(x.to_bits())
}

/// Interleaves two rows of numbers in bf16 into words: a number of `low` in the low 16 bits, the one of `high` in the
/// high 16 bits, or 0 where `high` is empty. As many numbers are taken as there are words.
#[inline(always)]
fn interleave<T>(low: &[T], high: &[T], to_bits: impl Fn(&T) -> u32, words: &mut [u32]) {
    match high.is_empty() {
        true => words.iter_mut().zip(low).for_each(|(word, low)| *word = to_bits(low)),
        false => {
            let pairs = low.iter().zip(high);
            words
                .iter_mut()
                .zip(pairs)
                .for_each(|(word, (low, high))| *word = to_bits(low) | to_bits(high) << 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize, step: f32) -> Vec<f32> {
        (0..length).map(|i| (i as f32 * step).sin() * 2.0).collect()
    }

    /// Returns the bf16 nearest to each number.
    fn rounded(values: &[f32]) -> Vec<bf16> {
        values.iter().map(|value| bf16::from_f32(*value)).collect()
    }

    /// Returns `[m, n]`, computed in double precision of numbers rounded to bf16; `left` and `right` give the number
    /// at a row and a column.
    fn reference(
        [m, k, n]: [usize; 3],
        left: impl Fn(usize, usize) -> f32,
        right: impl Fn(usize, usize) -> f32,
    ) -> Vec<f64> {
        let round = |value: f32| bf16::from_f32(value).to_f64();
        let sum = |row, column| (0..k).map(|at| round(left(row, at)) * round(right(at, column))).sum();
        (0..m * n).map(|at| sum(at / n, at % n)).collect()
    }

    /// Asserts that sums of `terms` products are near the expected ones.
    fn near(isa: Isa, what: &str, terms: usize, got: &[f32], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        let most = 1e-6 * terms.max(100) as f64;
        for (got, expected) in got.iter().zip(expected) {
            assert!((f64::from(*got) - expected).abs() < most, "{isa:?}, {what}: {got} is not {expected}");
        }
    }

    #[test]
    fn every_instruction_set_multiplies_every_size() {
        for [m, k, n] in [
            [1, 1, 1],
            [7, 5, 3],
            [9, 34, 49],
            [40, 67, 97],
            [3, 200, 48],
            [2, 2, 130],
            [300, 1100, 60],
            [1100, 60, 300],
        ] {
            let (x, weight, gradient) = (wave(m * k, 0.7), wave(k * n, 0.3), wave(m * n, 0.9));
            let bias = wave(n, 1.1);
            let narrow = rounded(&weight);
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; m * n];
                let right = Right::Bf16(&narrow);
                multiply(isa, Left::Rows(&x), right, Some(&bias), [m, k, n], &mut out);
                let mut expected = reference([m, k, n], |i, j| x[i * k + j], |i, j| weight[i * n + j]);
                expected.iter_mut().enumerate().for_each(|(at, value)| *value += f64::from(bias[at % n]));
                near(isa, "outputs", k, &out, &expected);

                let mut out = vec![f32::NAN; m * k];
                let right = Right::TransposedBf16(&narrow);
                multiply(isa, Left::Rows(&gradient), right, None, [m, n, k], &mut out);
                let expected = reference([m, n, k], |i, j| gradient[i * n + j], |i, j| weight[j * n + i]);
                near(isa, "gradient of inputs", n, &out, &expected);

                let mut out = vec![f32::NAN; k * n];
                let right = Right::F32(&gradient);
                multiply(isa, Left::Columns(&x), right, None, [k, m, n], &mut out);
                let expected = reference([k, m, n], |i, j| x[j * k + i], |i, j| gradient[i * n + j]);
                near(isa, "gradient of weights", m, &out, &expected);
            }
        }
    }

    #[test]
    fn a_number_that_is_not_finite_reaches_what_depends_on_it_and_nothing_else() {
        let sizes = Sizes { rows: 3, inputs: 4, outputs: 5 };
        let (mut x, weight) = (wave(12, 0.7), rounded(&wave(20, 0.3)));
        x[5] = f32::NAN;
        let out = outputs(&x, &weight, &[0.0; 5], sizes);
        for (at, value) in out.iter().enumerate() {
            assert_eq!(value.is_nan(), at / 5 == 1, "{at}");
        }
        let gradient = weight_gradient(&x, &wave(15, 0.9), sizes);
        for (at, value) in gradient.iter().enumerate() {
            assert_eq!(value.is_nan(), at / 5 == 1, "{at}");
        }
    }

    #[test]
    fn no_rows_give_no_outputs_and_gradients_of_zero() {
        let sizes = Sizes { rows: 0, inputs: 2, outputs: 3 };
        let weight = rounded(&wave(6, 0.3));
        assert!(outputs(&[], &weight, &[0.0; 3], sizes).is_empty());
        assert!(input_gradient(&[], &weight, sizes).is_empty());
        assert_eq!(weight_gradient(&[], &[], sizes), [0.0; 6]);
    }
}
