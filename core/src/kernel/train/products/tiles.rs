//! The products of training by AMX: 32 rows with a panel at a time.

use std::mem::take;

use super::super::super::gemm::Panels;
use super::super::super::tiles::{LeftTiles, PAIR, ROWS, Sums, Tile, TileTask, Tiles, WIDTH, WORDS};
use super::super::super::vector::{Avx512, Simd};
use super::{Left, Product};

/// Tiles along the words of a sum that are multiplied before the next ones: those of some rows and of a panel stay in
/// the cache of the second level.
const STEPS: usize = 32;

/// Pairs of bands that a panel is multiplied with before the next panel.
const PAIRS: usize = 8;

impl TileTask for Product<'_> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        let Self { buffers, left, right, bias, sizes: [m, k, n], out } = self;
        let words = k.div_ceil(2).next_multiple_of(WORDS);
        buffers.tiles.resize(m, words);
        left.pack_tiles(tiles, m, k, &mut buffers.tiles);
        let mut panels = Panels::reusing(take(&mut buffers.right), n, words, WIDTH);
        let interleave = |low: &[f32], high: &[f32], to: &mut [u32]| {
            for (at, to) in (0..).step_by(WORDS).zip(to.chunks_exact_mut(WORDS)) {
                let (low, high) = (low.get(at..).unwrap_or_default(), high.get(at..).unwrap_or_default());
                let line = tiles.interleaved(low, high);
                to.iter_mut().zip(line.as_chunks().0).for_each(|(to, word)| *to = u32::from_le_bytes(*word));
            }
        };
        right.pack([k, n, words], interleave, &mut buffers.line, &mut panels);
        let mut sums = [Sums([[0f32; WIDTH]; PAIR]), Sums([[0f32; WIDTH]; PAIR])];
        let mut to = Outputs { bias, m, n, out };
        let (steps, pairs) = (words / WORDS, m.div_ceil(PAIR));
        // One part is multiplied while the sums of the one before it are stored.
        let (mut count, mut pending) = (0, None);
        for step in (0..steps).step_by(STEPS) {
            let few = STEPS.min(steps - step);
            for start in (0..pairs).step_by(PAIRS) {
                for (index, panel) in panels.iter::<WIDTH>().enumerate() {
                    let panel = &panel[step * WORDS..][..few * WORDS];
                    for pair in start..pairs.min(start + PAIRS) {
                        let (low, high) = buffers.tiles.pair(pair, m);
                        let high = high.map(|high| &high[step..]);
                        tiles.bf16(&low[step..], high, panel, 0, &mut sums[count % 2]);
                        if let Some(part) = pending {
                            to.put(part, &sums[(count + 1) % 2]);
                        }
                        pending = Some(Part { pair, index, first: step == 0 });
                        count += 1;
                    }
                }
            }
        }
        if let Some(part) = pending {
            to.put(part, &sums[(count + 1) % 2]);
        }
        buffers.right = panels.into_buffer();
    }
}

/// The place of some sums: a pair of bands and a panel, and whether they are of the first inputs.
#[derive(Clone, Copy)]
struct Part {
    pair: usize,
    index: usize,
    first: bool,
}

/// The outputs `[m, n]`.
struct Outputs<'a> {
    bias: Option<&'a [f32]>,
    m: usize,
    n: usize,
    out: &'a mut [f32],
}

impl Outputs<'_> {
    /// Sets outputs to sums and the bias, or adds to them sums of further inputs.
    #[inline(always)]
    fn put(&mut self, part: Part, sums: &Sums<f32>) {
        let (row, column) = (part.pair * PAIR, part.index * WIDTH);
        let width = WIDTH.min(self.n - column);
        let bias = self.bias.filter(|_| part.first).map(|bias| &bias[column..][..width]);
        let rows = self.out[row * self.n..].chunks_mut(self.n).take(PAIR.min(self.m - row));
        for (to, sums) in rows.zip(&sums.0) {
            put_row(&mut to[column..][..width], sums, bias, part.first);
        }
    }
}

/// Sets at most [`WIDTH`] outputs to their sums and the bias, or adds sums that are not the `first`.
#[inline(always)]
fn put_row(to: &mut [f32], sums: &[f32; WIDTH], bias: Option<&[f32]>, first: bool) {
    // By vectors: compilers make none of the plain loop.
    let vectors = to.len() / Avx512::LANES;
    for at in 0..vectors {
        let sum = Avx512::load(sums, at);
        let sum = match bias {
            Some(bias) => Avx512::add(sum, Avx512::load(bias, at)),
            None if first => sum,
            None => Avx512::add(sum, Avx512::load(to, at)),
        };
        Avx512::store(sum, to, at);
    }
    for at in vectors * Avx512::LANES..to.len() {
        to[at] = match bias {
            Some(bias) => sums[at] + bias[at],
            None if first => sums[at],
            None => to[at] + sums[at],
        };
    }
}

impl Left<'_> {
    /// Sets `to`, which has room for it, to the matrix `[m, k]`, and to zeros beyond `k`.
    #[inline(always)]
    fn pack_tiles(self, tiles: &Tiles, m: usize, k: usize, to: &mut LeftTiles) {
        match self {
            Left::Rows(values) => {
                for (row, values) in values.chunks_exact(k).enumerate() {
                    to.set_bf16(tiles, row, values);
                }
            }
            Left::Columns(values) => {
                for (step, lines) in values.chunks(2 * WORDS * m).enumerate() {
                    for band in 0..m.div_ceil(ROWS) {
                        let first = band * ROWS;
                        let count = ROWS.min(m - first);
                        let mut words = Tile::ZERO;
                        for (pair, words) in lines.chunks(2 * m).zip(&mut words.0) {
                            let (low, high) = pair.split_at(m);
                            let high = high.get(first..first + count).unwrap_or_default();
                            *words = tiles.interleaved(&low[first..][..count], high);
                        }
                        to.band_mut(band)[step].set_transposed(tiles, &words);
                    }
                }
            }
        }
    }
}
