//! Tokenizer of questions and passages, on both ends by the same `tokenizers` crate.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer;

use crate::config::{EncoderConfig, Family};
use crate::form::{PassageForm, TextForm};

/// A tokenizer that fits one encoder: ids below its vocabulary, length at most its limit.
pub struct TextTokenizer {
    inner: Tokenizer,
    start: u32,
    end: u32,
    /// Separators between title and text: one for BERT, two for MPNet.
    separators: usize,
    max_tokens: usize,
    form: TextForm,
}

/// The reason why a `tokenizer.json` cannot be used, or a text cannot be tokenised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file is not what the `tokenizers` library writes.
    #[error("tokenizer.json cannot be read: {0}; fetch the model again")]
    Format(String),
    /// The tokenizer has ids that the word embedding has no row for.
    #[error(
        "tokenizer.json has {tokens} tokens but the encoder's vocabulary has {vocab_size} rows: take the tokenizer.json that belongs to the weights"
    )]
    Vocabulary {
        /// Largest id plus one.
        tokens: usize,
        /// Rows of the word embedding.
        vocab_size: usize,
    },
    /// A special token that the encoder's input needs is absent.
    #[error(
        "tokenizer.json has no token {token:?}, which a {family:?} encoder needs: take the one that belongs to the weights"
    )]
    SpecialToken {
        /// The token.
        token: &'static str,
        /// The encoder's family.
        family: Family,
    },
    /// The library could not tokenise a text.
    #[error("the text cannot be tokenised: {0}")]
    Text(String),
}

/// The parts of a file whose reading can panic in the library.
#[derive(Deserialize)]
struct Parts {
    /// Read by an `expect`: only JSON that can be read whole may get there.
    #[serde(default, rename = "decoder")]
    _decoder: Value,
    #[serde(default)]
    normalizer: Value,
}

/// Refuses what the library would panic on.
fn check(bytes: &[u8]) -> Result<(), TokenizerError> {
    let Parts { normalizer, .. } =
        serde_json::from_slice(bytes).map_err(|e| TokenizerError::Format(e.to_string()))?;
    if has_precompiled(&normalizer) {
        let reason = "a precompiled normalizer (SentencePiece's) is not one of BERT or MPNet";
        return Err(TokenizerError::Format(reason.to_owned()));
    }
    Ok(())
}

/// Returns whether a normalizer, or one within it, has the type `Precompiled`.
fn has_precompiled(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get("type").is_some_and(|kind| kind == "Precompiled")
                || fields.values().any(has_precompiled)
        }
        Value::Array(items) => items.iter().any(has_precompiled),
        _ => false,
    }
}

impl TextTokenizer {
    /// Reads a `tokenizer.json` and checks that it fits `config`. Padding and truncation set in the file are
    /// dropped: batches are padded, and texts truncated to `config.max_tokens`, by the encoder.
    ///
    /// # Errors
    /// [`TokenizerError`] when the file is damaged or belongs to another model.
    pub fn from_json(bytes: &[u8], config: &EncoderConfig) -> Result<Self, TokenizerError> {
        check(bytes)?;
        let mut inner = Tokenizer::from_bytes(bytes).map_err(|e| TokenizerError::Format(e.to_string()))?;
        inner.with_truncation(None).map_err(|e| TokenizerError::Format(e.to_string()))?;
        inner.with_padding(None);
        let tokens = inner.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1);
        if tokens > config.vocab_size {
            return Err(TokenizerError::Vocabulary { tokens, vocab_size: config.vocab_size });
        }
        let (start, end, separators) = match config.family {
            Family::Bert => ("[CLS]", "[SEP]", 1),
            Family::Mpnet => ("<s>", "</s>", 2),
        };
        let id = |token: &'static str| {
            inner.token_to_id(token).ok_or(TokenizerError::SpecialToken { token, family: config.family })
        };
        let (start, end) = (id(start)?, id(end)?);
        Ok(Self { inner, start, end, separators, max_tokens: config.max_tokens, form: config.form.clone() })
    }

    /// Returns the ids of a question after the model's prompt, `[CLS] prompt text [SEP]`, truncated to the limit.
    ///
    /// # Errors
    /// [`TokenizerError::Text`] when the library fails.
    pub fn question(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.single(&self.form.question(text))
    }

    /// Returns the ids of a passage, truncated to the limit at the end of the text: `[CLS] title [SEP] text [SEP]`
    /// (paper §4.1), without a title `[CLS] text [SEP]`, or as the model's prompt and title join say. Every token is
    /// of type 0, as in the released bi-encoders.
    ///
    /// # Errors
    /// [`TokenizerError::Text`] when the library fails.
    pub fn passage(&self, title: &str, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self.form.passage(title, text) {
            PassageForm::One(text) => self.single(&text),
            PassageForm::Two(title, text) => self.pair(&title, text),
        }
    }

    /// Returns the ids of one text.
    fn single(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = vec![self.start];
        self.push(&mut ids, text, self.max_tokens - 1)?;
        ids.push(self.end);
        Ok(ids)
    }

    /// Returns the ids of a title and a text with separators between.
    fn pair(&self, title: &str, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = vec![self.start];
        // A title is never cut for its text's sake, but a title alone may not fill the whole input.
        self.push(&mut ids, title, self.max_tokens - 1 - self.separators)?;
        ids.extend(std::iter::repeat_n(self.end, self.separators));
        self.push(&mut ids, text, self.max_tokens - 1)?;
        ids.push(self.end);
        Ok(ids)
    }

    /// Returns the largest number of tokens that a text is encoded as.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Appends the text's ids up to `limit` ids in all.
    fn push(&self, ids: &mut Vec<u32>, text: &str, limit: usize) -> Result<(), TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, false).map_err(|e| TokenizerError::Text(e.to_string()))?;
        let room = limit.saturating_sub(ids.len());
        ids.extend(encoding.get_ids().iter().take(room));
        Ok(())
    }
}
