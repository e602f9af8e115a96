//! Conditions read from JSON, with limits that hold while they are read.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::mem::discriminant;
use std::ops::Bound;

use dpr_data::{Metadata, Value, ValueSeed};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Condition;

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = Counts::default();
        ConditionSeed { place: Place::Root, depth: 1, counts: &counts }.deserialize(deserializer)
    }
}

/// Comparisons and values read so far.
#[derive(Default)]
struct Counts {
    leaves: Cell<usize>,
    values: Cell<usize>,
}

/// The place of a value in the condition, from the outside: `and[1].not.eq`.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'static str),
    Element(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the condition"),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

/// Reads a condition.
#[derive(Clone, Copy)]
struct ConditionSeed<'a> {
    place: Place<'a>,
    depth: usize,
    counts: &'a Counts,
}

impl ConditionSeed<'_> {
    fn refused<E: Error>(&self, why: impl fmt::Display) -> E {
        E::custom(format_args!("{}: {why}", self.place))
    }

    fn count<E: Error>(&self, counter: &Cell<usize>, limit: usize, what: &str) -> Result<(), E> {
        if counter.get() == limit {
            return Err(self.refused(format_args!("there are more than {limit} {what}")));
        }
        counter.set(counter.get() + 1);
        Ok(())
    }

    fn count_value<E: Error>(&self) -> Result<(), E> {
        self.count(&self.counts.values, Condition::MAX_VALUES, "values in all")
    }
}

/// The parts of one object, before they are put together.
#[derive(Default)]
struct Parts {
    field: Option<String>,
    equals: Option<Value>,
    values: Option<BTreeSet<Value>>,
    from: Option<Bound<Value>>,
    to: Option<Bound<Value>>,
    not: Option<Box<Condition>>,
    and: Option<Vec<Condition>>,
    or: Option<Vec<Condition>>,
}

impl<'de> DeserializeSeed<'de> for ConditionSeed<'_> {
    type Value = Condition;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Condition, D::Error> {
        if self.depth > Condition::MAX_DEPTH {
            let max = Condition::MAX_DEPTH;
            return Err(self.refused(format_args!("it is more than {max} conditions deep")));
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ConditionSeed<'_> {
    type Value = Condition;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object for {}", self.place)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Condition, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "field" => self.once(&mut parts.field, map.next_value()?, "field")?,
                "eq" => self.once(&mut parts.equals, self.value(&mut map, "eq")?, "eq")?,
                "in" => self.once(&mut parts.values, map.next_value_seed(Values(self))?, "in")?,
                "gt" => self.bound(&mut parts.from, &mut map, "gt", Bound::Excluded)?,
                "gte" => self.bound(&mut parts.from, &mut map, "gte", Bound::Included)?,
                "lt" => self.bound(&mut parts.to, &mut map, "lt", Bound::Excluded)?,
                "lte" => self.bound(&mut parts.to, &mut map, "lte", Bound::Included)?,
                "not" => {
                    let place = Place::Field(&self.place, "not");
                    let seed = ConditionSeed { place, depth: self.depth + 1, ..self };
                    self.once(&mut parts.not, Box::new(map.next_value_seed(seed)?), "not")?;
                }
                "and" => self.once(&mut parts.and, map.next_value_seed(List(self, "and"))?, "and")?,
                "or" => self.once(&mut parts.or, map.next_value_seed(List(self, "or"))?, "or")?,
                other => {
                    let name: String = other.chars().take(40).collect();
                    return Err(self.refused(format_args!(
                        "there is no operator `{name}`; the operators are eq, in, gt, gte, lt and lte (each with `field`), not, and, or"
                    )));
                }
            }
        }
        self.whole(parts)
    }
}

