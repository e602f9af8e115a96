//! Metadata as a collection holds it: a JSON field, whose keys need no quoting in Milvus's language.
//!
//! Milvus cuts the path of a JSON value at quotes and brackets without regard to escapes. So the name of a field is
//! stored with every byte other than ASCII letters, digits, `_` and `-` as `%` and two hexadecimal digits.

use dpr_data::{Metadata, ValueSeed};
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value};

/// Returns the key under which a field is stored.
pub(super) fn key(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            key.push(char::from(byte));
        } else {
            key.push_str(&format!("%{byte:02X}"));
        }
    }
    key
}

/// Returns the name of the field that is stored under a key; `None` for a key that [`key`] does not make.
fn name(stored: &str) -> Option<String> {
    let mut parts = stored.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok().filter(|name| key(name) == stored)
}

/// Returns metadata as the JSON that is stored.
pub(super) fn stored(metadata: &Metadata) -> Value {
    let fields = metadata.iter().map(|(name, value)| (key(name), serde_json::json!(value)));
    Value::Object(fields.collect())
}

/// Reads stored metadata; `None` where it is not what [`stored`] makes.
pub(super) fn read(stored: &Value) -> Option<Metadata> {
    let mut metadata = Metadata::default();
    for (key, value) in stored.as_object().unwrap_or(&Map::new()) {
        let value = ValueSeed::new(key).deserialize(value).ok()?;
        metadata.insert(name(key)?, value).ok()?;
    }
    Some(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_it_was_stored_whatever_its_names_are() {
        for field in
            ["lang", "pub-date", "a b", "a\"][\"b", "%41", "日本", "\\", "'", "$meta", "0", "a.b/c~d"]
        {
            let stored_key = key(field);
            assert!(
                stored_key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-%".contains(&byte)),
                "{field}"
            );
            assert_eq!(name(&stored_key).as_deref(), Some(field));
            let metadata = Metadata::new([(field, "\"]}")]).unwrap();
            assert_eq!(read(&stored(&metadata)), Some(metadata));
        }
        for odd in ["a b", "%4", "%zz", "%e6", "%41", "ü"] {
            assert_eq!(name(odd), None, "{odd}");
        }
        let metadata = Metadata::new([("year", 2020)]).unwrap();
        assert_eq!(stored(&metadata), serde_json::json!({"year": 2020}));
        assert_eq!(read(&serde_json::json!({})), Some(Metadata::default()));
        assert_eq!(read(&serde_json::json!({"a": [1]})), None);
    }
}
