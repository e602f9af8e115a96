//! Inner products of a batch of queries with many rows quantized to eight bits: a matrix product of bytes, in which a
//! row that is read serves all queries.
//!
//! Queries are quantized to eight bits too, coarser than in [`super::i8`], so that a product of bytes is one
//! multiplication: use this module to choose rows. Sums are whole numbers, the same on every instruction set.

use super::super::dot::{WholeDot, byte_words, split_pairs};
use super::super::gemm::{Panels, blocks};
use super::super::isa::{Isa, WholeTask, best};
use super::i8::greatest;

/// The greatest magnitude of a query's number.
const QUERY_LIMIT: f32 = 127.0;

/// The most columns of a panel.
const MAX_WIDTH: usize = 64;

/// Vectors across a panel at most.
const MAX_VECTORS: usize = 4;

/// Queries `[count, dim]`, laid out for products.
#[derive(Debug)]
pub struct QuantizedBatch {
    /// `[panels, words, width]`, four numbers of a query in a word.
    panels: Panels<u32>,
    /// The initial values of the sums, `[panels, width]`: the rows' numbers are taken plus 128, without a sign, and
    /// this takes 128 times the query's sum off.
    starts: Vec<u32>,
    isa: Isa,
    dim: usize,
    words: usize,
}

/// The rows of a product in the form that it needs; reused from one product to the next.
#[derive(Debug, Default)]
pub struct RowWords(Vec<u32>);

impl QuantizedBatch {
    /// Quantizes queries of `dim` numbers each. Their norms are left out of the products, which only compare rows.
    pub fn new<'a>(queries: impl ExactSizeIterator<Item = &'a [f32]>, dim: usize) -> Self {
        Self::with(best(), queries, dim)
    }

    fn with<'a>(isa: Isa, queries: impl ExactSizeIterator<Item = &'a [f32]>, dim: usize) -> Self {
        let (words, width, count) = (dim.div_ceil(4), isa.whole_width(), queries.len());
        let mut panels = Panels::new(count, words, width);
        let mut starts = vec![0; count.next_multiple_of(width)];
        // So small that no sum of 32 bits overflows.
        let limit = QUERY_LIMIT.min((i32::MAX as usize / (128 * dim.max(1))) as f32);
        let mut codes = vec![0; dim];
        for (at, query) in queries.enumerate() {
            let most = greatest(query);
            let inverse = if most >= f32::MIN_POSITIVE * QUERY_LIMIT { limit / most } else { 0.0 };
            for (code, value) in codes.iter_mut().zip(query) {
                *code = (value * inverse).round() as i8;
            }
            panels.set_row(at, byte_words(&codes));
            let total = codes.iter().map(|code| i32::from(*code)).sum::<i32>();
            starts[at] = total.wrapping_mul(-128).cast_unsigned();
        }
        if isa.whole_parts() == 2 {
            panels.lines_mut().for_each(split_pairs);
        }
        Self { panels, starts, isa, dim, words }
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.panels.n()
    }

    /// Returns whether the batch has no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Computes the inner products with the quantized `rows` `[scales, dim]`, each times the row's scale, into `scores`
    /// `[scales, queries]`.
    ///
    /// # Panics
    /// When `scores` or `rows` is too short.
    pub fn products(&self, rows: &[i8], scales: &[f32], words: &mut RowWords, scores: &mut [f32]) {
        if self.is_empty() || self.dim == 0 {
            return;
        }
        let rows = &rows[..scales.len() * self.dim];
        self.isa.run_whole(Product { batch: self, rows, words: &mut words.0, scales, scores });
    }
}

struct Product<'a> {
    batch: &'a QuantizedBatch,
    rows: &'a [i8],
    words: &'a mut Vec<u32>,
    scales: &'a [f32],
    scores: &'a mut [f32],
}

impl WholeTask for Product<'_> {
    #[inline(always)]
    fn run<D: WholeDot, const NR: usize, const MR: usize>(self) {
        let Self { batch, rows, words: rows_in_words, scales, scores } = self;
        let (words, count) = (D::PARTS * batch.words, batch.len());
        rows_in_words.resize(scales.len() * words, 0);
        for (to, row) in rows_in_words.chunks_exact_mut(words).zip(rows.chunks_exact(batch.dim)) {
            set_row::<D>(row, to);
        }
        let starts = batch.starts.as_chunks::<NR>().0;
        for (at, (panel, start)) in batch.panels.iter::<NR>().zip(starts).enumerate() {
            let (first_column, width) = (at * NR, NR.min(count - at * NR));
            for (first, block) in blocks::<MR>(scales.len()) {
                let mut sums = [[0u32; MAX_WIDTH]; 6];
                let rows = &rows_in_words[first * words..];
                match block {
                    1 => tile::<D, NR, 1>(rows, panel, start, &mut sums),
                    2 => tile::<D, NR, 2>(rows, panel, start, &mut sums),
                    3 => tile::<D, NR, 3>(rows, panel, start, &mut sums),
                    4 => tile::<D, NR, 4>(rows, panel, start, &mut sums),
                    5 if MR >= 5 => tile::<D, NR, 5>(rows, panel, start, &mut sums),
                    6 if MR >= 6 => tile::<D, NR, 6>(rows, panel, start, &mut sums),
                    _ => debug_assert_eq!(block, 0, "blocks are at most MR rows"),
                }
                for (row, sums) in (first..first + block).zip(&sums) {
                    let to = &mut scores[row * count + first_column..][..width];
                    for (score, sum) in to.iter_mut().zip(sums) {
                        *score = sum.cast_signed() as f32 * scales[row];
                    }
                }
            }
        }
    }
}

