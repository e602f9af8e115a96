//! Linear layers `x W^T + b`, in single precision or narrower, with the following operation (the epilogue) done while
//! the sums are in registers.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over fixed arrays by index are what stays in registers"
)]

use super::super::dot::Single;
use super::super::gemm::{self, Panels, ahead, blocks, blocks_of};
use super::super::isa::{Isa, MAX_MR, vectorised};
use super::gemm_q8::{self, InputBits, MANY, OUTPUTS, QuantizedInput, QuantizedPanels, RowTiles};
#[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
use super::gemm_q8::{ByteInput, BytePanels, QuadInput, QuadPanels};
#[cfg(not(target_arch = "wasm32"))]
use super::narrow::{Format, NarrowInput, NarrowPanels};
pub(super) use super::output::Epilogue;
use super::output::Output;
pub(super) use super::part::Part;
use crate::precision::Precision;
use crate::weights::Matrix;

/// A linear layer of `n` outputs.
#[derive(Debug)]
pub(super) struct Linear {
    weights: Weights,
    /// `[n]`, with zeros to a whole number of panels.
    bias: Vec<f32>,
}

#[derive(Debug)]
enum Weights {
    F32(Panels),
    Q8(QuantizedPanels),
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    Quads(QuadPanels),
    #[cfg(not(target_arch = "wasm32"))]
    Narrow(NarrowPanels),
}

/// Inputs of a layer in the numbers that it multiplies; reused from one layer to the next.
#[derive(Debug, Default)]
pub(super) struct ConvertedInput {
    /// Bits of the inputs where weights have 8.
    bits: InputBits,
    quantized: QuantizedInput,
    tiles: RowTiles,
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    quads: QuadInput,
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    bytes: ByteInput,
    #[cfg(not(target_arch = "wasm32"))]
    narrow: NarrowInput,
}

impl ConvertedInput {
    /// Returns empty buffers, for inputs of so many bits where weights have 8.
    pub(super) fn of(bits: InputBits) -> Self {
        Self { bits, ..Self::default() }
    }
}

