//! Conditions on the metadata of passages, as filters hold them.

mod parse;

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::ops::{Bound, RangeBounds as _};

use dpr_data::{Metadata, Value};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// A condition on the metadata of a passage. A passage without a field fails every comparison of that field, and passes
/// the negation of each.
///
/// In JSON a condition is an object, in one of these forms:
///
/// ```json
/// {"field": "lang", "eq": "en"}
/// {"field": "year", "in": [2020, 2021]}
/// {"field": "year", "gte": 2000, "lt": 2010}
/// {"not": {"field": "draft", "eq": true}}
/// {"and": [{"field": "lang", "eq": "en"}, {"field": "year", "gt": 1999}]}
/// {"or": [{"field": "lang", "eq": "en"}, {"field": "lang", "eq": "de"}]}
/// ```
///
/// A range has at most one of `gt` and `gte` and at most one of `lt` and `lte`, all of them numbers or all of them
/// strings; strings are compared by their UTF-8 bytes. What is read from JSON is at most [`Condition::MAX_DEPTH`]
/// conditions deep, with at most [`Condition::MAX_LEAVES`] comparisons of at most [`Condition::MAX_VALUES`] values
/// together; the error names the place.
///
/// ```
/// use dpr_data::Metadata;
/// use dpr_index::search::Condition;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let condition: Condition = serde_json::from_str(r#"{"field": "year", "gte": 2000, "lt": 2010}"#)?;
/// assert!(condition.allows(&Metadata::new([("year", 2009)])?));
/// assert!(!condition.allows(&Metadata::new([("year", 2010)])?));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The field has this value.
    Equals {
        /// The name of the field.
        field: String,
        /// Its value.
        value: Value,
    },
    /// The field has one of these values.
    In {
        /// The name of the field.
        field: String,
        /// The values.
        values: BTreeSet<Value>,
    },
    /// The field has a value of the bounds' kind that is between them.
    Range {
        /// The name of the field.
        field: String,
        /// The lower bound.
        from: Bound<Value>,
        /// The upper bound.
        to: Bound<Value>,
    },
    /// The condition does not hold.
    Not(Box<Condition>),
    /// All conditions hold.
    And(Vec<Condition>),
    /// At least one condition holds.
    Or(Vec<Condition>),
}

impl Condition {
    /// Most conditions within one another.
    pub const MAX_DEPTH: usize = 16;

    /// Most comparisons.
    pub const MAX_LEAVES: usize = 256;

    /// Most values that are compared with, in all comparisons together.
    pub const MAX_VALUES: usize = 1000;

    /// Returns `true` if the condition holds for a passage with this metadata.
    pub fn allows(&self, metadata: &Metadata) -> bool {
        match self {
            Self::Equals { field, value } => metadata.get(field) == Some(value),
            Self::In { field, values } => metadata.get(field).is_some_and(|value| values.contains(value)),
            Self::Range { field, from, to } => {
                metadata.get(field).is_some_and(|value| is_between(value, from, to))
            }
            Self::Not(condition) => !condition.allows(metadata),
            Self::And(conditions) => conditions.iter().all(|condition| condition.allows(metadata)),
            Self::Or(conditions) => conditions.iter().any(|condition| condition.allows(metadata)),
        }
    }
}

/// Returns `true` for a value between the bounds and of their kind.
fn is_between(value: &Value, from: &Bound<Value>, to: &Bound<Value>) -> bool {
    let is_of_kind = |bound: &Bound<Value>| match bound {
        Bound::Included(bound) | Bound::Excluded(bound) => discriminant(bound) == discriminant(value),
        Bound::Unbounded => true,
    };
    is_of_kind(from) && is_of_kind(to) && (from.as_ref(), to.as_ref()).contains(value)
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Equals { field, value } => {
                map.serialize_entry("field", field)?;
                map.serialize_entry("eq", value)?;
            }
            Self::In { field, values } => {
                map.serialize_entry("field", field)?;
                map.serialize_entry("in", values)?;
            }
            Self::Range { field, from, to } => {
                map.serialize_entry("field", field)?;
                for (bound, included, excluded) in [(from, "gte", "gt"), (to, "lte", "lt")] {
                    match bound {
                        Bound::Included(value) => map.serialize_entry(included, value)?,
                        Bound::Excluded(value) => map.serialize_entry(excluded, value)?,
                        Bound::Unbounded => {}
                    }
                }
            }
            Self::Not(condition) => map.serialize_entry("not", condition)?,
            Self::And(conditions) => map.serialize_entry("and", conditions)?,
            Self::Or(conditions) => map.serialize_entry("or", conditions)?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: &str, metadata: &str) -> bool {
        let condition: Condition = serde_json::from_str(condition).unwrap();
        let written = serde_json::to_string(&condition).unwrap();
        assert_eq!(serde_json::from_str::<Condition>(&written).unwrap(), condition, "{written}");
        condition.allows(&serde_json::from_str(metadata).unwrap())
    }

    #[test]
    fn every_comparison_holds_for_what_it_says_and_fails_for_a_passage_without_the_field() {
        for (condition, allowed, refused) in [
            (r#"{"field":"a","eq":"x"}"#, r#"{"a":"x"}"#, r#"{"a":"X"}"#),
            (r#"{"field":"a","eq":2}"#, r#"{"a":2.0}"#, r#"{"a":"2"}"#),
            (r#"{"eq":true,"field":"a"}"#, r#"{"a":true}"#, r#"{"a":1}"#),
            (r#"{"field":"a","in":[1,"x",false]}"#, r#"{"a":false}"#, r#"{"a":true}"#),
            (r#"{"field":"a","gte":-1,"lt":2}"#, r#"{"a":-1}"#, r#"{"a":2}"#),
            (r#"{"field":"a","gt":-1,"lte":2}"#, r#"{"a":2}"#, r#"{"a":-1}"#),
            (r#"{"field":"a","gt":0}"#, r#"{"a":0.5}"#, r#"{"a":"x"}"#),
            (r#"{"field":"a","gt":0}"#, r#"{"a":1e300}"#, r#"{"a":true}"#),
            (r#"{"field":"a","lte":"m"}"#, r#"{"a":"M"}"#, r#"{"a":"ma"}"#),
        ] {
            assert!(holds(condition, allowed), "{condition} {allowed}");
            assert!(!holds(condition, refused), "{condition} {refused}");
            assert!(!holds(condition, "{}"), "{condition}");
            let negated = format!(r#"{{"not":{condition}}}"#);
            assert!(!holds(&negated, allowed), "{negated} {allowed}");
            assert!(holds(&negated, refused) && holds(&negated, "{}"), "{negated}");
        }
        assert!(!holds(r#"{"field":"a","gte":2,"lt":1}"#, r#"{"a":1.5}"#));
        assert!(!holds(r#"{"field":"a","gt":1,"lt":1}"#, r#"{"a":1}"#));
    }

    #[test]
    fn conditions_are_combined() {
        let english = r#"{"field":"lang","eq":"en"}"#;
        let new = r#"{"field":"year","gte":2020}"#;
        let both = format!(r#"{{"and":[{english},{new}]}}"#);
        let either = format!(r#"{{"or":[{english},{new}]}}"#);
        for (metadata, all, any) in [
            (r#"{"lang":"en","year":2021}"#, true, true),
            (r#"{"lang":"en","year":1999}"#, false, true),
            (r#"{"year":2020}"#, false, true),
            ("{}", false, false),
        ] {
            assert_eq!((holds(&both, metadata), holds(&either, metadata)), (all, any), "{metadata}");
        }
    }
}
