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

mod codes;
mod input;
#[cfg(target_arch = "x86_64")]
mod tiles;

use half::bf16;

use super::super::dot::{Dot, WholeDot, byte_words, split_pairs};
use super::super::gemm::{MAX_VECTORS, Panels, ahead, blocks, product_by};
use super::super::isa::{DotTask, Isa, MAX_MR, WholeTask};
#[cfg(target_arch = "x86_64")]
use super::super::tiles::{Tiles, WORDS};
use super::super::vector::{Simd, prefetch_beyond};
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
    /// `[n, ceil(k / numbers in a word)]`, and zeros up to whole tiles where the instruction set has these.
    words: Panels<u32>,
    format: Format,
    k: usize,
    /// Outputs of a panel.
    width: usize,
    /// In 8 bits, for each panel and group of inputs, the scales of the outputs' weights and the sums of these weights
    /// times their scale, `[panels, groups, 2, width]`: in the order of their use.
    factors: Vec<f32>,
}

impl NarrowPanels {
    /// Packs layers of the same `k` inputs side by side.
    pub(super) fn new(isa: Isa, format: Format, parts: Vec<Part>, k: usize) -> Self {
        let (n, width): (usize, usize) = (parts.iter().map(|part| part.bias.len()).sum(), isa.panel_width());
        let words = Panels::new(n, whole_words(isa, k.div_ceil(format.per_word())), width);
        let groups = if format == Format::Int8 { k.div_ceil(GROUP) } else { 0 };
        let factors = vec![0.0; 2 * groups * n.next_multiple_of(width)];
        let mut packed = Self { words, format, k, width, factors };
        let mut first = 0;
        for part in parts {
            let rows = part.bias.len();
            match format {
                Format::Bf16 => packed.set_bf16(first, part),
                Format::Int8 => packed.set_int8(first, part),
            }
            first += rows;
        }
        if format == Format::Int8 && isa.whole_parts() == 2 {
            packed.words.lines_mut().for_each(split_pairs);
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
            self.words.set_row(row, words);
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
            self.words.set_row(row, byte_words(values));
            for (group, (values, scale)) in values.chunks(GROUP).zip(scales).enumerate() {
                let (width, scale) = (self.width, scale * part.factor);
                let at = 2 * width * (row / width * k.div_ceil(GROUP) + group) + row % width;
                self.factors[at] = scale;
                self.factors[at + width] =
                    values.iter().map(|value| i32::from(*value)).sum::<i32>() as f32 * scale;
            }
        }
    }

    /// Computes the products with `x`, row-major `[m, k]`, and gives them to `to`.
    pub(super) fn apply(&self, isa: Isa, x: &[f32], inputs: &mut NarrowInput, to: Output<'_>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(tiles) = Tiles::configure(isa) {
            tiles.run(tiles::Product { x, panels: self, inputs: &mut inputs.tiles, to });
            return;
        }
        let product = Product { x, panels: self, inputs, to };
        match self.format {
            Format::Bf16 => isa.run_bf16(product),
            Format::Int8 => isa.run_bytes(product),
        }
    }
}

