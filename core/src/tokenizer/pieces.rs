//! Check of a Unigram model's pieces before the `tokenizers` library reads them: it keeps them in a tree that is taken
//! down by as many nested calls as the longest piece has bytes.

use std::borrow::Cow;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The longest piece in bytes. SentencePiece makes none of more than 16 characters unless it is told to.
const MAX_PIECE: usize = 1024;

/// The `model` of a `tokenizer.json`, read for the check alone.
#[derive(Default, Deserialize)]
pub(super) struct Pieces {
    #[serde(default, rename = "vocab")]
    _vocab: Vocabulary,
}

/// A vocabulary: a list of pieces with their scores, all short enough, or anything else.
#[derive(Default)]
struct Vocabulary;

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Vocabulary {
    type Value = Self;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> Result<Self, A::Error> {
        while let Some((piece, _)) = pieces.next_element::<(Cow<'de, str>, f64)>()? {
            if piece.len() > MAX_PIECE {
                return Err(A::Error::custom(format_args!(
                    "a piece of its vocabulary has {} bytes, more than {MAX_PIECE}",
                    piece.len()
                )));
            }
        }
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}
