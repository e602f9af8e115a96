//! Eight-bit products of many tokens in a browser: tiles of four tokens by eight outputs.
//!
//! A panel is widened to 16 bits once for all tokens, and the tokens of a tile lie side by side. The sums are eight
//! vectors, so that a browser's fifteen vector registers also hold the inputs and weights that the compiler loads ahead.
//! The results are those of [`super::product`], to the bit.

use super::{OUTPUTS, QuantizedInput, QuantizedPanels, Wide, dequantize, lanes};

/// Tokens of a tile.
const ROWS: usize = 4;

/// Least number of tokens that are multiplied in these tiles.
pub(in super::super) const MANY: usize = 32;

/// Buffers of a product; reused from one to the next.
#[derive(Debug, Default)]
pub(in super::super) struct RowTiles {
    /// Inputs in pairs, `[ceil(m / ROWS)][ceil(k / 2)][ROWS]`, zero beyond `m`.
    pairs: Vec<[i32; ROWS]>,
    /// Weights of a panel, `[ceil(k / 2)]`.
    wide: Vec<Wide>,
}

impl RowTiles {
    /// Multiplies `input`, `[m, k]`, by the panels. Gives the products of each tile, `[rows][OUTPUTS]`, to `put`, which
    /// is told its first row and its panel.
    #[inline(always)]
    pub(in super::super) fn multiply(
        &mut self,
        input: &QuantizedInput,
        panels: &QuantizedPanels,
        mut put: impl FnMut(usize, usize, &mut [[f32; OUTPUTS]]),
    ) {
        let stride = panels.k().div_ceil(2);
        self.place(input, stride);
        for (index, (panel, scales)) in panels.iter().enumerate() {
            self.wide.clear();
            self.wide.extend(panel.iter().map(|block| lanes::widen(*block)));
            let tiles = self.pairs.chunks_exact(stride).zip(input.scales.chunks(ROWS));
            for (tile, (pairs, rows)) in tiles.enumerate() {
                let sums = sums(&self.wide, pairs);
                let mut products = [[0f32; OUTPUTS]; ROWS];
                for i in 0..rows.len() {
                    dequantize(sums[i], rows[i], scales, &mut products[i]);
                }
                put(tile * ROWS, index, &mut products[..rows.len()]);
            }
        }
    }

    /// Sets the pairs to those of `input`, the tokens of each tile side by side.
    #[inline(always)]
    fn place(&mut self, input: &QuantizedInput, stride: usize) {
        self.pairs.clear();
        for rows in input.pairs.chunks(ROWS * stride) {
            let first = self.pairs.len();
            self.pairs.resize(first + stride, [0; ROWS]);
            for (i, row) in rows.chunks_exact(stride).enumerate() {
                for (to, pair) in self.pairs[first..].iter_mut().zip(row) {
                    to[i] = *pair;
                }
            }
        }
    }
}

/// Returns the sums of a tile in whole numbers, before the scales.
#[inline(always)]
fn sums(weights: &[Wide], pairs: &[[i32; ROWS]]) -> [[i32; OUTPUTS]; ROWS] {
    let mut sums = [lanes::ZERO; ROWS];
    for (weights, pairs) in weights.iter().zip(pairs) {
        for i in 0..ROWS {
            lanes::add_products(&mut sums[i], *weights, pairs[i]);
        }
    }
    sums.map(lanes::sums)
}

#[cfg(test)]
mod tests {
    use super::super::InputBits;
    use super::super::testing::{assert_same, gathered, of_pairs};
    use super::*;

    #[test]
    fn tiles_of_rows_give_the_products_of_rows_alone() {
        for [m, k, n] in [[1, 1, 1], [4, 8, 8], [5, 7, 12], [34, 33, 20], [40, 384, 16]] {
            let weights: Vec<i8> = (0..n * k).map(|at| (at * 37 % 256) as u8 as i8).collect();
            let scales: Vec<f32> = (0..n).map(|at| 0.01 + at as f32 * 0.003).collect();
            let panels = QuantizedPanels::new(&[(&weights, &scales, 1.0)], k);
            let x: Vec<f32> = (0..m * k).map(|at| (at as f32 * 0.7).sin() * 3.0).collect();
            let mut input = QuantizedInput::default();
            input.quantize(&x, k, InputBits::MOST);
            let expected = of_pairs(&panels, &x, InputBits::MOST);
            // A second product takes the buffers of the first.
            let mut tiles = RowTiles::default();
            for _ in 0..2 {
                let got = gathered(m, n, |put| tiles.multiply(&input, &panels, put));
                assert_same(&got, &expected, [m, k, n]);
            }
        }
    }
}
