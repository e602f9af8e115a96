//! Rows that the pipeline encodes: passages or questions.

use dpr_core::{EncodeError, TextEncoder};
use dpr_data::Passage;

/// Texts with the encoder that turns them into vectors, used from many threads at once.
pub trait Rows: Sync {
    /// Returns the number of numbers in a vector.
    fn dim(&self) -> usize;

    /// Returns the number of tokens that a text is truncated to.
    fn max_tokens(&self) -> usize;

    /// Returns the name of a row for errors, as `passage "12-3"`.
    fn name(&self, row: usize) -> String;

    /// Returns the token ids of a row.
    ///
    /// # Errors
    /// [`EncodeError`] of the tokenizer.
    fn tokens(&self, row: usize) -> Result<Vec<u32>, EncodeError>;

    /// Encodes one batch of token ids and returns its vectors `[batch, dim]`, row-major.
    ///
    /// # Errors
    /// [`EncodeError`] of the encoder.
    fn forward(&self, batch: &[Vec<u32>]) -> Result<Vec<f32>, EncodeError>;
}

/// Passages with the passage encoder.
pub struct PassageRows<'a> {
    /// The passage encoder.
    pub encoder: &'a TextEncoder,
    /// A row each.
    pub passages: &'a [Passage],
}

impl Rows for PassageRows<'_> {
    fn dim(&self) -> usize {
        self.encoder.dim()
    }

    fn max_tokens(&self) -> usize {
        self.encoder.max_tokens()
    }

    fn name(&self, row: usize) -> String {
        format!("passage {:?}", self.passages[row].id)
    }

    fn tokens(&self, row: usize) -> Result<Vec<u32>, EncodeError> {
        let passage = &self.passages[row];
        self.encoder.passage_tokens(&passage.title, &passage.text)
    }

    fn forward(&self, batch: &[Vec<u32>]) -> Result<Vec<f32>, EncodeError> {
        self.encoder.forward(batch)
    }
}

/// Questions with the question encoder.
pub struct QuestionRows<'a> {
    /// The question encoder.
    pub encoder: &'a TextEncoder,
    /// A row each.
    pub questions: &'a [&'a str],
}

impl Rows for QuestionRows<'_> {
    fn dim(&self) -> usize {
        self.encoder.dim()
    }

    fn max_tokens(&self) -> usize {
        self.encoder.max_tokens()
    }

    fn name(&self, row: usize) -> String {
        format!("question {} ({:?})", row + 1, self.questions[row])
    }

    fn tokens(&self, row: usize) -> Result<Vec<u32>, EncodeError> {
        let question = self.questions[row];
        if question.trim().is_empty() {
            return Err(EncodeError::Empty);
        }
        self.encoder.question_tokens(question)
    }

    fn forward(&self, batch: &[Vec<u32>]) -> Result<Vec<f32>, EncodeError> {
        self.encoder.forward(batch)
    }
}
