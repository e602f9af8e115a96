//! Arrays of a body that are read up to a limit: further elements are counted and not kept.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// The first elements of an array, as many as may be kept, and the number of all.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Bounded<T> {
    pub(super) kept: Vec<T>,
    #[serde(skip)]
    pub(super) count: usize,
}

/// Reads an array into a [`Bounded`]. The array takes memory for `max` elements at most, so a body of many short
/// elements, which are larger in memory than in JSON, takes no more than a good one.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundedSeed<S> {
    /// Elements to keep.
    pub(super) max: usize,
    /// Reads an element.
    pub(super) element: S,
    /// The words of an error for what is expected here: "an array of strings".
    pub(super) expected: &'static str,
}

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for BoundedSeed<S> {
    type Value = Bounded<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for BoundedSeed<S> {
    type Value = Bounded<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        // Without `size_hint`: memory is taken as elements arrive.
        let mut kept = Vec::new();
        while kept.len() < self.max
            && let Some(element) = seq.next_element_seed(self.element)?
        {
            kept.push(element);
        }
        let mut count = kept.len();
        while count >= self.max && seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Bounded { kept, count })
    }
}
