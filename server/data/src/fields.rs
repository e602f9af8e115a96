//! JSON field values as the field's files write them: ids as numbers, scores as strings, `null` for nothing.

use std::fmt;

use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Metadata, ValueSeed};

/// An id, which some collections write as a number.
pub(super) struct Id(pub(super) String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl Visitor<'_> for Read {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id (a string or a whole number)")
            }

            fn visit_str<E>(self, text: &str) -> Result<Id, E> {
                Ok(Id(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
        }

        deserializer.deserialize_any(Read)
    }
}

/// A score, which DPR's retriever writes as a string.
pub(super) struct Score(pub(super) f32);

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl Visitor<'_> for Read {
            type Value = Score;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a score (a number, or a string of one)")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Score, E> {
                match text.trim().parse::<f32>() {
                    Ok(score) if score.is_finite() => Ok(Score(score)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Score, E> {
                let score = number as f32;
                if score.is_finite() {
                    Ok(Score(score))
                } else {
                    Err(E::invalid_value(Unexpected::Float(number), &self))
                }
            }

            fn visit_u64<E>(self, number: u64) -> Result<Score, E> {
                Ok(Score(number as f32))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Score, E> {
                Ok(Score(number as f32))
            }
        }

        deserializer.deserialize_any(Read)
    }
}

/// For `deserialize_with`: `null` stands for the empty value. A missing field needs `default` beside it.
pub(super) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// For `deserialize_with`: the metadata of a document, as corpora of others have it. What metadata cannot hold, `null`,
/// arrays and objects, is left out; names and values beyond the limits are refused, and a name that is there twice. A
/// missing field needs `default` beside it.
pub(super) fn flat_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
    struct Read;

    impl<'de> Visitor<'de> for Read {
        type Value = Metadata;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of metadata")
        }

        fn visit_unit<E>(self) -> Result<Metadata, E> {
            Ok(Metadata::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
            let mut metadata = Metadata::default();
            while let Some((name, json)) = map.next_entry::<String, Box<RawValue>>()? {
                // `null`, an array or an object.
                if json.get().starts_with(['n', '[', '{']) {
                    continue;
                }
                let place = format!("the metadata field `{name}`");
                let value = ValueSeed::new(&place).read(json.get()).map_err(A::Error::custom)?;
                metadata.insert(name, value).map_err(A::Error::custom)?;
            }
            Ok(metadata)
        }
    }

    deserializer.deserialize_any(Read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_foreign_metadata_what_is_flat_is_kept() {
        let read = |json: &str| flat_metadata(&mut serde_json::Deserializer::from_str(json));
        let json = r#"{"url":"u","year":2020,"ok":true,"authors":["a"],"of":{"a":1},"doi":null}"#;
        let expected = serde_json::from_str(r#"{"url":"u","year":2020,"ok":true}"#).unwrap();
        assert_eq!(read(json).unwrap(), expected);
        for empty in ["null", "{}", r#"{"a":[]}"#, r#"{"a":{"b":1},"a":null}"#] {
            assert_eq!(read(empty).unwrap(), Metadata::default());
        }
        for (bad, says) in [
            ("7", "a map"),
            (r#"{"":1}"#, "0 bytes"),
            (r#"{"n":9007199254740993}"#, "the metadata field `n` is a whole number beyond 2^53"),
            (r#"{"n":123456789012345678901}"#, "the metadata field `n` is a whole number beyond 2^53"),
            (r#"{"n":-123456789012345678902}"#, "the metadata field `n` is a whole number beyond 2^53"),
            (r#"{"lang":"en","lang":"de"}"#, "the metadata field `lang` is given twice"),
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn ids_may_be_numbers_and_scores_strings() {
        let ids: Vec<Id> = serde_json::from_str(r#"["wiki:1", 12, -3]"#).unwrap();
        assert_eq!(ids.iter().map(|id| id.0.as_str()).collect::<Vec<_>>(), ["wiki:1", "12", "-3"]);
        let scores: Vec<Score> = serde_json::from_str(r#"[1000, 13.394315, "81.65", "-3"]"#).unwrap();
        assert_eq!(scores.iter().map(|s| s.0).collect::<Vec<_>>(), [1000.0, 13.394315, 81.65, -3.0]);
        for bad in ["1.5", "null", "[]"] {
            assert!(serde_json::from_str::<Id>(bad).is_err(), "{bad}");
        }
        for bad in [r#""high""#, r#""nan""#, "1e99", "true"] {
            assert!(serde_json::from_str::<Score>(bad).is_err(), "{bad}");
        }
    }
}
