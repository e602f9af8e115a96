//! Layers whose products are computed from narrower numbers than single precision: bf16 or 8 bits.
//!
//! Weights are packed once, inputs at each product, into words of 32 bits along the inputs (see [`super::super::dot`]).
//!
//! An input in 8 bits is `offset + scale * code` with a code from 0 to 255, and an offset and a scale for each
//! [`GROUP`] of a token's inputs, so that the sum over a group of weights `scale_w * w` is
//! `scale_w * (scale * Σ code w + offset * Σ w)`. The first sum runs over whole numbers and the second is computed when
//! the weights are packed. A scale for a whole token would lose more, since few inputs are much larger than the others.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over fixed arrays by index are what stays in registers"
)]

mod input;

use half::bf16;

use super::super::dot::Dot;
use super::super::gemm::{Panels, blocks, product_by};
use super::super::isa::{DotTask, Isa, MAX_MR};
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
    /// In 8 bits, the scale of each output, `[n]` with zeros to a whole number of panels.
    scales: Vec<f32>,
    /// In 8 bits, the sum of each output's weights over each group of inputs, `[groups, n]` with the same zeros.
    sums: Vec<f32>,
}

impl NarrowPanels {
    /// Packs layers of the same `k` inputs side by side.
    pub(super) fn new(isa: Isa, format: Format, parts: Vec<Part>, k: usize) -> Self {
        let (n, width): (usize, usize) = (parts.iter().map(|part| part.bias.len()).sum(), isa.panel_width());
        let words = Panels::new(n, k.div_ceil(format.per_word()), width);
        let outputs = if format == Format::Int8 { n.next_multiple_of(width) } else { 0 };
        let (scales, sums) = (vec![0.0; outputs], vec![0.0; outputs * k.div_ceil(GROUP)]);
        let mut packed = Self { words, format, k, scales, sums };
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
        let (values, scales) = match part.weight {
            Matrix::F32(values) => quantize_rows(&values, self.k),
            Matrix::Q8 { values, scales } => (values, scales),
        };
        let rows = values.chunks_exact(self.k).zip(scales);
        for (row, (values, scale)) in (first..).zip(rows) {
            let words = values.chunks(4).map(|four| {
                let mut bytes = [0u8; 4];
                bytes.iter_mut().zip(four).for_each(|(byte, value)| *byte = *value as u8);
                u32::from_le_bytes(bytes)
            });
            self.words.set_rows(row, &words.collect::<Vec<_>>());
            self.scales[row] = scale * part.factor;
            let outputs = self.scales.len();
            for (sums, group) in self.sums.chunks_exact_mut(outputs).zip(values.chunks(GROUP)) {
                sums[row] = group.iter().map(|value| i32::from(*value)).sum::<i32>() as f32;
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

impl DotTask for Product<'_> {
    #[inline(always)]
    fn run<S: Simd, D: Dot<Number = u32>, const NR: usize, const MR: usize>(self) {
        let Self { x, panels, inputs, mut to } = self;
        inputs.fill(panels.format, x, panels.k);
        let mut sums = [[0f32; NR]; MAX_MR];
        for (index, panel) in panels.words.iter::<NR>().enumerate() {
            for (first, rows) in blocks::<MR>(x.len() / panels.k) {
                if panels.format == Format::Int8 {
                    panels.groups::<D, NR, MR>((index, panel), inputs, (first, rows), &mut sums);
                } else {
                    let words = &inputs.words[first * panel.len()..];
                    product_by::<D, NR, MR>(words, panel.len(), rows, panel, &mut sums);
                }
                to.put::<S, NR>(first, index, &mut sums[..rows]);
            }
        }
    }
}

impl NarrowPanels {
    /// Computes the products in 8 bits of `rows` tokens from `first` on with a panel, group by group, into `sums`.
    #[inline(always)]
    fn groups<D: Dot<Number = u32>, const NR: usize, const MR: usize>(
        &self,
        (index, panel): (usize, &[[u32; NR]]),
        inputs: &NarrowInput,
        (first, rows): (usize, usize),
        sums: &mut [[f32; NR]; MAX_MR],
    ) {
        let (stride, groups) = (panel.len(), self.k.div_ceil(GROUP));
        let outputs = self.scales.len();
        let mut whole = [[0f32; NR]; MAX_MR];
        for (group, panel) in panel.chunks(GROUP / 4).enumerate() {
            let words = &inputs.words[first * stride + group * (GROUP / 4)..];
            product_by::<D, NR, MR>(words, stride, rows, panel, &mut whole);
            let Some(totals) = self.sums[group * outputs + index * NR..].first_chunk::<NR>() else { return };
            for i in 0..rows {
                let [scale, offset] = inputs.scales[(first + i) * groups + group];
                for j in 0..NR {
                    let before = if group == 0 { 0.0 } else { sums[i][j] };
                    sums[i][j] = before + (whole[i][j] * scale + totals[j] * offset);
                }
            }
        }
        let Some(scales) = self.scales[index * NR..].first_chunk::<NR>() else { return };
        for sums in &mut sums[..rows] {
            for j in 0..NR {
                sums[j] *= scales[j];
            }
        }
    }
}