/// Returns the words in a panel's column for so many of a matrix: whole tiles where `isa` has them.
fn whole_words(isa: Isa, words: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if isa.has_tiles() {
        return words.next_multiple_of(WORDS);
    }
    let _ = isa;
    words
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
            for (block, (first, rows)) in blocks::<MR>(x.len() / panels.k).enumerate() {
                let words = &inputs.words[first * panel.len()..];
                let ahead = Some(ahead(panel, block));
                product_by::<D, NR, MR>(words, panel.len(), rows, panel, ahead, &mut sums);
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
        inputs.fill_int8::<D>(x, panels.k);
        let mut sums = [[0f32; NR]; MAX_MR];
        for (index, words) in panels.words.iter::<NR>().enumerate() {
            let panel = panels.panel_of(index, words);
            for (block, (first, rows)) in blocks::<MR>(x.len() / panels.k).enumerate() {
                let ahead = ahead(words, block);
                // The guards are constants: only the sizes that the instruction set uses are compiled.
                match rows {
                    1 => panel.tile::<D, 1>(inputs, first, ahead, &mut sums),
                    2 if MR >= 2 => panel.tile::<D, 2>(inputs, first, ahead, &mut sums),
                    3 if MR >= 3 => panel.tile::<D, 3>(inputs, first, ahead, &mut sums),
                    4 if MR >= 4 => panel.tile::<D, 4>(inputs, first, ahead, &mut sums),
                    5 if MR >= 5 => panel.tile::<D, 5>(inputs, first, ahead, &mut sums),
                    6 if MR >= 6 => panel.tile::<D, 6>(inputs, first, ahead, &mut sums),
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
        let factors = self.factors.as_chunks::<NR>().0.as_chunks::<2>().0;
        let groups = words.len().div_ceil(GROUP_WORDS);
        BytePanel { words, factors: &factors[index * groups..][..groups] }
    }
}

/// A panel in 8 bits.
struct BytePanel<'a, const NR: usize> {
    words: &'a [[u32; NR]],
    /// For each group of inputs, the scales of the weights and their sums times the scales.
    factors: &'a [[[f32; NR]; 2]],
}

impl<const NR: usize> BytePanel<'_, NR> {
    /// Computes the products of `ROWS` tokens from `first` on, group by group, into `to`, and prefetches what lies
    /// `ahead` of the panel.
    #[inline(always)]
    fn tile<D: WholeDot, const ROWS: usize>(
        &self,
        inputs: &NarrowInput,
        first: usize,
        ahead: usize,
        to: &mut [[f32; NR]; MAX_MR],
    ) {
        let (stride, groups) = (self.words.len(), self.words.len().div_ceil(GROUP_WORDS));
        let mut of_rows: [&[[f32; 2]]; ROWS] = [&[]; ROWS];
        for i in 0..ROWS {
            of_rows[i] = &inputs.scales[(first + i) * groups..][..groups];
        }
        for (group, words) in self.words.chunks(GROUP_WORDS).enumerate() {
            let mut rows: [&[[u8; 4]]; ROWS] = [&[]; ROWS];
            for i in 0..ROWS {
                let at = (first + i) * stride + group * GROUP_WORDS;
                rows[i] = &inputs.codes[D::PARTS * at..][..D::PARTS * words.len()];
            }
            let mut whole = [[D::zero(); MAX_VECTORS]; ROWS];
            for (k, weights) in words.iter().enumerate() {
                prefetch_beyond(weights.as_slice(), ahead);
                for part in 0..D::PARTS {
                    for i in 0..ROWS {
                        let input = D::input(u32::from_le_bytes(rows[i][k * D::PARTS + part]));
                        for v in 0..NR / D::LANES {
                            whole[i][v] = D::add(whole[i][v], input, weights, part, v);
                        }
                    }
                }
            }
            // Row by row, not in a loop: the sums of one that is not unrolled would go through memory.
            let factors = &self.factors[group];
            macro_rules! add_rows {
                ($($i:literal)*) => {
                    $(if $i < ROWS {
                        add_group::<D, NR>(whole[$i], &of_rows[$i][group], factors, group == 0, &mut to[$i]);
                    })*
                };
            }
            add_rows!(0 1 2 3 4 5);
        }
    }
}

/// Adds a group's whole sums of one token to its products: times the scales of the weights and of the token's inputs,
/// and with the offset of these.
#[inline(always)]
fn add_group<D: WholeDot, const NR: usize>(
    whole: [D::V; MAX_VECTORS],
    of_row: &[f32; 2],
    [scales, totals]: &[[f32; NR]; 2],
    is_first: bool,
    to: &mut [f32; NR],
) {
    let (scale, offset) = (D::Single::splat(of_row[0]), D::Single::splat(of_row[1]));
    for v in 0..NR / D::LANES {
        let before = if is_first { D::Single::splat(0.0) } else { D::Single::load(to, v) };
        let sum = D::Single::fused(D::Single::load(totals, v), offset, before);
        let product = D::Single::mul(D::to_single(whole[v]), scale);
        D::Single::store(D::Single::fused(product, D::Single::load(scales, v), sum), to, v);
    }
}
