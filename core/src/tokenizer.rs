//! Tokenizer of questions and passages, on both ends by the same `tokenizers` crate.

mod added;
mod answers;
mod compact;
mod file;
mod located;
mod pair;
mod template;

use tokenizers::Tokenizer;

use crate::config::EncoderConfig;
use crate::form::{PassageForm, TextForm};
use compact::Compact;
pub use located::ReaderInput;
pub(crate) use located::{Layout, LocateError};
pub use pair::PairTokens;
use pair::longest_first;
use template::Template;

/// The most characters of a word that WordPiece may be told to cut into tokens, which takes time by the cube of them;
/// BERT has 100.
const MOST_OF_WORD: usize = 1000;

/// A tokenizer that fits one encoder: ids below its vocabulary, length at most its limit.
pub struct TextTokenizer {
    inner: Tokenizer,
    template: Template,
    max_tokens: usize,
    form: TextForm,
    /// Token types that the encoder has embeddings of and was trained with.
    token_types: usize,
}

/// The reason why a `tokenizer.json` cannot be used, or a text cannot be tokenised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file is not what the `tokenizers` library writes.
    #[error("tokenizer.json cannot be read: {0}; fetch the model again")]
    Format(String),
    /// The file begins as the binary form does, and is not one.
    #[error("the binary vocabulary cannot be read: {0}; run `dpr export-web` again")]
    Compact(String),
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
    /// The post-processor does not say which special tokens an input has.
    #[error(
        "tokenizer.json has a post_processor that cannot be used: {0}; take the tokenizer.json that belongs to the weights, or write it anew (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
    )]
    Template(String),
    /// The special tokens of a pair of texts leave no room for a text.
    #[error(
        "the special tokens of a title and a text are {special}, but the limit is {max_tokens} tokens: raise it"
    )]
    Room {
        /// Special tokens of a pair.
        special: usize,
        /// The limit.
        max_tokens: usize,
    },
    /// The tokens of two texts have a type that the encoder has no embedding of.
    #[error(
        "tokenizer.json gives tokens of a pair of texts the type {found}, and models of pairs have types 0 and 1: take the tokenizer.json that belongs to the weights"
    )]
    TokenType {
        /// The largest type in the template.
        found: u32,
    },
    /// The library could not tokenise a text.
    #[error("the text cannot be tokenised: {0}")]
    Text(String),
}

impl TextTokenizer {
    /// Reads a `tokenizer.json` and checks that it fits `config`. The special tokens are those of its post-processor.
    /// Padding and truncation set in the file are dropped: batches are padded, and texts truncated to
    /// `config.max_tokens`, by the encoder.
    ///
    /// # Errors
    /// [`TokenizerError`] when the file is damaged or belongs to another model.
    pub fn from_json(bytes: &[u8], config: &EncoderConfig) -> Result<Self, TokenizerError> {
        let file = file::read(bytes).map_err(TokenizerError::Format)?;
        let template = Template::read(&file.post_processor).map_err(TokenizerError::Template)?;
        let tokens =
            file.inner.get_vocab(true).into_values().max().map_or(0, |id| (id as usize).saturating_add(1));
        Self::fitting(file.inner, template, tokens, config)
    }

    /// Reads a `tokenizer.json`, or the binary form of one that [`TextTokenizer::compact`] makes, by its first bytes.
    ///
    /// # Errors
    /// [`TokenizerError`] as from [`TextTokenizer::from_json`], and [`TokenizerError::Compact`].
    pub fn from_bytes(bytes: &[u8], config: &EncoderConfig) -> Result<Self, TokenizerError> {
        if !compact::is_compact(bytes) {
            return Self::from_json(bytes, config);
        }
        let Compact { inner, template, tokens } = compact::read(bytes).map_err(TokenizerError::Compact)?;
        Self::fitting(inner, template, tokens, config)
    }

    /// Returns the binary form of a `tokenizer.json`, which pages download in its place. `None` for a tokenizer that the
    /// form does not hold exactly: it is for WordPiece with BERT's normalizer and pre-tokenizer.
    ///
    /// # Errors
    /// [`TokenizerError::Format`] and [`TokenizerError::Template`] when the file is damaged.
    pub fn compact(json: &[u8]) -> Result<Option<Vec<u8>>, TokenizerError> {
        let file = file::read(json).map_err(TokenizerError::Format)?;
        let template = Template::read(&file.post_processor).map_err(TokenizerError::Template)?;
        Ok(compact::write(&file, &template))
    }

    /// Checks that a tokenizer of ids below `tokens` fits `config`.
    fn fitting(
        inner: Tokenizer,
        template: Template,
        tokens: usize,
        config: &EncoderConfig,
    ) -> Result<Self, TokenizerError> {
        let tokens = tokens.max((template.largest() as usize).saturating_add(1));
        if tokens > config.vocab_size {
            return Err(TokenizerError::Vocabulary { tokens, vocab_size: config.vocab_size });
        }
        let (special, max_tokens) = (template.pair_tokens(), config.max_tokens);
        if special >= max_tokens {
            return Err(TokenizerError::Room { special, max_tokens });
        }
        let token_types = if config.one_type { 1 } else { config.type_vocab_size };
        let form = config.form.clone();
        Ok(Self { inner, template, max_tokens, form, token_types })
    }

    /// Returns the ids of a question after the model's prompt, `[CLS] prompt text [SEP]`, truncated to the limit.
    ///
    /// # Errors
    /// [`TokenizerError::Text`] when the library fails.
    pub fn question(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.single(&self.form.question(text))
    }

    /// Returns the ids of a passage, truncated to the limit: `[CLS] title [SEP] text [SEP]` (paper §4.1) with the
    /// special tokens of the tokenizer's own template of two texts, without a title `[CLS] text [SEP]`, or as the model's
    /// prompt and title join say. Every token is of type 0, as in the released bi-encoders.
    ///
    /// A passage of more tokens than the limit loses the end of its text. A title before a separator is cut, too, where
    /// it has more than half of the room: title and text are truncated as `longest_first` of transformers does, the
    /// default of the tokenizers of its `DPRContextEncoder`.
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
        let Template { start, end, .. } = &self.template;
        let text = self.ids(text)?;
        let kept = text.len().min(self.max_tokens - start.len() - end.len());
        Ok([start.as_slice(), &text[..kept], end].concat())
    }

    /// Returns the ids of a title and a text with separators between.
    fn pair(&self, title: &str, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let Template { start, separators, end, .. } = &self.template;
        let (title, text) = (self.ids(title)?, self.ids(text)?);
        let room = self.max_tokens - self.template.pair_tokens();
        let (of_title, of_text) = longest_first(title.len(), text.len(), room);
        Ok([start.as_slice(), &title[..of_title], separators, &text[..of_text], end].concat())
    }

    /// Returns the largest number of tokens that a text is encoded as.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Returns the ids of a text without special tokens.
    fn ids(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, false).map_err(|e| TokenizerError::Text(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }
}
