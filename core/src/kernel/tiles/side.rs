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
        self.set::<false, false>(tiles, rows);
    }

    /// Sets the right matrix to the transpose of `rows`.
    #[inline(always)]
    pub(in super::super) fn set_right_transposed(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        self.set::<false, true>(tiles, rows);
    }

    /// Sets the right matrix to `rows`.
    #[inline(always)]
    pub(in super::super) fn set_right(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        self.set::<true, false>(tiles, rows);
    }

    /// Sets the left matrix to the transpose of `rows`.
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    #[inline(always)]
    pub(in super::super) fn set_left_transposed(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        self.set::<true, true>(tiles, rows);
    }

    /// Sets the tiles from `rows`. The sum goes along each row, or from row to row (`ACROSS`); a tile is taken as it is
    /// or `TRANSPOSED`.
    #[inline(always)]
    fn set<const ACROSS: bool, const TRANSPOSED: bool>(&mut self, tiles: &Tiles, rows: Rows<'_>) {
        let sizes = if ACROSS { [rows.length, rows.count] } else { [rows.count, rows.length] };
        for (band, to) in self.bands(sizes) {
            for (step, to) in to.iter_mut().enumerate() {
                let tile = match ACROSS {
                    true => rows.words(tiles, band, step),
                    false => rows.lines(tiles, band, step),
                };
                match TRANSPOSED {
                    true => to.set_transposed(tiles, &tile),
                    false => *to = tile,
                }
            }
        }
    }

    /// Returns the tiles of each 16 of `across` rows or columns, with room for `along` numbers of the sum.
    #[inline(always)]
    fn bands(&mut self, [across, along]: [usize; 2]) -> impl Iterator<Item = (usize, &mut [Tile])> {
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
