//! Layers whose products are computed from narrower numbers than single precision: bf16 or 8 bits.
//!
//! Weights are packed once, inputs at each product, into words of 32 bits along the inputs (see [`super::super::dot`]).
//!
//! An input in 8 bits is `offset + scale_x * code` with a code from 0 to 255, and an offset and a scale for each
//! [`GROUP`] of a token's inputs. A weight is `scale_w * w` with a `w` from -127 to 127, and a scale for each output
//! and group, or for each output alone where the model's file is in 8 bits. The sum over a group is
//! `scale_w * (scale_x * Σ code w + offset * Σ w)`: the first sum is of integers, the second is computed when the
//! weights are packed. One scale for a whole row would lose more, since few of its numbers are much larger than the
//! others.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over fixed arrays by index are what stays in registers"
)]

mod input;

use half::bf16;

use super::super::dot::{Dot, WholeDot};
use super::super::gemm::{MAX_VECTORS, Panels, blocks, product_by, step};
use super::super::isa::{DotTask, Isa, MAX_MR, WholeTask};
use super::super::vector::Simd;
use super::output::Output;
use super::part::Part;
use crate::weights::{Matrix, quantize_rows};
pub(super) use input::NarrowInput;

/// The numbers that a narrow layer multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Bf16,
    Int8,
}

/// Inputs of a token that share a scale and an offset in 8 bits.
const GROUP: usize = 128;
/// Words of a group, four inputs each.
const GROUP_WORDS: usize = GROUP / 4;

impl Format {
    /// Returns the numbers in a word.
    fn per_word(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::Int8 => 4,
        }
    }
}

/// A matrix `[n, k]` in narrow numbers.
#[derive(Debug)]
pub(super) struct NarrowPanels {
    /// `[n, ceil(k / numbers in a word)]`.
    words: Panels<u32>,
    format: Format,
    k: usize,
    /// Outputs with those that fill the last panel.
    outputs: usize,
    /// In 8 bits, the scale of each output's weights for each group of inputs, `[groups, outputs]`.
    scales: Vec<f32>,
    /// In 8 bits, the sum of each output's weights over each group of inputs, times their scale, `[groups, outputs]`.
    sums: Vec<f32>,
}

impl NarrowPanels {
    /// Packs layers of the same `k` inputs side by side.
    pub(super) fn new(isa: Isa, format: Format, parts: Vec<Part>, k: usize) -> Self {
        let (n, width): (usize, usize) = (parts.iter().map(|part| part.bias.len()).sum(), isa.panel_width());
        let words = Panels::new(n, k.div_ceil(format.per_word()), width);
        let outputs = n.next_multiple_of(width);
        let groups = if format == Format::Int8 { k.div_ceil(GROUP) } else { 0 };
        let (scales, sums) = (vec![0.0; groups * outputs], vec![0.0; groups * outputs]);
        let mut packed = Self { words, format, k, outputs, scales, sums };
        let mut first = 0;
        for part in parts {
            let rows = part.bias.len();
            match format {
                Format::Bf16 => packed.set_bf16(first, part),
                Format::Int8 => packed.set_int8(first, part),
            }
            first += rows;
        }
        packed
    }

    /// Returns the number of outputs of the matrix.
    pub(super) fn n(&self) -> usize {
        self.words.n()
    }

    fn set_bf16(&mut self, first: usize, part: Part) {
        let values = part.weight.into_f32();
        for (row, values) in (first..).zip(values.chunks_exact(self.k)) {
            let bits = |value: &f32| bf16::from_f32(value * part.factor).to_bits();
            let words = values.chunks(2).map(|pair| match pair {
                [low, high] => u32::from(bits(low)) | u32::from(bits(high)) << 16,
                rest => rest.iter().map(|low| u32::from(bits(low))).sum(),
            });
            self.words.set_rows(row, &words.collect::<Vec<_>>());
        }
    }

    fn set_int8(&mut self, first: usize, part: Part) {
        let k = self.k;
        let (values, scales) = match part.weight {
            Matrix::F32(values) => {
                let groups = values.chunks_exact(k).flat_map(|row| row.chunks(GROUP));
                let (codes, scales): (Vec<_>, Vec<_>) =
                    groups.map(|group| quantize_rows(group, group.len())).unzip();
                (codes.concat(), scales.concat())
            }
            Matrix::Q8 { values, scales } => {
                (values, scales.iter().flat_map(|scale| vec![*scale; k.div_ceil(GROUP)]).collect())
            }
        };
        let rows = values.chunks_exact(k).zip(scales.chunks_exact(k.div_ceil(GROUP)));
        for (row, (values, scales)) in (first..).zip(rows) {
            let words = values.chunks(4).map(|four| {
                let mut bytes = [0u8; 4];
                bytes.iter_mut().zip(four).for_each(|(byte, value)| *byte = *value as u8);
                u32::from_le_bytes(bytes)
            });
            self.words.set_rows(row, &words.collect::<Vec<_>>());
            for (group, (values, scale)) in values.chunks(GROUP).zip(scales).enumerate() {
                let (at, scale) = (group * self.outputs + row, scale * part.factor);
                self.scales[at] = scale;
                self.sums[at] = values.iter().map(|value| i32::from(*value)).sum::<i32>() as f32 * scale;
            }
        }
    }

