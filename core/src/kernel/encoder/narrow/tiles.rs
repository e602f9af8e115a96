//! The products of a narrow layer by AMX: 32 tokens with a panel at a time.

use super::super::super::dot::{NativeBytes, WholeDot};
use super::super::super::tiles::{LeftTiles, PAIR, Sums, TileTask, Tiles, WIDTH, WORDS};
use super::super::super::vector::{Avx512, Simd};
use super::super::output::Output;
use super::codes::Codes;
use super::{Format, GROUP, GROUP_WORDS, NarrowPanels};

/// Inputs of a product in tiles; reused from one product to the next.
#[derive(Debug, Default)]
pub(in super::super) struct TileInput {
    left: LeftTiles,
    /// In 8 bits, the scale and the offset of each group of inputs, `[m, groups]`.
    scales: Vec<[f32; 2]>,
}

impl TileInput {
    /// Replaces the contents by `x`, row-major `[m, k]`, in bf16.
    #[inline(always)]
    fn fill_bf16(&mut self, tiles: &Tiles, x: &[f32], k: usize) {
        self.left.resize(x.len() / k, k.div_ceil(2));
        for (row, values) in x.chunks_exact(k).enumerate() {
            self.left.set_bf16(tiles, row, values);
        }
    }

    /// Replaces the contents by `x`, row-major `[m, k]`, in 8 bits. Codes beyond `k` have no meaning: their weights
    /// are 0.
    #[inline(always)]
    fn fill_int8(&mut self, x: &[f32], k: usize) {
        let m = x.len() / k;
        self.left.resize(m, k.div_ceil(4));
        self.scales.clear();
        for (row, values) in x.chunks_exact(k).enumerate() {
            let mut lines = self.left.lines_mut(row);
            for group in values.chunks(GROUP) {
                let codes = Codes::of::<Avx512>(group);
                for (values, line) in group.chunks(4 * WORDS).zip(&mut lines) {
                    match values.first_chunk::<{ 4 * WORDS }>() {
                        // The loops are alike, but the compiler knows the length of the first one.
                        Some(values) => codes.write(values, line),
                        None => codes.write(values, line),
                    }
                }
                self.scales.push(codes.scale_and_offset());
            }
        }
    }
}

/// The products of one layer.
pub(super) struct Product<'a> {
    pub(super) x: &'a [f32],
    pub(super) panels: &'a NarrowPanels,
    pub(super) inputs: &'a mut TileInput,
    pub(super) to: Output<'a>,
}

impl TileTask for Product<'_> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        match self.panels.format {
            Format::Bf16 => self.bf16(tiles),
            Format::Int8 => self.int8(tiles),
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn bf16(self, tiles: &Tiles) {
        let Self { x, panels, inputs, mut to } = self;
        let m = x.len() / panels.k;
        inputs.fill_bf16(tiles, x, panels.k);
        let pairs = m.div_ceil(PAIR);
        let mut sums = [Sums([[0f32; WIDTH]; PAIR]), Sums([[0f32; WIDTH]; PAIR])];
        for (index, panel) in panels.words.iter::<WIDTH>().enumerate() {
            // One pair of bands is multiplied while the sums of the one before it become outputs.
            for pair in 0..=pairs {
                if pair < pairs {
                    let (low, high) = inputs.left.pair(pair, m);
                    let ahead = if pair == 0 { size_of_val(panel) } else { 0 };
                    tiles.bf16(low, high, panel, ahead, &mut sums[pair % 2]);
                }
                if pair > 0 {
                    let first = (pair - 1) * PAIR;
                    let sums = &mut sums[(pair - 1) % 2].0[..PAIR.min(m - first)];
                    to.put::<Avx512, WIDTH>(first, index, sums);
                }
            }
        }
    }

    #[inline(always)]
    fn int8(self, tiles: &Tiles) {
        let Self { x, panels, inputs, mut to } = self;
        let m = x.len() / panels.k;
        inputs.fill_int8(x, panels.k);
        let groups = panels.k.div_ceil(GROUP);
        let steps = m.div_ceil(PAIR) * groups;
        let mut whole = [Sums([[0u32; WIDTH]; PAIR]), Sums([[0u32; WIDTH]; PAIR])];
        let mut sums = Sums([[0f32; WIDTH]; PAIR]);
        for (index, words) in panels.words.iter::<WIDTH>().enumerate() {
            let panel = panels.panel_of(index, words);
            // A group of inputs is multiplied while the whole sums of the one before it are scaled.
            for step in 0..=steps {
                if step < steps {
                    let (pair, group) = (step / groups, step % groups);
                    let (low, high) = inputs.left.pair(pair, m);
                    let words = &words[group * GROUP_WORDS..];
                    let words = &words[..GROUP_WORDS.min(words.len())];
                    let from = group * GROUP_WORDS / WORDS;
                    let ahead = if pair == 0 { size_of_val(panel.words) } else { 0 };
                    let high = high.map(|high| &high[from..]);
                    tiles.bytes(&low[from..], high, words, ahead, &mut whole[step % 2]);
                }
                if step > 0 {
                    let (pair, group) = ((step - 1) / groups, (step - 1) % groups);
                    let first = pair * PAIR;
                    let rows = PAIR.min(m - first);
                    let scales = &inputs.scales[first * groups + group..];
                    let scales = scales.iter().step_by(groups);
                    let whole = &whole[(step - 1) % 2].0[..rows];
                    add_scaled(whole, scales, &panel.factors[group], group == 0, &mut sums);
                    if group + 1 == groups {
                        to.put::<Avx512, WIDTH>(first, index, &mut sums.0[..rows]);
                    }
                }
            }
        }
    }
}

/// Adds the products of a group of inputs to `sums`, or sets these to them where it is the `first` one: whole sums times
/// the scales of a token's inputs and of the weights, and the inputs' offset times the weights' total.
#[inline(always)]
fn add_scaled<'a>(
    whole: &[[u32; WIDTH]],
    scales: impl Iterator<Item = &'a [f32; 2]>,
    [factors, totals]: &[[f32; WIDTH]; 2],
    first: bool,
    sums: &mut Sums<f32>,
) {
    for ((whole, to), [scale, offset]) in whole.iter().zip(&mut sums.0).zip(scales) {
        let [scale, offset] = [*scale, *offset].map(Avx512::splat);
        for v in 0..WIDTH / Avx512::LANES {
            let before = if first { Avx512::splat(0.0) } else { Avx512::load(to, v) };
            let sum = Avx512::fused(Avx512::load(totals, v), offset, before);
            let product = NativeBytes::to_single(NativeBytes::load_sums(whole, v));
            let sum = Avx512::fused(Avx512::mul(product, scale), Avx512::load(factors, v), sum);
            Avx512::store(sum, to, v);
        }
    }
}
