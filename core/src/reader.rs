//! Readers (Karpukhin et al. 2020, §6.1): a question and the passages that a search found in, answers out. An answer is
//! a span of its passage's own text.
//!
//! A reader is an encoder with two layers over its last hidden states `P` of a passage, `[tokens, hidden]`. The span
//! from token `s` to token `t` has the score `softmax(P w_start)[s] · softmax(P w_end)[t]`, and the passage is chosen
//! with the probability `softmax(P̂ w_selected)`, where `P̂` are the first states of all passages. Models for question
//! answering on one paragraph (`…ForQuestionAnswering`) have no `w_selected`: their passages are chosen by the logit of
//! the best span minus that of no answer, which is the span of the first token alone.
//!
//! ```
//! use dpr_core::device::Device;
//! use dpr_core::{EncoderBytes, ReadOptions, Reader};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/readers/dpr");
//! # let read = |name: &str| std::fs::read(format!("{dir}/{name}"));
//! # let (config, tokenizer, weights) = (read("config.json")?, read("tokenizer.json")?, read("model.safetensors")?);
//! let files = EncoderBytes {
//!     config: &config,
//!     tokenizer: &tokenizer,
//!     weights: &[("model.safetensors", &weights)],
//! };
//! let reader = Reader::load(&files, None, &Device::Kernel)?;
//! // Titles and texts, as a search found them.
//! let passages = [("Rhine", "The Rhine rises in the Alps."), ("Cat", "Cats sleep most of the day.")];
//! let answers = reader.read("where does the rhine rise", &passages, 1, ReadOptions::default())?;
//! let (title, text) = passages[answers[0].passage];
//! assert_eq!(&text[answers[0].bytes.clone()], answers[0].text);
//! # Ok(())
//! # }
//! ```
//!
//! Both engines compute the states with the code of [`TextEncoder`](crate::TextEncoder).

mod answer;
mod config;
mod heads;
mod spans;

use crate::device::Device;
use crate::engine::Engine;
use crate::row::{LastStates, PAIR_TYPES, Row, by_length};
use crate::text::{EncodeError, EncoderBytes, LoadError};
use crate::tokenizer::{LocateError, TextTokenizer};
use crate::weights::TensorMap;

pub use crate::tokenizer::ReaderInput;
pub use answer::{Answer, FoundSpan, PassageReading, best_answers};
pub use config::ReaderConfig;
use heads::Heads;
pub use heads::ReaderLogits;

/// Passages that [`Reader::read_passages`] gives the device at once.
const BATCH: usize = 8;

/// Limits of the search for answers in passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Spans that one passage may give, which do not overlap. With none, only the passage's selection is computed,
    /// for less work where the reader has [a layer for it](ReaderConfig::has_selection); in a browser module, for
    /// weights in 8 bits, with narrower inputs.
    pub spans: usize,
    /// Tokens that an answer may have, before it is extended to whole words.
    pub max_answer_tokens: usize,
}

impl Default for ReadOptions {
    /// Returns the paper's settings: the best span of each passage, of at most 10 tokens.
    fn default() -> Self {
        Self { spans: 1, max_answer_tokens: 10 }
    }
}

/// The reason why passages cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A question without a token in it.
    #[error("the question is empty: give it at least one word")]
    Empty,
    /// A question that leaves no room for a passage.
    #[error(
        "the question has {tokens} tokens with the special ones, and the reader takes {limit} of a question and a passage: shorten the question"
    )]
    Question {
        /// Its tokens.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// Scores by which nothing can be chosen.
    #[error(
        "the reader's scores of passage {passage} are not finite: its weights are damaged, or the device failed"
    )]
    NotFinite {
        /// Position of the passage.
        passage: usize,
    },
    /// See [`EncodeError`].
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl ReaderConfig {
    /// Returns the tokens of a question and a passage by the tokenizer of a reader of this configuration, cut as
    /// [`Reader::input`] says.
    ///
    /// # Errors
    /// [`ReadError`] as from [`Reader::input`].
    pub fn input(
        &self,
        tokenizer: &TextTokenizer,
        question: &str,
        title: &str,
        text: &str,
    ) -> Result<ReaderInput, ReadError> {
        tokenizer.located(question, title, text, self.layout()).map_err(|error| match error {
            LocateError::Empty => ReadError::Empty,
            LocateError::Question { tokens } => ReadError::Question { tokens, limit: tokenizer.max_tokens() },
            LocateError::Tokenizer(error) => ReadError::Encode(error.into()),
        })
    }
}

