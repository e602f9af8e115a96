//! The two sides of a product by tiles in bf16.

use super::{PAIR, ROWS, Tile, Tiles, WORDS};

/// Numbers in a line of a tile.
pub(in super::super) const LINE_NUMBERS: usize = 2 * WORDS;

/// The left or the right matrix of a product in bf16: tiles of 16 rows, or of 16 columns of the right one, by 32 numbers
/// along the sum, `[2 * ceil(rows / 32)][ceil(sum / 32)]`, and zeros beyond the matrix. Reused from one product to the
/// next.
#[derive(Debug, Default)]
pub(in super::super) struct Side {
    tiles: Vec<Tile>,
    /// Tiles along the sum.
    steps: usize,
    /// Pairs of tiles across it.
    pairs: usize,
}

impl Side {
    /// Sets the left matrix to one `[m, k]`, of which `row` returns the rows.
    #[inline(always)]
    pub(in super::super) fn set_left<'a>(
        &mut self,
        tiles: &Tiles,
        [m, k]: [usize; 2],
        row: impl Fn(usize) -> &'a [f32],
    ) {
        self.resize(m, k);
        for (band, to) in self.tiles.chunks_exact_mut(self.steps).enumerate() {
            set_lines(tiles, band, m, &row, to, |to, lines| *to = lines);
        }
    }

    /// Sets the right matrix to the transpose of one `[n, k]`, of which `row` returns the rows.
    #[inline(always)]
    pub(in super::super) fn set_right_transposed<'a>(
        &mut self,
        tiles: &Tiles,
        [n, k]: [usize; 2],
        row: impl Fn(usize) -> &'a [f32],
    ) {
        self.resize(n, k);
        for (band, to) in self.tiles.chunks_exact_mut(self.steps).enumerate() {
            set_lines(tiles, band, n, &row, to, |to, lines| to.set_transposed(tiles, &lines));
        }
    }

    /// Sets the right matrix to one `[k, n]`, of which `row` returns the rows.
    #[inline(always)]
    pub(in super::super) fn set_right<'a>(
        &mut self,
        tiles: &Tiles,
        [k, n]: [usize; 2],
        row: impl Fn(usize) -> &'a [f32],
    ) {
        self.resize(n, k);
        for (band, to) in self.tiles.chunks_exact_mut(self.steps).enumerate() {
            set_pairs(tiles, band, k, &row, to, |to, lines| *to = lines);
        }
    }

    /// Sets the left matrix to the transpose of one `[k, m]`, of which `row` returns the rows.
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    #[inline(always)]
    pub(in super::super) fn set_left_transposed<'a>(
        &mut self,
        tiles: &Tiles,
        [k, m]: [usize; 2],
        row: impl Fn(usize) -> &'a [f32],
    ) {
        self.resize(m, k);
        for (band, to) in self.tiles.chunks_exact_mut(self.steps).enumerate() {
            set_pairs(tiles, band, k, &row, to, |to, lines| to.set_transposed(tiles, &lines));
        }
    }

    #[inline(always)]
    fn resize(&mut self, across: usize, along: usize) {
        (self.pairs, self.steps) = (across.div_ceil(PAIR), along.div_ceil(LINE_NUMBERS));
        self.tiles.resize(2 * self.pairs * self.steps, Tile::ZERO);
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

/// Gives `each` of a band's tiles along the sum the numbers of the band's 16 rows, of `count` rows in all.
#[inline(always)]
fn set_lines<'a>(
    tiles: &Tiles,
    band: usize,
    count: usize,
    row: &impl Fn(usize) -> &'a [f32],
    to: &mut [Tile],
    each: impl Fn(&mut Tile, Tile),
) {
    for (step, to) in to.iter_mut().enumerate() {
        let mut lines = Tile::ZERO;
        for (at, line) in (band * ROWS..count).zip(&mut lines.0) {
            *line = tiles.line(piece(row(at), step * LINE_NUMBERS, LINE_NUMBERS));
        }
        each(to, lines);
    }
}

/// Gives `each` of a band's tiles along the sum the words of 16 pairs of rows, of `count` rows in all, in the band's 16
/// columns.
#[inline(always)]
fn set_pairs<'a>(
    tiles: &Tiles,
    band: usize,
    count: usize,
    row: &impl Fn(usize) -> &'a [f32],
    to: &mut [Tile],
    each: impl Fn(&mut Tile, Tile),
) {
    for (step, to) in to.iter_mut().enumerate() {
        let mut lines = Tile::ZERO;
        for (at, line) in (step * LINE_NUMBERS..count).step_by(2).zip(&mut lines.0) {
            let high = if at + 1 < count { piece(row(at + 1), band * WORDS, WORDS) } else { &[] };
            *line = tiles.interleaved(piece(row(at), band * WORDS, WORDS), high);
        }
        each(to, lines);
    }
}

/// Returns the numbers of a row from `first` on, at most `count`.
#[inline(always)]
pub(in super::super) fn piece(numbers: &[f32], first: usize, count: usize) -> &[f32] {
    let rest = numbers.get(first..).unwrap_or_default();
    &rest[..count.min(rest.len())]
}
