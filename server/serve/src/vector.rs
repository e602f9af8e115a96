//! A vector on the wire: an array of numbers, or base64.
//!
//! What is neither is still read to its end and kept as a sentence, so that the answer can say which element
//! of which vector is wrong.

use std::fmt;

use dpr_core::{Embedding, EmbeddingError};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use utoipa::ToSchema;

use super::error::ApiError;
use super::vector_role::VectorRole;

/// A vector on the wire: `dim` numbers, or base64 of them as little-endian f32 or f16.
#[derive(ToSchema)]
#[schema(as = Vector)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes `VectorInput` to OpenAPI")]
pub(super) enum WireVector {
    /// `dim` finite numbers, not all zero.
    Numbers(Vec<f32>),
    /// Base64 of `dim` little-endian f32 (4 bytes each) or f16 (2 bytes each); the length tells which.
    Base64(String),
}

/// Returns the error of a vector of this role that is called `name`.
pub(super) fn invalid(role: VectorRole, name: &str, error: &EmbeddingError) -> ApiError {
    let EmbeddingError::Dimension { got, expected } = error else {
        return ApiError::InvalidVector(role, format!("`{name}`: {error}"));
    };
    let likely = match role {
        VectorRole::Question => "was the question encoded with another model?",
        VectorRole::Passage => "was the passage encoded with another model?",
        VectorRole::Blurred => "was the question blurred for another level?",
    };
    let text = format!("`{name}`: the vector has {got} numbers, expected {expected}: {likely}");
    ApiError::InvalidVector(role, text)
}

/// A vector as it was found in the body.
#[derive(Debug)]
pub(super) enum VectorInput {
    /// Numbers, as many as were wanted, and how many there were.
    Numbers(Vec<f32>, usize),
    Base64(String),
    /// Something else; the text says what.
    Other(String),
}

impl VectorInput {
    /// The vector checked; `name` is what the error calls it.
    pub(super) fn embedding(self, name: &str, dim: usize, role: VectorRole) -> Result<Embedding, ApiError> {
        let result = match self {
            Self::Numbers(values, count) if count == values.len() => Embedding::new(values, dim),
            Self::Numbers(_, got) => Err(EmbeddingError::Dimension { got, expected: dim }),
            Self::Base64(text) => Embedding::from_base64(&text, dim),
            Self::Other(what) => return Err(ApiError::InvalidVector(role, format!("`{name}` {what}"))),
        };
        result.map_err(|error| invalid(role, name, &error))
    }
}

impl<'de> Deserialize<'de> for VectorInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        VectorSeed { dim: usize::MAX }.deserialize(deserializer)
    }
}

/// Reads a vector of which `dim` numbers are wanted; more are counted and not kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct VectorSeed {
    pub(super) dim: usize,
}

impl<'de> DeserializeSeed<'de> for VectorSeed {
    type Value = VectorInput;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<VectorInput, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VectorSeed {
    type Value = VectorInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers or base64 text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<VectorInput, E> {
        Ok(VectorInput::Base64(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<VectorInput, A::Error> {
        // Of no size yet: a body may hold as many arrays as it has bytes.
        let (mut values, mut count, mut other) = (Vec::new(), 0, None);
        while let Some(element) = seq.next_element::<Number>()? {
            match element {
                Number::Float(value) if count < self.dim => values.push(value),
                Number::Other(what) if other.is_none() => other = Some((count, what)),
                Number::Float(_) | Number::Other(_) => {}
            }
            count += 1;
        }
        Ok(match other {
            None => VectorInput::Numbers(values, count),
            Some((at, what)) => VectorInput::Other(format!("has {what} at position {at}, not a number")),
        })
    }

    fn visit_unit<E>(self) -> Result<VectorInput, E> {
        Ok(VectorInput::Other("is null".into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VectorInput, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        // What `JSON.stringify` makes of a `Float32Array`.
        Ok(VectorInput::Other(
            "is an object, not an array: in JavaScript, send `Array.from(vector)` or base64".into(),
        ))
    }
}

/// An element of a vector.
enum Number {
    Float(f32),
    Other(&'static str),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "vectors are f32")]
impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
        Ok(Number::Float(value as f32))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
        Ok(Number::Float(value as f32))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
        Ok(Number::Float(value as f32))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::Other("null (what JavaScript writes for NaN and Infinity)"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number::Other("a boolean"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Number, E> {
        Ok(Number::Other("text"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Number, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number::Other("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number::Other("an object"))
    }
}
