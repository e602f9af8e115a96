//! Pairs of a question and a passage as one input, with the places of the passage's tokens in its text: what a reader
//! marks answers by.

use std::ops::Range;

use super::{TextTokenizer, TokenizerError, longest_first};
use crate::form::PassageForm;
use crate::tokenizer::template::Template;

/// The way a reader's input is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[CLS] question [SEP] title [SEP] text` (paper §6.1), all tokens of type 0.
    Paper,
    /// `[CLS] question [SEP] passage [SEP]` with the special tokens and the token types of the tokenizer's own template
    /// of two texts.
    Pair,
}

/// The tokens of a question and a passage, and the place of each of the passage's tokens in its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderInput {
    ids: Vec<u32>,
    types: Vec<u8>,
    passage: Range<usize>,
    /// For each token of the passage's text, the bytes of the word that it is a part of.
    pub(super) words: Vec<Range<usize>>,
}

/// The place of a token in its text.
struct TextToken {
    bytes: Range<usize>,
    /// Number of the word that the tokenizer cut it from.
    word: Option<u32>,
}

/// The reason why a question and a passage make no input.
#[derive(Debug)]
pub(crate) enum LocateError {
    /// The question has no tokens.
    Empty,
    /// The question leaves no room for a passage.
    Question {
        tokens: usize,
    },
    Tokenizer(TokenizerError),
}

impl From<TokenizerError> for LocateError {
    fn from(error: TokenizerError) -> Self {
        Self::Tokenizer(error)
    }
}

impl ReaderInput {
    /// Returns the token ids, `[tokens]`.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the token types, `[tokens]`, each 0 or 1.
    pub fn types(&self) -> &[u8] {
        &self.types
    }

    /// Returns the positions of the tokens of the passage's text. It is empty where the text has no tokens, or where
    /// question and title leave no room.
    pub fn passage(&self) -> Range<usize> {
        self.passage.clone()
    }

    /// Returns the bytes of the passage's text that its tokens from `first` to `last` stand for, counted from 0 at the
    /// first one, extended to whole words, without white space around them. `None` where no text is left.
    pub(crate) fn whole_words(&self, text: &str, first: usize, last: usize) -> Option<Range<usize>> {
        let bytes = self.words.get(first)?.start..self.words.get(last)?.end;
        let cut = text.get(bytes.clone())?;
        let start = bytes.start + (cut.len() - cut.trim_start().len());
        let trimmed = cut.trim();
        (!trimmed.is_empty()).then(|| start..start + trimmed.len())
    }
}

/// Returns for each token the bytes of the word that it is a part of.
fn words(text: &str, tokens: &[TextToken]) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = tokens.iter().map(|token| token.bytes.clone()).collect();
    for at in 1..words.len() {
        if is_one_word(text, &tokens[at - 1], &tokens[at]) {
            words[at].start = words[at - 1].start;
        }
    }
    for at in (1..words.len()).rev() {
        if is_one_word(text, &tokens[at - 1], &tokens[at]) {
            words[at - 1].end = words[at].end;
        }
    }
    words
}

/// Returns whether two tokens that follow each other are parts of one word.
fn is_one_word(text: &str, this: &TextToken, next: &TextToken) -> bool {
    let (Some(before), Some(after)) = (text.get(..this.bytes.end), text.get(next.bytes.start..)) else {
        return false;
    };
    // Tokenizers that split at white space alone leave punctuation in the words.
    let joins = |c: Option<char>| c.is_some_and(|c| !ends_word(c));
    this.word.is_some()
        && this.word == next.word
        && this.bytes.end >= next.bytes.start
        && joins(before.chars().next_back())
        && joins(after.chars().next())
}

/// Returns whether a word does not go on at this character: white space, punctuation, and the scripts that are written
/// without spaces between words.
fn ends_word(c: char) -> bool {
    c.is_whitespace()
        || c.is_ascii_punctuation()
        || matches!(c,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' // Latin-1
            | '\u{2010}'..='\u{205e}' // general punctuation
            | '\u{3000}'..='\u{303f}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' // of East Asia
            | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' // kana and Han
            | '\u{20000}'..='\u{3ffff}'
            | '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}') // Thai, Lao, Burmese, Khmer
}