impl ReaderLogits {
    /// Returns what these scores of `input`, whose passage has the text `text`, find in the passage.
    pub fn reading(&self, input: &ReaderInput, text: &str, options: ReadOptions) -> PassageReading {
        spans::read(input, text, self, options)
    }
}

/// A reader: a question and passages to answers, which are spans of the passages.
pub struct Reader {
    config: ReaderConfig,
    tokenizer: TextTokenizer,
    engine: Engine,
    heads: Heads,
    device_name: String,
}

impl Reader {
    /// Loads a reader on `device`; a question and a passage are cut to `max_tokens`, or to the config's limit.
    ///
    /// # Errors
    /// [`LoadError`] says which file is wrong and what in it.
    pub fn load(
        files: &EncoderBytes<'_>,
        max_tokens: Option<usize>,
        device: &Device,
    ) -> Result<Self, LoadError> {
        let mut config = ReaderConfig::from_json(files.config)?;
        if let Some(limit) = max_tokens {
            config = config.with_max_tokens(limit);
        }
        let (tokenizer, tensors) = files.read(config.encoder())?;
        Self::from_parts(config, tokenizer, tensors, device)
    }

    /// Puts a reader together from its parts.
    ///
    /// # Errors
    /// [`LoadError`] when the tensors or the token types do not fit the config.
    pub fn from_parts(
        config: ReaderConfig,
        tokenizer: TextTokenizer,
        mut tensors: TensorMap,
        device: &Device,
    ) -> Result<Self, LoadError> {
        tokenizer.check_types()?;
        let heads = Heads::load(&config, &mut tensors)?;
        let engine = Engine::load(config.encoder(), tensors, device, PAIR_TYPES)?;
        Ok(Self { config, tokenizer, engine, heads, device_name: device.name().to_owned() })
    }

    /// Returns the reader's sizes.
    pub fn config(&self) -> &ReaderConfig {
        &self.config
    }

    /// Returns the number of tokens that a question and a passage are cut to.
    pub fn max_tokens(&self) -> usize {
        self.tokenizer.max_tokens()
    }

    /// Returns the device that the reader runs on: `cpu`, `flex`, or the name of the GPU adapter.
    pub fn device_name(&self) -> &str {
        &self.device_name
    }

    /// Returns the tokens of a question and a passage, at most [`Reader::max_tokens`]. Of an input of more tokens the
    /// text is cut, never the question; the title is cut where it has more than half of the room that the question
    /// leaves, and in a `DPRReader`, as in transformers, where it has more than all of it.
    ///
    /// # Errors
    /// [`ReadError::Empty`], [`ReadError::Question`], or [`EncodeError::Tokenizer`].
    pub fn input(&self, question: &str, title: &str, text: &str) -> Result<ReaderInput, ReadError> {
        self.config.input(&self.tokenizer, question, title, text)
    }

    /// Returns the scores of inputs, computed as one batch.
    ///
    /// On the CPU kernels an input's scores do not depend on the others in its batch, to the bit.
    ///
    /// # Errors
    /// [`ReadError::NotFinite`], or [`EncodeError`] for an id or a token type that the reader does not have, or a
    /// failed device.
    #[cfg(not(target_family = "wasm"))]
    pub fn logits(&self, inputs: &[ReaderInput]) -> Result<Vec<ReaderLogits>, ReadError> {
        pollster::block_on(self.logits_async(inputs))
    }

    /// Scores as `logits` does, where waiting for a GPU must not block: in a browser.
    ///
    /// # Errors
    /// [`ReadError`] as from `logits`.
    pub async fn logits_async(&self, inputs: &[ReaderInput]) -> Result<Vec<ReaderLogits>, ReadError> {
        self.scores(&inputs.iter().collect::<Vec<_>>()).await
    }

    async fn scores(&self, inputs: &[&ReaderInput]) -> Result<Vec<ReaderLogits>, ReadError> {
        let encoder = self.config.encoder();
        let states = self.engine.states(&rows(inputs), LastStates::All, encoder).await?;
        let mut rest = states.as_slice();
        let scored = inputs.iter().enumerate().map(|(passage, input)| {
            let (states, after) = rest.split_at(input.ids().len() * encoder.hidden_size);
            rest = after;
            self.heads.apply(states).ok_or(ReadError::NotFinite { passage })
        });
        scored.collect()
    }

