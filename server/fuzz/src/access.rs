//! The list of keys that let clients in.

use dpr_serve::{Access, KeySources, Scope};

use crate::named;

/// A list of keys, in TOML.
pub(crate) fn keys(bytes: &[u8]) {
    let Ok(list) = std::str::from_utf8(bytes) else { return };
    let sources = KeySources { list: Some(list.to_owned()), ..KeySources::default() };
    if let Ok(access) = Access::new(sources) {
        let scopes = [Scope::Search, Scope::Write, Scope::Admin];
        assert!(scopes.into_iter().any(|scope| access.has_key_for(scope)), "a list has a key with a scope");
    }
}

pub(crate) fn valid_keys() -> Vec<(String, Vec<u8>)> {
    let [search, write] = ["0123456789abcdef", "fedcba9876543210"].map(|digits| digits.repeat(4));
    let list = format!(
        "[[key]]\nname = \"page\"\nscopes = [\"search\"]\nsha256 = \"{search}\"\nrate = 5.5\nburst = 20\n\n\
         [[key]]\nname = \"nightly.load-1\"\nscopes = [\"search\", \"write\", \"admin\"]\nsha256 = \"{write}\"\n"
    );
    vec![named("two", list)]
}