impl TextTokenizer {
    /// Returns the input of a reader, at most [`TextTokenizer::max_tokens`] tokens: of a longer one the passage's text
    /// is cut. A title is cut in [`Layout::Pair`] where it has more than half of the room that the question leaves, and
    /// in [`Layout::Paper`] where it has more than all of it.
    ///
    /// # Errors
    /// [`LocateError`] for a question without tokens, or one that leaves no room for a passage.
    pub(crate) fn located(
        &self,
        question: &str,
        title: &str,
        text: &str,
        layout: Layout,
    ) -> Result<ReaderInput, LocateError> {
        let Template { start, separators, end, types } = &self.template;
        let question_ids = self.ids(&self.form.question(question))?;
        if question_ids.is_empty() {
            return Err(LocateError::Empty);
        }
        let special = start.len() + separators.len() + end.len();
        let fixed = special + question_ids.len();
        if fixed >= self.max_tokens {
            return Err(LocateError::Question { tokens: fixed });
        }
        let room = self.max_tokens - fixed;
        let mut behind_title: &[u32] = &[];
        let Located { mut before, mut ids, tokens, mut after } = match layout {
            Layout::Paper => Located { before: self.ids(title)?, ..self.tokens_of(text, 0..text.len())? },
            Layout::Pair => match self.form.passage(title, text) {
                PassageForm::One(one) => {
                    let from = self.form.text_offset(title);
                    self.tokens_of(&one, from..from + text.len())?
                }
                PassageForm::Two(title, text) => {
                    behind_title = separators;
                    Located { before: self.ids(&title)?, ..self.tokens_of(text, 0..text.len())? }
                }
            },
        };
        // The tokenizer of transformers' `DPRReader` cuts the end alone.
        if layout == Layout::Pair {
            let of_both = room.saturating_sub(behind_title.len());
            before.truncate(longest_first(before.len(), ids.len() + after.len(), of_both).0);
            before.extend(behind_title);
        }
        before.truncate(room);
        after.truncate(room - before.len());
        let kept = ids.len().min(room - before.len() - after.len());
        let mut input = ReaderInput::default();
        let mut push = |ids: &[u32], kinds: &mut dyn Iterator<Item = u32>| {
            input.ids.extend(ids);
            input.types.extend(kinds.take(ids.len()).map(|kind| self.kind(kind)));
        };
        ids.truncate(kept);
        let all = std::iter::repeat;
        match layout {
            Layout::Paper => {
                for part in [start, &question_ids, separators, &before, end, &ids] {
                    push(part, &mut all(0));
                }
                input.passage = input.ids.len() - kept..input.ids.len();
            }
            Layout::Pair => {
                push(start, &mut types.start.iter().copied());
                push(&question_ids, &mut all(types.first));
                push(separators, &mut types.separators.iter().copied());
                for part in [&before, &ids, &after] {
                    push(part, &mut all(types.second));
                }
                push(end, &mut types.end.iter().copied());
                let from = start.len() + question_ids.len() + separators.len() + before.len();
                input.passage = from..from + kept;
            }
        }
        // Words that the cut goes through are whole, too.
        input.words = words(text, &tokens);
        input.words.truncate(kept);
        Ok(input)
    }

    /// Returns the tokens of `all`, of which the bytes `text` are a passage's text.
    fn tokens_of(&self, all: &str, text: Range<usize>) -> Result<Located, TokenizerError> {
        let encoding = self.inner.encode(all, false).map_err(|e| TokenizerError::Text(e.to_string()))?;
        let (ids, offsets) = (encoding.get_ids(), encoding.get_offsets());
        let from = offsets.iter().position(|(_, end)| *end > text.start).unwrap_or(ids.len());
        let to = offsets[from..].iter().position(|(start, _)| *start >= text.end);
        let to = to.map_or(ids.len(), |count| from + count);
        let place = |byte: usize| byte.clamp(text.start, text.end) - text.start;
        let tokens = offsets[from..to].iter().zip(&encoding.get_word_ids()[from..to]);
        Ok(Located {
            before: ids[..from].to_vec(),
            ids: ids[from..to].to_vec(),
            tokens: tokens
                .map(|((start, end), word)| TextToken { bytes: place(*start)..place(*end), word: *word })
                .collect(),
            after: ids[to..].to_vec(),
        })
    }
}

/// The tokens of a passage: those before its text, of the text, and after it.
#[derive(Default)]
struct Located {
    before: Vec<u32>,
    ids: Vec<u32>,
    tokens: Vec<TextToken>,
    after: Vec<u32>,
}
