//! JSON field values as the field's files write them: ids as numbers, scores as strings, `null` for nothing.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

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

/// Returns serde_json's message without the place, which is relative to the text it was given.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
