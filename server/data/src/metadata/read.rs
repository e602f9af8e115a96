//! Reading of metadata and its values, within their limits.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::value::MAX_WHOLE;
use super::{Metadata, MetadataError, Number, Value, check_name};
use crate::reason::reason;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueSeed::new(&"the value").deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata: a flat object of strings, numbers and booleans")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let (mut metadata, mut bytes) = (BTreeMap::new(), 0);
                while let Some(name) = map.next_key::<String>()? {
                    check_name(&name).map_err(A::Error::custom)?;
                    if metadata.len() == Metadata::MAX_FIELDS {
                        return Err(A::Error::custom(MetadataError::Fields));
                    }
                    let value =
                        map.next_value_seed(ValueSeed::new(&format_args!("the metadata field `{name}`")))?;
                    bytes += name.len() + value.bytes();
                    if bytes > Metadata::MAX_BYTES {
                        return Err(A::Error::custom(MetadataError::Bytes));
                    }
                    if metadata.contains_key(&name) {
                        return Err(A::Error::custom(MetadataError::Twice { name }));
                    }
                    metadata.insert(name, value);
                }
                Ok(Metadata(metadata))
            }
        }

        deserializer.deserialize_map(Read)
    }
}

/// Reads a value of JSON, which errors call by its place. It is read from its text: of a whole number that 64 bits do
/// not hold, a visitor sees no more than the nearest float.
#[derive(Clone, Copy)]
pub struct ValueSeed<'a> {
    place: &'a dyn fmt::Display,
}

impl fmt::Debug for ValueSeed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueSeed({})", self.place)
    }
}

impl<'a> ValueSeed<'a> {
    /// Makes a reader of a value that errors call `place`.
    pub fn new(place: &'a dyn fmt::Display) -> Self {
        Self { place }
    }
}

impl ValueSeed<'_> {
    /// Returns the value that a piece of JSON is.
    ///
    /// # Errors
    /// What is wrong, without a line and a column.
    pub(crate) fn read(self, json: &str) -> Result<Value, String> {
        if is_beyond_whole(json) {
            return Err(MetadataError::Whole { place: self.place.to_string() }.to_string());
        }
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Deserializer::deserialize_any(&mut deserializer, self).map_err(|error| reason(&error))
    }

    fn refused<E: Error>(&self, got: &'static str) -> E {
        E::custom(MetadataError::Kind { place: self.place.to_string(), got })
    }

    fn number<E: Error>(&self, number: f64) -> Result<Value, E> {
        Number::new(number).map(Value::Number).ok_or_else(|| self.refused("a number too large for a float"))
    }

    fn whole<E: Error>(&self, magnitude: u64, number: f64) -> Result<Value, E> {
        if magnitude > MAX_WHOLE {
            return Err(E::custom(MetadataError::Whole { place: self.place.to_string() }));
        }
        self.number(number)
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        self.read(json.get()).map_err(D::Error::custom)
    }
}

/// Returns whether a piece of JSON is a whole number, in digits alone, that is beyond 2^53.
fn is_beyond_whole(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole && !digits.parse::<u64>().is_ok_and(|magnitude| magnitude <= MAX_WHOLE)
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a boolean")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Value, E> {
        Ok(Value::Boolean(boolean))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.whole(number, number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.whole(number.unsigned_abs(), number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        self.number(number)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Err(self.refused("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Err(self.refused("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(self.refused("an object"))
    }
}