impl Linear {
    /// Puts layers with the same `k` inputs side by side, to be multiplied in `precision`.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn at(isa: Isa, precision: Precision, parts: Vec<Part>, k: usize) -> Self {
        let format = match precision {
            Precision::F32 => return Self::new(isa, parts, k),
            Precision::Bf16 => Format::Bf16,
            Precision::Int8 => Format::Int8,
        };
        let bias = bias(&parts, isa.panel_width());
        Self { weights: Weights::Narrow(NarrowPanels::new(isa, format, parts, k)), bias }
    }

    /// Returns a layer after the pooling of an encoder in `precision`: in bf16 where that is narrower than single
    /// precision, because no later layers even out what 8 bits would lose, and as it comes where it comes in 8 bits.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn of_head(isa: Isa, precision: Precision, part: Part, k: usize) -> Self {
        let is_narrowed = precision != Precision::F32 && matches!(part.weight, Matrix::F32(_));
        let precision = if is_narrowed { Precision::Bf16 } else { Precision::F32 };
        Self::at(isa, precision, vec![part], k)
    }

    /// As [`Linear::new`]: a browser module has no other precision.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn of_head(isa: Isa, _: Precision, part: Part, k: usize) -> Self {
        Self::new(isa, vec![part], k)
    }

    /// As [`Linear::new`]: a browser module has no other precision.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn at(isa: Isa, _: Precision, parts: Vec<Part>, k: usize) -> Self {
        Self::new(isa, parts, k)
    }

    /// Puts layers with the same `k` inputs side by side; in 8 bits when all are.
    pub(super) fn new(isa: Isa, parts: Vec<Part>, k: usize) -> Self {
        let quantized = parts.iter().all(|part| matches!(part.weight, Matrix::Q8 { .. }));
        let width = if quantized { OUTPUTS } else { isa.panel_width() };
        let bias = bias(&parts, width);
        let weights = if quantized { quantized_panels(&parts, k) } else { panels(parts, k, width) };
        Self { weights, bias }
    }

    /// Returns the number of outputs of the layer.
    pub(super) fn n(&self) -> usize {
        match &self.weights {
            Weights::F32(panels) => panels.n(),
            Weights::Q8(panels) => panels.n(),
            #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
            Weights::Quads(panels) => panels.n(),
            #[cfg(not(target_arch = "wasm32"))]
            Weights::Narrow(panels) => panels.n(),
        }
    }

    /// Applies the layer to `x`, row-major `[m, k]`, and leaves `[m, n]` in `out` by way of `epilogue`.
    pub(super) fn apply(
        &self,
        isa: Isa,
        x: &[f32],
        m: usize,
        epilogue: Epilogue,
        scratch: &mut ConvertedInput,
        out: &mut [f32],
    ) {
        let k = x.len() / m.max(1);
        let to = Output { bias: &self.bias, n: self.n(), epilogue, out };
        let bits = scratch.bits;
        match &self.weights {
            Weights::F32(panels) => {
                vectorised!(isa, |x: &[f32], m: usize, k: usize, panels: &Panels, to: Output<'_>| {
                    let (mut to, mut sums) = (to, [[0f32; NR]; MAX_MR]);
                    for (index, panel) in panels.iter::<NR>().enumerate() {
                        for (block, (first, rows)) in blocks::<MR>(m).enumerate() {
                            let (x, ahead) = (&x[first * k..], Some(ahead(panel, block)));
                            gemm::product_by::<Single<S>, NR, MR>(x, k, rows, panel, ahead, &mut sums);
                            to.put::<S, NR>(first, index, &mut sums[..rows]);
                        }
                    }
                });
            }
            #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
            Weights::Q8(panels) if bits == InputBits::Seven => {
                debug_assert_eq!(k, panels.k(), "inputs of the layer");
                let (k, panels, bytes) = (panels.k(), panels.bytes(), &mut scratch.bytes);
                vectorised!(isa, |x: &[f32],
                                  k: usize,
                                  panels: &BytePanels,
                                  bytes: &mut ByteInput,
                                  to: Output<'_>| {
                    let mut to = to;
                    bytes.quantize(x, k);
                    panels.multiply(bytes, |first, panel, products| {
                        to.put_quantized::<S>(first, panel, products);
                    });
                });
            }
            Weights::Q8(panels) => {
                debug_assert_eq!(k, panels.k(), "inputs of the layer");
                let (scratch, tiles) = (&mut scratch.quantized, &mut scratch.tiles);
                vectorised!(isa, |x: &[f32],
                                  m: usize,
                                  panels: &QuantizedPanels,
                                  scratch: &mut QuantizedInput,
                                  tiles: &mut RowTiles,
                                  bits: InputBits,
                                  to: Output<'_>| {
                    scratch.quantize(x, panels.k(), bits);
                    let mut to = to;
                    if cfg!(target_arch = "wasm32") && m >= MANY {
                        tiles.multiply(scratch, panels, |first, panel, products| {
                            to.put_quantized::<S>(first, panel, products);
                        });
                        return;
                    }
                    let mut sums = [[0f32; OUTPUTS]; MAX_MR];
                    for (index, panel) in panels.iter().enumerate() {
                        for (first, rows) in blocks_of(m, gemm_q8::most_rows(MR)) {
                            gemm_q8::product::<MR>(scratch, first, rows, panel, &mut sums);
                            to.put_quantized::<S>(first, index, &mut sums[..rows]);
                        }
                    }
                });
            }
            #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
            Weights::Quads(panels) => {
                debug_assert_eq!(k, panels.k(), "inputs of the layer");
                let quads = &mut scratch.quads;
                vectorised!(isa, |x: &[f32],
                                  panels: &QuadPanels,
                                  quads: &mut QuadInput,
                                  bits: InputBits,
                                  to: Output<'_>| {
                    let mut to = to;
                    quads.quantize(x, panels.k(), bits);
                    panels.multiply(quads, |first, panel, products| {
                        to.put_quantized::<S>(first, panel, products);
                    });
                });
            }
            #[cfg(not(target_arch = "wasm32"))]
            Weights::Narrow(panels) => panels.apply(isa, &x[..m * k], &mut scratch.narrow, to),
        }
    }
}

/// Returns the biases of layers side by side, with zeros to a whole number of panels.
fn bias(parts: &[Part], width: usize) -> Vec<f32> {
    let mut bias: Vec<f32> =
        parts.iter().flat_map(|part| part.bias.iter().map(|bias| bias * part.factor)).collect();
    bias.resize(bias.len().next_multiple_of(width), 0.0);
    bias
}

fn quantized_panels(parts: &[Part], k: usize) -> Weights {
    let parts: Vec<(&[i8], &[f32], f32)> = parts
        .iter()
        .filter_map(|part| match &part.weight {
            Matrix::Q8 { values, scales } => Some((values.as_slice(), scales.as_slice(), part.factor)),
            Matrix::F32(_) => None,
        })
        .collect();
    #[cfg(all(target_arch = "wasm32", feature = "relaxed-simd"))]
    if gemm_q8::is_selected() {
        return Weights::Quads(QuadPanels::new(&parts, k));
    }
    Weights::Q8(QuantizedPanels::new(&parts, k))
}

fn panels(parts: Vec<Part>, k: usize, width: usize) -> Weights {
    let n = parts.iter().map(|part| part.bias.len()).sum();
    let mut panels = Panels::new(n, k, width);
    let mut first = 0;
    for part in parts {
        let mut values = part.weight.into_f32();
        if part.factor != 1.0 {
            values.iter_mut().for_each(|value| *value *= part.factor);
        }
        panels.set_rows(first, &values);
        first += part.bias.len();
    }
    Weights::F32(panels)
}
