//! Metadata of a passage: named strings, numbers and booleans, by which searches are filtered.

mod error;
mod read;
mod value;

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::Sha256;

pub use error::MetadataError;
pub use read::ValueSeed;
pub use value::{Number, Value};

/// The metadata of a passage: a flat object of at most [`Metadata::MAX_FIELDS`] values, each with a name of 1 to
/// [`Metadata::MAX_NAME`] bytes, and of at most [`Metadata::MAX_BYTES`] in all. A passage without metadata has the
/// empty one.
///
/// ```
/// use dpr_data::{Metadata, Value};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let metadata: Metadata = serde_json::from_str(r#"{"lang": "en", "year": 2020, "draft": false}"#)?;
/// assert_eq!(metadata.get("lang"), Some(&Value::from("en")));
/// let nested = serde_json::from_str::<Metadata>(r#"{"source": {"name": "wiki"}}"#).unwrap_err();
/// assert!(nested.to_string().contains("the metadata field `source` is an object"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Metadata(BTreeMap<String, Value>);

impl Metadata {
    /// Most fields of a passage.
    pub const MAX_FIELDS: usize = 64;

    /// Most bytes of a field's name.
    pub const MAX_NAME: usize = 64;

    /// Most bytes of all names and values of a passage together; a number and a boolean count as 8.
    pub const MAX_BYTES: usize = 64 << 10;

    /// Makes metadata of `fields`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn new<N: Into<String>, V: Into<Value>>(
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, MetadataError> {
        let mut metadata = Self::default();
        for (name, value) in fields {
            metadata.insert(name.into(), value.into())?;
        }
        Ok(metadata)
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`MetadataError`]: the field is there, its name is empty or too long, or there are too many fields or bytes.
    pub fn insert(&mut self, name: String, value: Value) -> Result<(), MetadataError> {
        check_name(&name)?;
        if self.0.len() == Self::MAX_FIELDS {
            return Err(MetadataError::Fields);
        }
        if self.bytes() + name.len() + value.bytes() > Self::MAX_BYTES {
            return Err(MetadataError::Bytes);
        }
        if self.0.contains_key(&name) {
            return Err(MetadataError::Twice { name });
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the fields in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes of all names and values; a number and a boolean count as 8.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.bytes()).sum()
    }

    /// Adds the fields to a digest; nothing where there are none.
    pub(super) fn digest(&self, hash: &mut Sha256) {
        use sha2::Digest as _;
        if self.is_empty() {
            return;
        }
        // No length of a field is so large, so that nothing else has the same digest.
        hash.update(u64::MAX.to_le_bytes());
        hash.update((self.len() as u64).to_le_bytes());
        for (name, value) in self.iter() {
            let (kind, bytes): (u8, Vec<u8>) = match value {
                Value::Text(text) => (0, text.as_bytes().to_vec()),
                Value::Number(number) => (1, number.get().to_le_bytes().to_vec()),
                Value::Boolean(boolean) => (2, vec![u8::from(*boolean)]),
            };
            for part in [name.as_bytes(), [kind].as_slice(), bytes.as_slice()] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), MetadataError> {
    if (1..=Metadata::MAX_NAME).contains(&name.len()) {
        return Ok(());
    }
    Err(MetadataError::Name { name: name.chars().take(40).collect(), got: name.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Metadata, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_read_and_written_as_they_are() {
        let json = r#"{"draft":false,"lang":"en","low":-2.5,"year":2020}"#;
        let metadata = parse(json).unwrap();
        assert_eq!(serde_json::to_string(&metadata).unwrap(), json);
        assert_eq!(metadata.get("year"), Some(&Value::from(2020)));
        assert_eq!(parse(r#"{"year":2.02e3}"#).unwrap(), parse(r#"{"year":2020}"#).unwrap());
        assert_eq!(parse(r#"{"zero":-0.0}"#).unwrap(), parse(r#"{"zero":0}"#).unwrap());
        assert_eq!(parse("{}").unwrap(), Metadata::default());
        // A number with a fraction or an exponent is a float, however large.
        assert_eq!(parse(r#"{"far":1.5e20}"#).unwrap(), parse(r#"{"far":150000000000000000000.0}"#).unwrap());
    }

    #[test]
    fn an_error_of_a_value_has_the_column_of_its_line() {
        let error = serde_json::from_str::<Metadata>(r#"{"lang":"en","a":null}"#).unwrap_err();
        assert_eq!((error.line(), error.column() > 12), (1, true), "{error}");
        assert_eq!(error.to_string().matches(" at line ").count(), 1, "{error}");
    }

    #[test]
    fn numbers_are_finite_ordered_and_stay_as_they_are_when_written_and_read() {
        assert_eq!(Number::new(f64::NAN), None);
        assert_eq!(Number::new(f64::INFINITY), None);
        assert_eq!(Number::new(-0.0), Number::new(0.0));
        assert!(Number::new(-1.5) < Number::new(0.25) && Number::new(2.0) < Number::new(1e300));
        let mut random = dpr_core::random::SplitMix::new(7);
        for _ in 0..20_000 {
            let Some(number) = Number::new(f64::from_bits(random.bits())) else { continue };
            let again: Value = serde_json::from_str(&serde_json::to_string(&number).unwrap()).unwrap();
            assert_eq!(again, Value::Number(number));
        }
    }

    #[test]
    fn what_is_not_flat_is_refused_by_the_name_of_its_field() {
        for (json, says) in [
            (r#"{"a":null}"#, "`a` is null"),
            (r#"{"a":[1,[2]]}"#, "`a` is an array"),
            (r#"{"a":{"b":{}}}"#, "`a` is an object"),
            (r#"{"a":9007199254740993}"#, "`a` is a whole number beyond 2^53"),
            (r#"{"a":-9007199254740993}"#, "`a` is a whole number beyond 2^53"),
            (r#"{"a":123456789012345678901}"#, "`a` is a whole number beyond 2^53"),
            (r#"{"a":-123456789012345678902}"#, "`a` is a whole number beyond 2^53"),
            (r#"{"a":1e999}"#, "number out of range"),
            (r#"{"a":1,"a":1}"#, "`a` is given twice"),
            (r#"{"":1}"#, "has 0 bytes"),
            ("[]", "a flat object"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
    }

    #[test]
    fn names_fields_and_bytes_are_limited() {
        let long = "é".repeat(33);
        assert!(
            parse(&format!(r#"{{"{long}":1}}"#)).unwrap_err().contains("has 66 bytes, must have 1 to 64")
        );
        let fields = |count: usize| {
            let fields: Vec<String> = (0..count).map(|at| format!("\"f{at}\":1")).collect();
            parse(&format!("{{{}}}", fields.join(",")))
        };
        assert_eq!(fields(Metadata::MAX_FIELDS).unwrap().len(), Metadata::MAX_FIELDS);
        assert!(fields(Metadata::MAX_FIELDS + 1).unwrap_err().contains("more than 64 fields"));
        let text = |bytes: usize| Metadata::new([("a", "x".repeat(bytes))]);
        assert_eq!(text(Metadata::MAX_BYTES), Err(MetadataError::Bytes));
        let most = text(Metadata::MAX_BYTES - 1).unwrap();
        assert_eq!(parse(&serde_json::to_string(&most).unwrap()).unwrap(), most);
        assert!(
            parse(&format!(r#"{{"a":"{}"}}"#, "x".repeat(Metadata::MAX_BYTES)))
                .unwrap_err()
                .contains("bytes")
        );
    }
}
