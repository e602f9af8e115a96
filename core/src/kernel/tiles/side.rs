//! The two sides of a product by tiles in bf16.

use super::{PAIR, ROWS, Tile, Tiles, WORDS};

/// Numbers in a line of a tile.
pub(in super::super) const LINE_NUMBERS: usize = 2 * WORDS;

/// A matrix `[count, length]` whose rows lie `stride` numbers apart.
#[derive(Clone, Copy)]
pub(in super::super) struct Rows<'a> {
    pub(in super::super) values: &'a [f32],
    pub(in super::super) stride: usize,
    pub(in super::super) count: usize,
    pub(in super::super) length: usize,
}

impl Rows<'_> {
    /// Returns the numbers of a row from `first` on, at most `most`; none of a row that there is not.
    #[inline(always)]
    fn piece(&self, row: usize, first: usize, most: usize) -> &[f32] {
        if row >= self.count || first >= self.length {
            return &[];
        }
        &self.values[row * self.stride + first..][..most.min(self.length - first)]
    }

    /// Returns tile `step` along the rows of the 16 rows of `band`.
    #[inline(always)]
    fn lines(&self, tiles: &Tiles, band: usize, step: usize) -> Tile {
        let mut tile = Tile::ZERO;
        for (row, line) in (band * ROWS..).zip(&mut tile.0) {
            *line = tiles.line(self.piece(row, step * LINE_NUMBERS, LINE_NUMBERS));
        }
        tile
    }

    /// Returns tile `step` across the rows of the 16 columns of `band`: words of two rows each.
    #[inline(always)]
    fn words(&self, tiles: &Tiles, band: usize, step: usize) -> Tile {
        let mut tile = Tile::ZERO;
        for (row, line) in (step * LINE_NUMBERS..).step_by(2).zip(&mut tile.0) {
            let low = self.piece(row, band * WORDS, WORDS);
            *line = tiles.interleaved(low, self.piece(row + 1, band * WORDS, WORDS));
        }
        tile
    }
}

/// The left or the right matrix of a product in bf16: tiles of 16 rows, or of 16 columns of the right one, by 32
/// numbers along the sum, `[2 * ceil(rows / 32)][ceil(sum / 32)]`, and zeros beyond the matrix. Reused from one product
/// to the next.
#[derive(Debug, Default)]
pub(in super::super) struct Side {
    tiles: Vec<Tile>,
    /// Tiles along the sum.
    steps: usize,
    /// Pairs of tiles across it.
    pairs: usize,
}

impl Side {
    /// Sets the left matrix to `rows`.
    #[inline(always)]
    pub(in super::super) fn set_left(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        for (band, to) in self.bands(rows.count, rows.length) {
            for (step, to) in to.iter_mut().enumerate() {
                *to = rows.lines(tiles, band, step);
            }
        }
    }

    /// Sets the right matrix to the transpose of `rows`.
    #[inline(always)]
    pub(in super::super) fn set_right_transposed(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        for (band, to) in self.bands(rows.count, rows.length) {
            for (step, to) in to.iter_mut().enumerate() {
                to.set_transposed(tiles, &rows.lines(tiles, band, step));
            }
        }
    }

    /// Sets the right matrix to `rows`.
    #[inline(always)]
    pub(in super::super) fn set_right(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        for (band, to) in self.bands(rows.length, rows.count) {
            for (step, to) in to.iter_mut().enumerate() {
                *to = rows.words(tiles, band, step);
            }
        }
    }

    /// Sets the left matrix to the transpose of `rows`.
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    #[inline(always)]
    pub(in super::super) fn set_left_transposed(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        for (band, to) in self.bands(rows.length, rows.count) {
            for (step, to) in to.iter_mut().enumerate() {
                to.set_transposed(tiles, &rows.words(tiles, band, step));
            }
        }
    }

    /// Makes room for a matrix; returns the tiles of each 16 rows or columns.
    #[inline(always)]
    fn bands(&mut self, across: usize, along: usize) -> impl Iterator<Item = (usize, &mut [Tile])> {
        (self.pairs, self.steps) = (across.div_ceil(PAIR), along.div_ceil(LINE_NUMBERS));
        let length = 2 * self.pairs * self.steps;
        if self.tiles.len() < length {
            self.tiles.resize(length, Tile::ZERO);
        }
        self.tiles[..length].chunks_exact_mut(self.steps.max(1)).enumerate()
    }

    /// Returns the number of pairs of tiles across the sum: each is 32 rows, or 32 columns of a right matrix.
    #[inline(always)]
    pub(in super::super) fn pairs(&self) -> usize {
        self.pairs
    }

    /// Returns the tiles along the sum of pair `index`.
    #[inline(always)]
    pub(in super::super) fn pair(&self, index: usize) -> [&[Tile]; 2] {
        let (low, high) = self.tiles[2 * index * self.steps..][..2 * self.steps].split_at(self.steps);
        [low, high]
    }
}
