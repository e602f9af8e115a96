//! Values of metadata: texts, numbers that can be ordered, booleans.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};

/// Largest whole number that every JSON reader keeps: 2^53.
pub(super) const MAX_WHOLE: u64 = 1 << 53;

/// A finite 64-bit floating-point number. −0 is 0, so that equal numbers have equal bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(f64);

/// The value of a metadata field. Values of one kind are ordered: texts by their bytes, numbers by size, `false`
/// before `true`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(Number),
    /// True or false.
    Boolean(bool),
}

impl Number {
    /// Makes a number; `None` for one that is not finite.
    pub fn new(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        // Turns −0 into 0.
        Some(Self(number + 0.0))
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Number {}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i32> for Number {
    fn from(number: i32) -> Self {
        Self(f64::from(number))
    }
}

/// A whole number is written as one: `2020`, not `2020.0`.
impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_whole(self.0) {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// Returns `true` for a whole number that is kept exactly.
fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= MAX_WHOLE as f64
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl Value {
    /// Returns `a string`, `a number` or `a boolean`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Boolean(_) => "a boolean",
        }
    }

    /// Returns the bytes that it counts towards [`Metadata::MAX_BYTES`].
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Number(_) | Self::Boolean(_) => 8,
        }
    }
}