impl ConditionSeed<'_> {
    fn once<T, E: Error>(&self, slot: &mut Option<T>, value: T, name: &str) -> Result<(), E> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(self.refused(format_args!("`{name}` is given twice"))),
        }
    }

    fn value<'de, A: MapAccess<'de>>(&self, map: &mut A, name: &'static str) -> Result<Value, A::Error> {
        self.count_value()?;
        map.next_value_seed(ValueSeed::new(&Place::Field(&self.place, name)))
    }

    fn bound<'de, A: MapAccess<'de>>(
        &self,
        slot: &mut Option<Bound<Value>>,
        map: &mut A,
        name: &'static str,
        bound: fn(Value) -> Bound<Value>,
    ) -> Result<(), A::Error> {
        let value = self.value(map, name)?;
        if matches!(value, Value::Boolean(_)) {
            return Err(self.refused(format_args!("`{name}` takes a number or a string")));
        }
        match slot.replace(bound(value)) {
            None => Ok(()),
            Some(_) => {
                Err(self.refused("it has two bounds of one side: give one of gt and gte, one of lt and lte"))
            }
        }
    }

    /// Returns the condition that the parts of an object make.
    fn whole<E: Error>(&self, parts: Parts) -> Result<Condition, E> {
        let Parts { field, equals, values, from, to, not, and, or } = parts;
        let range = (from.is_some() || to.is_some())
            .then(|| (from.unwrap_or(Bound::Unbounded), to.unwrap_or(Bound::Unbounded)));
        let is_leaf = equals.is_some() || values.is_some() || range.is_some();
        let field = match (field, is_leaf) {
            (Some(field), true) if (1..=Metadata::MAX_NAME).contains(&field.len()) => {
                self.count(&self.counts.leaves, Condition::MAX_LEAVES, "comparisons")?;
                field
            }
            (Some(field), true) => {
                let got = field.len();
                let max = Metadata::MAX_NAME;
                return Err(self.refused(format_args!("`field` has {got} bytes, must have 1 to {max}")));
            }
            (None, true) => return Err(self.refused("`field` is missing: name the field to compare")),
            (Some(_), false) => {
                return Err(self.refused("`field` is alone: compare it by eq, in, gt, gte, lt or lte"));
            }
            (None, false) => String::new(),
        };
        match (equals, values, range, not, and, or) {
            (Some(value), None, None, None, None, None) => Ok(Condition::Equals { field, value }),
            (None, Some(values), None, None, None, None) => Ok(Condition::In { field, values }),
            (None, None, Some((from, to)), None, None, None) => {
                let kinds = [&from, &to].map(|bound| match bound {
                    Bound::Included(value) | Bound::Excluded(value) => Some(discriminant(value)),
                    Bound::Unbounded => None,
                });
                if let [Some(from), Some(to)] = kinds
                    && from != to
                {
                    return Err(self.refused("one bound is a number and the other a string"));
                }
                Ok(Condition::Range { field, from, to })
            }
            (None, None, None, Some(condition), None, None) => Ok(Condition::Not(condition)),
            (None, None, None, None, Some(conditions), None) => Ok(Condition::And(conditions)),
            (None, None, None, None, None, Some(conditions)) => Ok(Condition::Or(conditions)),
            (None, None, None, None, None, None) => {
                Err(self.refused("it is empty: leave it out, or give a field and an operator"))
            }
            _ => Err(self.refused("it has several operators: join them by `and`")),
        }
    }
}

/// Reads the values of `in`.
struct Values<'a>(ConditionSeed<'a>);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = BTreeSet<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = BTreeSet<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array for {}", Place::Field(&self.0.place, "in"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut values, place) = (BTreeSet::new(), Place::Field(&self.0.place, "in"));
        for at in 0.. {
            let place = Place::Element(&place, at);
            let Some(value) = seq.next_element_seed(ValueSeed::new(&place))? else { break };
            self.0.count_value()?;
            values.insert(value);
        }
        if values.is_empty() {
            return Err(self.0.refused("`in` holds no value: give at least one"));
        }
        Ok(values)
    }
}

