//! Pairs of a question and a passage as one input, with token types.

use super::{TextTokenizer, TokenizerError};
use crate::form::PassageForm;
use crate::row::PAIR_TYPES;
use crate::tokenizer::template::Template;

/// The token ids of a question and a passage, and the type of each token: 0 for the question and 1 for the passage
/// where the model has two types, else 0 for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairTokens {
    ids: Vec<u32>,
    types: Vec<u8>,
}

impl PairTokens {
    /// Returns the token ids, `[tokens]`.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the token types, `[tokens]`, each 0 or 1.
    pub fn types(&self) -> &[u8] {
        &self.types
    }
}

impl TextTokenizer {
    /// Returns the tokens of a question and a passage, `[CLS] question [SEP] passage [SEP]` with the special tokens and
    /// the token types of the tokenizer's own template of two texts. The passage is its title and its text, joined as
    /// the model says; prompts stand before each.
    ///
    /// A pair of more tokens than the limit is truncated as `longest_first` of transformers does, which is what
    /// sentence-transformers asks for: the longer of the two texts loses its end until both are as long, then both do.
    ///
    /// # Errors
    /// [`TokenizerError::Text`] when the library fails.
    pub fn question_and_passage(
        &self,
        question: &str,
        title: &str,
        text: &str,
    ) -> Result<PairTokens, TokenizerError> {
        let Template { start, separators, end, types } = &self.template;
        let first = self.ids(&self.form.question(question))?;
        let second = match self.form.passage(title, text) {
            PassageForm::One(text) => self.ids(&text)?,
            PassageForm::Two(title, text) => {
                let mut ids = self.ids(&title)?;
                ids.extend(separators);
                ids.extend(self.ids(text)?);
                ids
            }
        };
        let room = self.max_tokens - self.template.pair_tokens();
        let (kept_first, kept_second) = longest_first(first.len(), second.len(), room);
        let mut pair = PairTokens::default();
        let mut push = |ids: &[u32], types: &mut dyn Iterator<Item = u32>| {
            pair.ids.extend(ids);
            pair.types.extend(types.take(ids.len()).map(|kind| self.kind(kind)));
        };
        push(start, &mut types.start.iter().copied());
        push(&first[..kept_first], &mut std::iter::repeat(types.first));
        push(separators, &mut types.separators.iter().copied());
        push(&second[..kept_second], &mut std::iter::repeat(types.second));
        push(end, &mut types.end.iter().copied());
        Ok(pair)
    }

    /// Checks that the encoder has embeddings of the token types of pairs. One that has none, or one for all tokens, is
    /// given type 0 alone.
    ///
    /// # Errors
    /// [`TokenizerError::TokenType`] names the type that it has no embedding of.
    pub(crate) fn check_types(&self) -> Result<(), TokenizerError> {
        let found = self.template.types.largest();
        match self.token_types > 1 && found as usize >= PAIR_TYPES {
            true => Err(TokenizerError::TokenType { found }),
            false => Ok(()),
        }
    }

    /// Returns the type that a token of `kind` has in the encoder.
    pub(super) fn kind(&self, kind: u32) -> u8 {
        u8::from(kind > 0 && self.token_types > 1)
    }
}

/// Returns how many tokens of two texts are kept where both together have `room`, as `longest_first` of Python's
/// tokenizers decides it.
pub(super) fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let shorter = first.min(second);
    let (short, long) = match room.checked_sub(shorter) {
        Some(rest) if rest >= shorter => (shorter, rest),
        _ => (room / 2, room - room / 2),
    };
    if first > second { (long, short) } else { (short, long) }
}

#[cfg(test)]
mod tests {
    use super::longest_first;

    #[test]
    fn the_longer_text_is_cut_first() {
        // By `tokenizers` 0.23.3 in Python, enable_truncation(room, strategy="longest_first").
        for (first, second, room, kept) in [
            (3, 4, 7, (3, 4)),
            (3, 9, 8, (3, 5)),
            (9, 3, 8, (5, 3)),
            (9, 9, 8, (4, 4)),
            (9, 9, 7, (3, 4)),
            (9, 8, 7, (4, 3)),
            (5, 6, 9, (4, 5)),
            (6, 5, 9, (5, 4)),
            (0, 9, 4, (0, 4)),
            (9, 9, 0, (0, 0)),
        ] {
            assert_eq!(longest_first(first, second, room), kept, "{first} and {second} in {room}");
        }
    }
}
