//! Attention in training by AMX: the products in bf16, scores, probabilities and sums in single precision.

use super::super::super::tiles::{LINE_NUMBERS, PAIR, Rows, Side, TileTask, Tiles, WORDS};
use super::super::super::vector::Avx512;
use super::{Attention, Gradients};

/// The attention, `[batch, tokens, hidden]`.
pub(super) struct Forward<'a> {
    pub(super) attention: &'a Attention<'a>,
    pub(super) out: &'a mut [f32],
}

/// The gradients of the inputs from that of the attention.
pub(super) struct Backward<'a> {
    pub(super) attention: &'a Attention<'a>,
    pub(super) gradient: &'a [f32],
    pub(super) out: &'a mut Gradients,
}

/// One head of one row, and buffers.
struct Head<'a> {
    tiles: &'a Tiles,
    attention: &'a Attention<'a>,
    /// Numbers from one token of the scores to the next: those of all tokens up to whole tiles, and 16 more.
    stride: usize,
    /// The row and the head.
    at: (usize, usize),
    left: Side,
    right: Side,
}

impl TileTask for Forward<'_> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        let Self { attention, out } = self;
        let mut head = Head::new(tiles, attention);
        let mut scores = head.scores();
        for at in attention.heads() {
            head.at = at;
            head.probabilities(&mut scores);
            attention.apply_dropout(at.0, at.1, &mut scores, head.stride);
            head.left.set_left(tiles, head.rows(&scores));
            head.right.set_right(tiles, head.part(attention.value));
            head.multiply(1.0, out);
        }
    }
}

impl TileTask for Backward<'_> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        let Self { attention, gradient, out } = self;
        let mut head = Head::new(tiles, attention);
        let (mut probabilities, mut scratch) = (head.scores(), head.scores());
        let scale = attention.scale();
        for at in attention.heads() {
            head.at = at;
            head.probabilities(&mut probabilities);

            // Gradient of the values: the probabilities after dropout, transposed, times that of the output.
            scratch.copy_from_slice(&probabilities);
            attention.apply_dropout(at.0, at.1, &mut scratch, head.stride);
            head.left.set_left_transposed(tiles, head.rows(&scratch));
            head.right.set_right(tiles, head.part(gradient));
            head.multiply(1.0, &mut out.value);

            // Gradient of the probabilities after dropout, and from it that of the scores, before they are scaled.
            head.multiply_with_transposed([gradient, attention.value], &mut scratch);
            let bias = &mut out.bias;
            attention.score_gradients(at.0, at.1, &probabilities, &mut scratch, head.stride, bias);

            // Gradients of the queries and of the keys.
            head.left.set_left(tiles, head.rows(&scratch));
            head.right.set_right(tiles, head.part(attention.key));
            head.multiply(scale, &mut out.query);
            head.left.set_left_transposed(tiles, head.rows(&scratch));
            head.right.set_right(tiles, head.part(attention.query));
            head.multiply(scale, &mut out.key);
        }
    }
}

impl<'a> Head<'a> {
    fn new(tiles: &'a Tiles, attention: &'a Attention<'a>) -> Self {
        // Rows are no power of two apart, so that they do not share a few sets of the cache.
        let stride = attention.tokens.next_multiple_of(LINE_NUMBERS) + WORDS;
        Self { tiles, attention, stride, at: (0, 0), left: Side::default(), right: Side::default() }
    }

    /// Returns room for scores, `[tokens, stride]` with the tokens up to whole tiles.
    fn scores(&self) -> Vec<f32> {
        vec![0.0; self.attention.tokens.next_multiple_of(PAIR) * self.stride]
    }

    /// Returns the head's numbers in states `[batch, tokens, hidden]`.
    #[inline(always)]
    fn part<'b>(&self, states: &'b [f32]) -> Rows<'b> {
        let ([count, length], stride, (row, head)) = (self.attention.sizes(), self.attention.hidden, self.at);
        Rows { values: &states[row * count * stride + head * length..], stride, count, length }
    }

    /// Returns scores, `[tokens, stride]`, without what lies between their rows.
    #[inline(always)]
    fn rows<'b>(&self, scores: &'b [f32]) -> Rows<'b> {
        let tokens = self.attention.tokens;
        Rows { values: scores, stride: self.stride, count: tokens, length: tokens }
    }

    /// Sets the head's numbers in states to the product of the left and the right matrix times a factor.
    #[inline(always)]
    fn multiply(&self, factor: f32, states: &mut [f32]) {
        let ([tokens, width], hidden, (row, head)) = (self.attention.sizes(), self.attention.hidden, self.at);
        let mut sums = [[0f32; PAIR]; PAIR];
        for column in 0..self.right.pairs() {
            let used = PAIR.min(width - column * PAIR);
            for band in 0..self.left.pairs() {
                let (left, right) = (self.left.pair(band), self.right.pair(column));
                self.tiles.square(left, right, sums.as_flattened_mut(), PAIR);
                for (token, sums) in (band * PAIR..tokens).zip(&sums) {
                    let to = (row * tokens + token) * hidden + head * width + column * PAIR;
                    let to = states[to..][..used].iter_mut().zip(sums);
                    to.for_each(|(to, sum)| *to = sum * factor);
                }
            }
        }
    }

    /// Sets scores, `[tokens, stride]`, to the product of the head's numbers in the first states with those in the
    /// second ones.
    #[inline(always)]
    fn multiply_with_transposed(&mut self, [left, right]: [&[f32]; 2], scores: &mut [f32]) {
        self.left.set_left(self.tiles, self.part(left));
        self.right.set_right_transposed(self.tiles, self.part(right));
        for band in 0..self.left.pairs() {
            for column in 0..self.right.pairs() {
                let to = &mut scores[band * PAIR * self.stride + column * PAIR..];
                self.tiles.square(self.left.pair(band), self.right.pair(column), to, self.stride);
            }
        }
    }

    /// Sets scores, `[tokens, stride]`, to the head's probabilities before dropout.
    #[inline(always)]
    fn probabilities(&mut self, scores: &mut [f32]) {
        let (attention, scale) = (self.attention, self.attention.scale());
        self.multiply_with_transposed([attention.query, attention.key], scores);
        for (_, scores) in attention.rows_of(scores, self.stride) {
            scores.iter_mut().for_each(|score| *score *= scale);
        }
        attention.softmax::<Avx512>(self.at.0, self.at.1, scores, self.stride);
    }
}