    /// Returns the scores by which passages are chosen, `[inputs]`, as a reader with a layer for it has them.
    async fn selections(&self, inputs: &[&ReaderInput]) -> Result<Vec<f64>, ReadError> {
        let encoder = self.config.encoder();
        let states = self.engine.states(&rows(inputs), LastStates::First, encoder).await?;
        let states = states.chunks_exact(encoder.hidden_size).enumerate();
        let selections = states.map(|(passage, state)| {
            let score = self.heads.select(state).filter(|score| score.is_finite());
            score.map(f64::from).ok_or(ReadError::NotFinite { passage })
        });
        selections.collect()
    }

    /// Returns what is found in the passages of one batch of inputs, whose texts are `texts`.
    async fn readings(
        &self,
        inputs: &[&ReaderInput],
        texts: &[&str],
        options: ReadOptions,
    ) -> Result<Vec<PassageReading>, ReadError> {
        if options.spans == 0 && self.config.has_selection() {
            let selections = self.selections(inputs).await?.into_iter();
            let reading = |selection| PassageReading { selection: Some(selection), spans: Vec::new() };
            return Ok(selections.map(reading).collect());
        }
        let scored = self.scores(inputs).await?;
        let parts = scored.iter().zip(inputs).zip(texts);
        Ok(parts.map(|((logits, input), text)| logits.reading(input, text, options)).collect())
    }

    /// Returns what is found in each of the `(title, text)` passages, in their order. [`best_answers`] chooses among
    /// the first of them, or all.
    ///
    /// # Errors
    /// [`ReadError`] as from [`Reader::input`] and `logits`.
    #[cfg(not(target_family = "wasm"))]
    pub fn read_passages(
        &self,
        question: &str,
        passages: &[(&str, &str)],
        options: ReadOptions,
    ) -> Result<Vec<PassageReading>, ReadError> {
        pollster::block_on(self.read_passages_async(question, passages, options))
    }

    /// Reads as `read_passages` does, where waiting must not block.
    ///
    /// # Errors
    /// [`ReadError`] as from `read_passages`.
    pub async fn read_passages_async(
        &self,
        question: &str,
        passages: &[(&str, &str)],
        options: ReadOptions,
    ) -> Result<Vec<PassageReading>, ReadError> {
        if question.trim().is_empty() {
            return Err(ReadError::Empty);
        }
        let inputs = passages.iter().map(|(title, text)| self.input(question, title, text));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let mut readings = vec![PassageReading::default(); inputs.len()];
        for batch in by_length(inputs.iter().map(|input| input.ids().len())).chunks(BATCH) {
            let (rows, texts): (Vec<_>, Vec<_>) =
                batch.iter().map(|index| (&inputs[*index], passages[*index].1)).unzip();
            let found = self.readings(&rows, &texts, options).await.map_err(|error| match error {
                ReadError::NotFinite { passage } => ReadError::NotFinite { passage: batch[passage] },
                other => other,
            })?;
            for (index, reading) in batch.iter().zip(found) {
                readings[*index] = reading;
            }
        }
        Ok(readings)
    }

    /// Returns the best answers in `(title, text)` passages, at most `count`, best first: those of the passage with the
    /// highest selection score before those of the next. The list is empty where there are no passages, or where none
    /// of them has a text.
    ///
    /// # Errors
    /// [`ReadError`] as from `read_passages`.
    #[cfg(not(target_family = "wasm"))]
    pub fn read(
        &self,
        question: &str,
        passages: &[(&str, &str)],
        count: usize,
        options: ReadOptions,
    ) -> Result<Vec<Answer>, ReadError> {
        pollster::block_on(self.read_async(question, passages, count, options))
    }

    /// Reads as `read` does, where waiting must not block.
    ///
    /// # Errors
    /// [`ReadError`] as from `read`.
    pub async fn read_async(
        &self,
        question: &str,
        passages: &[(&str, &str)],
        count: usize,
        options: ReadOptions,
    ) -> Result<Vec<Answer>, ReadError> {
        Ok(best_answers(&self.read_passages_async(question, passages, options).await?, count))
    }
}

fn rows<'a>(inputs: &[&'a ReaderInput]) -> Vec<Row<'a>> {
    inputs.iter().map(|input| Row { ids: input.ids(), types: input.types() }).collect()
}