/// Sets `words` to the numbers of a row plus 128, which have no sign.
#[inline(always)]
fn set_row<D: WholeDot>(row: &[i8], words: &mut [u32]) {
    // The other sign bit is 128 more.
    let unsigned = |code: &i8| u32::from(code.cast_unsigned() ^ 0x80);
    if D::PARTS == 1 {
        let (whole, rest) = row.as_chunks::<4>();
        for (word, codes) in words.iter_mut().zip(whole) {
            *word = u32::from_le_bytes(codes.map(i8::cast_unsigned)) ^ 0x8080_8080;
        }
        if let (false, Some(word)) = (rest.is_empty(), words.last_mut()) {
            *word = rest.iter().rev().fold(0, |word, code| word << 8 | unsigned(code));
        }
    } else {
        let (whole, rest) = row.as_chunks::<2>();
        for (word, [low, high]) in words.iter_mut().zip(whole) {
            *word = unsigned(low) | unsigned(high) << 16;
        }
        if let ([last], Some(word)) = (rest, words.get_mut(whole.len())) {
            *word = unsigned(last);
        }
    }
}

/// Computes the sums of `ROWS` rows with a panel.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "loops over fixed arrays by index are what stays in registers")]
fn tile<D: WholeDot, const NR: usize, const ROWS: usize>(
    rows: &[u32],
    panel: &[[u32; NR]],
    start: &[u32; NR],
    sums: &mut [[u32; MAX_WIDTH]; 6],
) {
    let rows: [&[u32]; ROWS] = {
        let words = D::PARTS * panel.len();
        std::array::from_fn(|row| &rows[row * words..][..words])
    };
    let mut acc = [[D::zero(); MAX_VECTORS]; ROWS];
    for i in 0..ROWS {
        for v in 0..NR / D::LANES {
            acc[i][v] = D::load_sums(start, v);
        }
    }
    for k in 0..panel.len() {
        for part in 0..D::PARTS {
            for i in 0..ROWS {
                let input = D::input(rows[i][k * D::PARTS + part]);
                for v in 0..NR / D::LANES {
                    acc[i][v] = D::add(acc[i][v], input, &panel[k], part, v);
                }
            }
        }
    }
    for i in 0..ROWS {
        for v in 0..NR / D::LANES {
            D::store_sums(acc[i][v], &mut sums[i], v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, step: f32) -> Vec<f32> {
        (0..len).map(|at| (at as f32 * step).sin()).collect()
    }

    /// Returns the codes of a query, as the batch makes them.
    fn codes(query: &[f32]) -> Vec<i32> {
        let most = query.iter().fold(0f32, |most, value| most.max(value.abs()));
        query
            .iter()
            .map(|value| if most > 0.0 { (value * (127.0 / most)).round() as i32 } else { 0 })
            .collect()
    }

    #[test]
    fn products_are_the_plain_whole_sums_on_every_instruction_set_to_the_extremes() {
        for (queries, count, dim) in [(1, 1, 1), (3, 7, 5), (64, 13, 64), (65, 9, 101), (17, 64, 768)] {
            let (drawn, extreme) = (numbers(queries * dim, 0.37), vec![-1.0; queries * dim]);
            let rows = (0..count * dim).map(|at| (at * 37) as i8).collect::<Vec<_>>();
            for (asked, rows) in [
                (drawn, rows.clone()),
                (extreme, vec![i8::MIN; count * dim]),
                (vec![0.0; queries * dim], rows),
                (vec![1.0; queries * dim], vec![127; count * dim]),
            ] {
                let scales: Vec<f32> = (0..count).map(|row| 1.0 / (row + 1) as f32).collect();
                for isa in Isa::available() {
                    let batch = QuantizedBatch::with(isa, asked.chunks(dim), dim);
                    let mut scores = vec![f32::NAN; queries * count];
                    batch.products(&rows, &scales, &mut RowWords::default(), &mut scores);
                    for (row, scores) in scores.chunks(queries).enumerate() {
                        for (query, score) in scores.iter().enumerate() {
                            let codes = codes(&asked[query * dim..][..dim]);
                            let row_codes = &rows[row * dim..][..dim];
                            let sum: i32 = codes.iter().zip(row_codes).map(|(a, b)| a * i32::from(*b)).sum();
                            assert_eq!(*score, sum as f32 * scales[row], "{isa:?} {queries} {count} {dim}");
                        }
                    }
                }
            }
        }
    }
    #[test]
    #[should_panic(expected = "range end index 12 out of range")]
    fn rows_that_are_too_short_are_not_taken_from_the_product_before() {
        let asked = numbers(8, 0.37);
        let batch = QuantizedBatch::new(asked.chunks(4), 4);
        let (mut words, mut scores) = (RowWords::default(), [0.0; 6]);
        batch.products(&[1; 12], &[1.0; 3], &mut words, &mut scores);
        batch.products(&[1; 11], &[1.0; 3], &mut words, &mut scores);
    }
}