/// Reads the conditions of `and` or `or`.
struct List<'a>(ConditionSeed<'a>, &'static str);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<Condition>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<Condition>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array for {}", Place::Field(&self.0.place, self.1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Self(parent, name) = self;
        let (mut conditions, place) = (Vec::new(), Place::Field(&parent.place, name));
        for at in 0.. {
            let seed = ConditionSeed {
                place: Place::Element(&place, at),
                depth: parent.depth + 1,
                counts: parent.counts,
            };
            let Some(condition) = seq.next_element_seed(seed)? else { break };
            conditions.push(condition);
        }
        if conditions.is_empty() {
            return Err(parent.refused(format_args!("`{name}` holds no condition: give at least one")));
        }
        Ok(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(json: &str) -> String {
        serde_json::from_str::<Condition>(json).expect_err(json).to_string()
    }

    #[test]
    fn every_kind_of_bad_condition_is_refused_by_its_place() {
        for (json, says) in [
            ("[]", "an object for the condition"),
            ("null", "an object for the condition"),
            ("{}", "the condition: it is empty"),
            (r#"{"field":"a"}"#, "`field` is alone"),
            (r#"{"eq":1}"#, "`field` is missing"),
            (r#"{"field":"","eq":1}"#, "`field` has 0 bytes"),
            (r#"{"field":7,"eq":1}"#, "expected a string"),
            (r#"{"field":"a","like":"x%"}"#, "no operator `like`"),
            (r#"{"field":"a","eq":null}"#, "eq is null"),
            (r#"{"field":"a","eq":[1]}"#, "eq is an array"),
            (r#"{"field":"a","eq":{"b":1}}"#, "eq is an object"),
            (r#"{"field":"a","eq":9007199254740993}"#, "eq is a whole number beyond 2^53"),
            (r#"{"field":"a","gt":123456789012345678901}"#, "gt is a whole number beyond 2^53"),
            (r#"{"field":"a","in":[-123456789012345678902]}"#, "in[0] is a whole number beyond 2^53"),
            (r#"{"field":"a","eq":1,"eq":2}"#, "`eq` is given twice"),
            (r#"{"field":"a","eq":1,"in":[2]}"#, "several operators"),
            (r#"{"field":"a","eq":1,"not":{"field":"a","eq":1}}"#, "several operators"),
            (r#"{"field":"a","not":{"field":"a","eq":1}}"#, "`field` is alone"),
            (r#"{"field":"a","in":[]}"#, "`in` holds no value"),
            (r#"{"field":"a","in":5}"#, "an array for in"),
            (r#"{"field":"a","in":[1,null]}"#, "in[1] is null"),
            (r#"{"field":"a","gt":1,"gte":2}"#, "two bounds of one side"),
            (r#"{"field":"a","gt":1,"lt":"2"}"#, "one bound is a number and the other a string"),
            (r#"{"field":"a","gt":true}"#, "`gt` takes a number or a string"),
            (r#"{"and":[]}"#, "`and` holds no condition"),
            (r#"{"or":{}}"#, "an array for or"),
            (
                r#"{"and":[{"field":"a","eq":1},{"not":{"or":[{"x":1}]}}]}"#,
                "and[1].not.or[0]: there is no operator",
            ),
            (r#"{"and":[{"field":"a","in":[1,[]]}]}"#, "and[0].in[1] is an array"),
        ] {
            assert!(error(json).contains(says), "{json}: {}", error(json));
        }
    }

    #[test]
    fn depth_comparisons_and_values_are_limited_while_they_are_read() {
        let leaf = r#"{"field":"a","eq":1}"#;
        let deep =
            |depth: usize| format!("{}{leaf}{}", r#"{"not":"#.repeat(depth - 1), "}".repeat(depth - 1));
        assert!(serde_json::from_str::<Condition>(&deep(Condition::MAX_DEPTH)).is_ok());
        assert!(error(&deep(Condition::MAX_DEPTH + 1)).contains("more than 16 conditions deep"));
        // Not read to its end: that would exceed the depth which the JSON reader allows.
        assert!(error(&deep(100_000)).contains("more than 16 conditions deep"));

        let wide = |count: usize| format!(r#"{{"or":[{}]}}"#, vec![leaf; count].join(","));
        assert!(serde_json::from_str::<Condition>(&wide(Condition::MAX_LEAVES)).is_ok());
        assert!(
            error(&wide(Condition::MAX_LEAVES + 1)).contains("or[256]: there are more than 256 comparisons")
        );

        let many = |count: usize| {
            let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
            format!(r#"{{"and":[{leaf},{{"field":"b","in":[{}]}}]}}"#, values.join(","))
        };
        assert!(serde_json::from_str::<Condition>(&many(Condition::MAX_VALUES - 1)).is_ok());
        assert!(
            error(&many(Condition::MAX_VALUES)).contains("and[1]: there are more than 1000 values in all")
        );
    }
}
