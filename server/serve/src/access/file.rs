//! The list of keys, in TOML. Its errors name lines and names, never a value: a key that was written there by mistake
//! must not reach a log.

use std::sync::Arc;

use serde::Deserialize;

use super::key::Key;
use super::rate::Rate;
use crate::scope::Scope;

/// A list of keys that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Text of another form.
    #[error(
        "line {line} of the keys is not as it should be: an entry is `[[key]]` with `name`, `scopes` (a list of \"search\", \
         \"write\" and \"admin\") and `sha256`, and may have `rate` and `burst`"
    )]
    Form {
        /// From 1.
        line: usize,
    },
    /// A list that would let nobody in.
    #[error("it lists no key: write at least one `[[key]]`")]
    Empty,
    /// A name that is not fit for a log line.
    #[error("the name of key {number} is not 1 to 64 letters, digits, dots, hyphens and underscores")]
    Name {
        /// Its place in the list, from 1.
        number: usize,
    },
    /// A name or a digest that stands for two keys.
    #[error("the key `{name}` is listed twice: give each key a name and a `sha256` of its own")]
    Twice {
        /// The second of them.
        name: String,
    },
    /// A key that opens nothing.
    #[error("the key `{name}` has no scope: list some of \"search\", \"write\" and \"admin\"")]
    NoScope {
        /// Its name.
        name: String,
    },
    /// Something else than a digest.
    #[error("`sha256` of the key `{name}` is not 64 hexadecimal digits")]
    Digest {
        /// Its name.
        name: String,
    },
    /// A rate or a burst that is out of range.
    #[error(
        "`rate` and `burst` of the key `{name}` go together: a number above 0.000001 and up to 1000000, a whole number from 1 up"
    )]
    Rate {
        /// Its name.
        name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListBody {
    #[serde(default)]
    key: Vec<EntryBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryBody {
    name: String,
    scopes: Vec<Scope>,
    sha256: String,
    rate: Option<f64>,
    burst: Option<u32>,
}

/// Reads a list of keys.
///
/// # Errors
/// [`KeysError`] for the first entry that is wrong.
pub(super) fn parse(text: &str) -> Result<Vec<Arc<Key>>, KeysError> {
    let list: ListBody = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        KeysError::Form { line: before.matches('\n').count() + 1 }
    })?;
    let mut keys: Vec<Arc<Key>> = Vec::new();
    for (at, entry) in list.key.into_iter().enumerate() {
        let key = entry.check(at + 1)?;
        if keys.iter().any(|other| other.name == key.name || other.digest == key.digest) {
            return Err(KeysError::Twice { name: key.name.to_string() });
        }
        keys.push(Arc::new(key));
    }
    if keys.is_empty() { Err(KeysError::Empty) } else { Ok(keys) }
}

/// Returns whether a key may be called so: 1 to 64 letters, digits, dots, hyphens and underscores, since log lines
/// hold the name.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

impl EntryBody {
    fn check(self, number: usize) -> Result<Key, KeysError> {
        let Self { name, scopes, sha256, rate, burst } = self;
        if !is_name(&name) {
            return Err(KeysError::Name { number });
        }
        if scopes.is_empty() {
            return Err(KeysError::NoScope { name });
        }
        let Some(digest) = from_hex(&sha256) else { return Err(KeysError::Digest { name }) };
        let rate = match (rate, burst) {
            (None, None) => None,
            (rate, burst) => {
                let both = rate.zip(burst).and_then(|(per_second, burst)| Rate::new(per_second, burst));
                Some(both.ok_or_else(|| KeysError::Rate { name: name.clone() })?)
            }
        };
        Ok(Key { name: name.into(), scopes, digest, is_chosen: false, rate })
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, scopes: &str, sha256: &str, more: &str) -> String {
        format!("[[key]]\nname = \"{name}\"\nscopes = {scopes}\nsha256 = \"{sha256}\"\n{more}\n")
    }

    #[test]
    fn a_list_may_stand_in_one_line_and_name_rates() {
        let line =
            format!("key = [{{ name = \"a\", scopes = [\"search\"], sha256 = \"{}\" }}]", "0a".repeat(32));
        assert_eq!(parse(&line).unwrap()[0].digest, [10; 32]);
        let text = entry("a.b-c_1", "[\"write\"]", &"AB".repeat(32), "rate = 2.5\nburst = 4");
        assert_eq!(parse(&text).unwrap()[0].rate, Rate::new(2.5, 4));
    }

    #[test]
    fn each_kind_of_bad_list_is_refused_without_a_word_of_its_values() {
        let (one, two) = ("1f".repeat(32), "2e".repeat(32));
        let good = |name: &str, sha256: &str| entry(name, "[\"search\"]", sha256, "");
        let named = |name: &str| name.to_owned();
        let cases = [
            (String::new(), KeysError::Empty),
            (named("key = \"dpr_marked\""), KeysError::Form { line: 1 }),
            (format!("{}[[key]]\nsecret = \"dpr_marked\"\n", good("a", &one)), KeysError::Form { line: 7 }),
            (entry("a", "[\"root\"]", &one, ""), KeysError::Form { line: 3 }),
            (entry("a", "\"dpr_marked\"", &one, ""), KeysError::Form { line: 3 }),
            (good("a b", &one), KeysError::Name { number: 1 }),
            (good("", &one), KeysError::Name { number: 1 }),
            (good(&"a".repeat(65), &one), KeysError::Name { number: 1 }),
            (good("a", &one) + &good("a", &two), KeysError::Twice { name: named("a") }),
            (good("a", &one) + &good("b", &one.to_uppercase()), KeysError::Twice { name: named("b") }),
            (entry("a", "[]", &one, ""), KeysError::NoScope { name: named("a") }),
            (good("a", "dpr_marked"), KeysError::Digest { name: named("a") }),
            (good("a", &"é".repeat(32)), KeysError::Digest { name: named("a") }),
            (good("a", &one) + "rate = 0.0\nburst = 1", KeysError::Rate { name: named("a") }),
            (good("a", &one) + "rate = nan\nburst = 1", KeysError::Rate { name: named("a") }),
            (good("a", &one) + "burst = 1", KeysError::Rate { name: named("a") }),
        ];
        for (text, error) in cases {
            let refused = parse(&text).unwrap_err();
            assert_eq!(refused, error, "{text}");
            assert!(!refused.to_string().contains("marked"), "{refused}");
        }
    }
}
