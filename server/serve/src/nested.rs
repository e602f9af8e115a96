//! Values that were left in a body as they were sent, and are read later. An error names the place of the value in the
//! body: a line and a column would count from the beginning of the value.

use std::cell::Cell;
use std::fmt::Display;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use serde_json::value::RawValue;

use super::bounded::{Bounded, BoundedSeed};

/// Returns the value.
///
/// # Errors
/// What is wrong with it, without a place.
pub(super) fn value<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(json.get()).map_err(|error| message(&error))
}

/// Returns an error's text without its line and column.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

/// Returns the elements of the array at `place`, as [`BoundedSeed`] reads them.
///
/// # Errors
/// What is wrong, with the place of the element if it is one.
pub(super) fn array<'a, T: Deserialize<'a>>(
    json: &'a RawValue,
    place: &str,
    max: usize,
) -> Result<Bounded<T>, String> {
    let mut json = serde_json::Deserializer::from_str(json.get());
    array_from(&mut json, place, max, "an array").map_err(|error| message(&error))
}

/// As [`array`], from a deserializer of JSON that has been looked through once.
pub(super) fn array_from<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    place: &str,
    max: usize,
    expected: &'static str,
) -> Result<Bounded<T>, D::Error> {
    let begun = Cell::new(0_usize);
    let element = CountedSeed { begun: &begun, element: PhantomData::<T> };
    let read = BoundedSeed { max, element, expected }.deserialize(deserializer);
    let at = |place: &dyn Display, error| D::Error::custom(format_args!("`{place}`: {error}"));
    read.map_err(|error| match begun.get().checked_sub(1) {
        None => at(&place, error),
        Some(last) => at(&format_args!("{place}[{last}]"), error),
    })
}

/// Reads an element, and counts those that were begun.
#[derive(Debug)]
struct CountedSeed<'c, T> {
    begun: &'c Cell<usize>,
    element: PhantomData<T>,
}

impl<T> Clone for CountedSeed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CountedSeed<'_, T> {}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for CountedSeed<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        self.begun.set(self.begun.get() + 1);
        T::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn errors_name_the_element_and_no_line() {
        for (json, says) in [
            ("7", "`a.b`: invalid type: integer `7`, expected an array"),
            (r#"[7]"#, "`a.b[0]`: invalid type: integer `7`, expected a string"),
            (r#"["x","y", null,"z"]"#, "`a.b[2]`: invalid type: null, expected a string"),
        ] {
            assert_eq!(array::<String>(&raw(json), "a.b", 3).unwrap_err(), says);
        }
        assert_eq!(
            value::<String>(&raw("\n 7")).unwrap_err(),
            "invalid type: integer `7`, expected a string"
        );
    }

    #[test]
    fn elements_above_the_limit_are_counted_and_not_read() {
        let read = array::<String>(&raw(r#"["x","y",7,{}]"#), "a", 2).unwrap();
        assert_eq!((read.kept, read.count), (vec!["x".to_owned(), "y".to_owned()], 4));
    }
}
