//! API keys: their form, their scopes, and how a new one is made.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::rate::Rate;
use crate::scope::Scope;

/// A key that the server knows: its SHA-256, and what it opens.
pub(crate) struct Key {
    pub(super) name: Arc<str>,
    pub(super) scopes: Vec<Scope>,
    pub(super) digest: [u8; 32],
    /// `true` if the operator chose the text, as for a token of the environment; other keys have the form of a
    /// [`NewKey`].
    pub(super) is_chosen: bool,
    pub(super) rate: Option<Rate>,
}

impl Key {
    /// Returns the key of a text that the operator chose; it opens changes alone.
    pub(super) fn of_token(name: &str, token: &str) -> Self {
        Self {
            name: name.into(),
            scopes: vec![Scope::Write],
            digest: digest(token),
            is_chosen: true,
            rate: None,
        }
    }

    /// Returns the key's name, as log lines and limits use it.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the rate that this key alone has.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// Without the digest: nobody guesses a key by it, but nobody needs it in a log either.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// Returns the SHA-256 of a key.
fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Returns the key whose digest is that of `sent`. Every digest is compared, each in a time that does not tell where it
/// differs.
pub(super) fn find<'a>(keys: impl Iterator<Item = &'a Arc<Key>>, sent: &str) -> Option<Arc<Key>> {
    let (digest, is_made) = (digest(sent), is_made(sent));
    let mut found = None;
    for key in keys {
        if bool::from(key.digest.ct_eq(&digest)) && (key.is_chosen || is_made) {
            found = Some(key);
        }
    }
    found.cloned()
}

/// The beginning of every key, so that people and scanners of secrets recognise one.
const PREFIX: &str = "dpr_";

/// Bytes of a key: 256 bits.
const BYTES: usize = 32;

/// Returns whether a text has the form of a [`NewKey`].
fn is_made(text: &str) -> bool {
    let bytes = text.strip_prefix(PREFIX).and_then(|rest| URL_SAFE_NO_PAD.decode(rest).ok());
    bytes.is_some_and(|bytes| bytes.len() == BYTES)
}

/// The system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no key was made: the system gives no random numbers ({0})")]
pub struct RandomError(getrandom::Error);

/// A key that was made a moment ago: the one place that holds its text.
pub struct NewKey(String);

impl NewKey {
    /// Makes a key of 256 random bits of the system: `dpr_` and 43 characters of base64url.
    ///
    /// # Errors
    /// [`RandomError`].
    pub fn generate() -> Result<Self, RandomError> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(RandomError)?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// Returns the key, as clients send it.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Returns the lines of a file of keys that let this key in.
    pub fn entry(&self, name: &str, scopes: &[Scope]) -> String {
        let scopes: Vec<String> = scopes.iter().map(|scope| format!("\"{scope}\"")).collect();
        let digest = dpr_core::model::sha256_hex(self.0.as_bytes());
        format!("[[key]]\nname = \"{name}\"\nscopes = [{}]\nsha256 = \"{digest}\"\n", scopes.join(", "))
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_has_256_random_bits_and_is_known_by_its_entry() {
        let (one, two) = (NewKey::generate().unwrap(), NewKey::generate().unwrap());
        assert_ne!(one.secret(), two.secret());
        assert!(one.secret().starts_with("dpr_") && one.secret().len() == 47 && is_made(one.secret()));
        let keys = super::super::file::parse(&one.entry("web", &[Scope::Search, Scope::Write])).unwrap();
        let found = find(keys.iter(), one.secret()).unwrap();
        assert!(found.has(Scope::Search) && found.has(Scope::Write) && !found.has(Scope::Admin));
        assert!(find(keys.iter(), two.secret()).is_none());
        assert!(!format!("{one:?} {found:?}").contains(&one.secret()[4..]));
    }

    #[test]
    fn a_text_that_no_generator_made_is_not_a_key_even_if_its_digest_is_listed() {
        for weak in ["secret", "dpr_secret", "", &format!("dpr_{}", "a".repeat(42))] {
            let digest = dpr_core::model::sha256_hex(weak.as_bytes());
            let entry = format!("[[key]]\nname = \"weak\"\nscopes = [\"admin\"]\nsha256 = \"{digest}\"\n");
            let keys = super::super::file::parse(&entry).unwrap();
            assert!(find(keys.iter(), weak).is_none(), "{weak}");
        }
    }
}
