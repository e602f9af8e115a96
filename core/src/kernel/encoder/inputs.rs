//! Inputs of an encoder's linear layers, whose second moments tell what an error of a weight does to the outputs.

use super::linear::ConvertedInput;
use super::{InputBits, KernelEncoder, Scratch};
use crate::names::LinearInput;
use crate::row::Row;

impl KernelEncoder {
    /// Encodes rows as [`KernelEncoder::forward`] does, and gives `see` the inputs of the linear layers of every
    /// transformer layer: its number, the place, and the inputs, `[tokens, width]`, of one row. Where the encoder pools
    /// the first token only, those of the last layer after its attention are that token's, `[1, width]`. Rows are as
    /// for [`KernelEncoder::forward`]: the caller checks.
    pub fn layer_inputs(&self, rows: &[Vec<u32>], mut see: impl FnMut(usize, LinearInput, &[f32])) {
        let rows = Row::of_ids(rows);
        self.check(&rows);
        let mut scratch = Scratch { converted: ConvertedInput::of(InputBits::MOST), ..Scratch::default() };
        for row in &rows {
            self.layers(std::slice::from_ref(row), self.config.pooling.reads(), &mut scratch, &mut see);
        }
    }

    /// Returns the width of the inputs at this place.
    pub fn input_width(&self, input: LinearInput) -> usize {
        match input {
            LinearInput::FeedForwardOutput => self.config.intermediate_size,
            LinearInput::Attention | LinearInput::AttentionOutput | LinearInput::FeedForward => {
                self.config.hidden_size
            }
        }
    }
}