    /// Computes the products with `x`, row-major `[m, k]`, and gives them to `to`.
    pub(super) fn apply(&self, isa: Isa, x: &[f32], inputs: &mut NarrowInput, to: Output<'_>) {
        let product = Product { x, panels: self, inputs, to };
        match self.format {
            Format::Bf16 => isa.run_bf16(product),
            Format::Int8 => isa.run_bytes(product),
        }
    }
}

/// The products of one layer.
struct Product<'a> {
    x: &'a [f32],
    panels: &'a NarrowPanels,
    inputs: &'a mut NarrowInput,
    to: Output<'a>,
}

/// In bf16.
impl DotTask for Product<'_> {
    #[inline(always)]
    fn run<S: Simd, D: Dot<Number = u32>, const NR: usize, const MR: usize>(self) {
        let Self { x, panels, inputs, mut to } = self;
        inputs.fill_bf16(x, panels.k);
        let mut sums = [[0f32; NR]; MAX_MR];
        for (index, panel) in panels.words.iter::<NR>().enumerate() {
            for (first, rows) in blocks::<MR>(x.len() / panels.k) {
                let words = &inputs.words[first * panel.len()..];
                product_by::<D, NR, MR>(words, panel.len(), rows, panel, &mut sums);
                to.put::<S, NR>(first, index, &mut sums[..rows]);
            }
        }
    }
}

/// In 8 bits.
impl WholeTask for Product<'_> {
    #[inline(always)]
    fn run<D: WholeDot, const NR: usize, const MR: usize>(self) {
        let Self { x, panels, inputs, mut to } = self;
        inputs.fill_int8::<D::Single>(x, panels.k);
        let mut sums = [[0f32; NR]; MAX_MR];
        for (index, words) in panels.words.iter::<NR>().enumerate() {
            let panel = panels.panel_of(index, words);
            for (first, rows) in blocks::<MR>(x.len() / panels.k) {
                // The guards are constants: only the sizes that the instruction set uses are compiled.
                match rows {
                    1 => panel.tile::<D, 1>(inputs, first, &mut sums),
                    2 if MR >= 2 => panel.tile::<D, 2>(inputs, first, &mut sums),
                    3 if MR >= 3 => panel.tile::<D, 3>(inputs, first, &mut sums),
                    4 if MR >= 4 => panel.tile::<D, 4>(inputs, first, &mut sums),
                    _ => debug_assert_eq!(rows, 0, "blocks are at most MR rows"),
                }
                to.put::<D::Single, NR>(first, index, &mut sums[..rows]);
            }
        }
    }
}

impl NarrowPanels {
    /// Returns panel `index` in 8 bits with what its groups need.
    #[inline(always)]
    fn panel_of<'a, const NR: usize>(&'a self, index: usize, words: &'a [[u32; NR]]) -> BytePanel<'a, NR> {
        let outputs = self.outputs;
        BytePanel { words, outputs, sums: &self.sums[index * NR..], scales: &self.scales[index * NR..] }
    }
}

/// A panel in 8 bits.
struct BytePanel<'a, const NR: usize> {
    words: &'a [[u32; NR]],
    /// Outputs of the layer with those that fill the last panel.
    outputs: usize,
    /// From this panel's first output on, the sums of the weights over the first group of inputs, times their scales;
    /// `outputs` further on those over the second.
    sums: &'a [f32],
    /// The scales of the weights, in the same order.
    scales: &'a [f32],
}

impl<const NR: usize> BytePanel<'_, NR> {
    /// Computes the products of `ROWS` tokens from `first` on, group by group, into `to`.
    #[inline(always)]
    fn tile<D: WholeDot, const ROWS: usize>(
        &self,
        inputs: &NarrowInput,
        first: usize,
        to: &mut [[f32; NR]; MAX_MR],
    ) {
        let (stride, groups) = (self.words.len(), self.words.len().div_ceil(GROUP_WORDS));
        let mut sums = [[D::Single::splat(0.0); MAX_VECTORS]; ROWS];
        for (group, words) in self.words.chunks(GROUP_WORDS).enumerate() {
            let mut rows: [&[[u8; 4]]; ROWS] = [&[]; ROWS];
            for i in 0..ROWS {
                rows[i] = &inputs.codes[(first + i) * stride + group * GROUP_WORDS..][..words.len()];
            }
            let mut whole = [[D::zero(); MAX_VECTORS]; ROWS];
            let mut input = [0u32; ROWS];
            for (k, weights) in words.iter().enumerate() {
                for i in 0..ROWS {
                    input[i] = u32::from_le_bytes(rows[i][k]);
                }
                step::<D, NR, ROWS>(&mut whole, input, weights);
            }
            let [totals, scales] = [self.sums, self.scales].map(|of| &of[group * self.outputs..][..NR]);
            for i in 0..ROWS {
                let [scale, offset] = inputs.scales[(first + i) * groups + group].map(D::Single::splat);
                for v in 0..NR / D::LANES {
                    let product = D::Single::mul(D::to_single(whole[i][v]), scale);
                    let product = D::Single::mul(product, D::Single::load(scales, v));
                    let shift = D::Single::mul(D::Single::load(totals, v), offset);
                    sums[i][v] = D::Single::add(sums[i][v], D::Single::add(product, shift));
                }
            }
        }
        for i in 0..ROWS {
            for v in 0..NR / D::LANES {
                D::Single::store(sums[i][v], &mut to[i], v);
            }
        }
    }
}
