//! Address of a collection: `milvus://host:port/collection`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use dpr_index::search::ServiceError;

const PLAIN: &str = "milvus://";
const TLS: &str = "milvus+tls://";

/// The form of an address, for errors.
const FORM: &str = "milvus://host:port/collection";

/// Milvus's own port.
const DEFAULT_PORT: u16 = 19530;

/// Most bytes of a collection's name.
const MAX_NAME: usize = 255;

/// The address of a collection: `milvus://host[:port]/[database/]collection[?ef=N]`, or `milvus+tls://` for TLS.
///
/// Credentials are not part of it, since command lines are seen by every process of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MilvusAddress {
    tls: bool,
    host: String,
    port: u16,
    database: Option<String>,
    collection: String,
    ef: Option<u32>,
}

impl MilvusAddress {
    /// Returns `true` if a text is meant as an address of a collection.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PLAIN) || text.starts_with(TLS)
    }

    /// The name of the collection.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// The name of the database, where it is not the default one.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Candidates that a search keeps (`ef_search`), where the address says so.
    pub fn ef(&self) -> Option<u32> {
        self.ef
    }

    /// Returns `true` if a token would cross a network unencrypted.
    pub(super) fn is_clear(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        !self.tls && !is_loopback && host != "localhost"
    }

    /// Returns the URL that the client connects to.
    pub(super) fn uri(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

impl FromStr for MilvusAddress {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let refuse = |why: &str| ServiceError::Address { got: shown(text), why: why.to_owned(), form: FORM };
        let (tls, rest) = match (text.strip_prefix(PLAIN), text.strip_prefix(TLS)) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(refuse("it does not begin with milvus:// or milvus+tls://")),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let mut parts = rest.split('/');
        let authority = parts.next().unwrap_or_default();
        if authority.contains('@') {
            return Err(refuse(
                "it holds a password, which every process of this machine would see: give credentials apart from it",
            ));
        }
        let (host, port) = match authority.rsplit_once(':') {
            // An IPv6 address has colons of its own, and brackets.
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| refuse("its port is not a number up to 65535"))?)
            }
            _ => (authority, DEFAULT_PORT),
        };
        if host.is_empty() {
            return Err(refuse("it names no host"));
        }
        let path: Vec<&str> = parts.collect();
        let (database, collection) = match path.as_slice() {
            [collection] => (None, *collection),
            [database, collection] => (Some(*database), *collection),
            _ => return Err(refuse("it names no collection, or more than a database and a collection")),
        };
        if ![database.unwrap_or("a"), collection].into_iter().all(is_name) {
            return Err(refuse(
                "a collection is named by up to 255 letters, digits and `_`, and does not begin with a digit",
            ));
        }
        let ef = match query.map(|query| query.strip_prefix("ef=").map(str::parse)) {
            None => None,
            Some(Some(Ok(ef))) if (1..=32_768).contains(&ef) => Some(ef),
            Some(_) => return Err(refuse("after `?` it takes ef=N alone, N from 1 to 32768")),
        };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
            database: database.map(str::to_owned),
            collection: collection.to_owned(),
            ef,
        })
    }
}

/// Returns an address as errors show it: without the credentials before `@`, and without options. A password may be in
/// either: of an `@` behind a `?` nobody can tell whether it ends a password or is in an option.
fn shown(text: &str) -> String {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '+');
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), text),
    };
    let (place, options) =
        rest.split_once('?').map_or((rest, None), |(place, options)| (place, Some(options)));
    if options.is_some_and(|options| options.contains('@')) {
        return format!("{scheme}...");
    }
    let place = place.rsplit_once('@').map_or_else(|| place.to_owned(), |(_, place)| format!("...@{place}"));
    format!("{scheme}{place}{}", if options.is_some() { "?..." } else { "" })
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.len() <= MAX_NAME
        && name.starts_with(is_letter)
        && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

impl fmt::Display for MilvusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { TLS } else { PLAIN };
        write!(f, "{scheme}{}:{}/", self.host, self.port)?;
        if let Some(database) = &self.database {
            write!(f, "{database}/")?;
        }
        f.write_str(&self.collection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_port_and_collection() {
        let address: MilvusAddress = "milvus://db.example.org:19531/wiki?ef=320".parse().unwrap();
        assert_eq!(address.uri(), "http://db.example.org:19531");
        assert_eq!((address.collection(), address.database(), address.ef()), ("wiki", None, Some(320)));
        assert_eq!(address.to_string(), "milvus://db.example.org:19531/wiki");
        let address: MilvusAddress = "milvus+tls://[::1]/tenant/wiki".parse().unwrap();
        assert_eq!(address.uri(), "https://[::1]:19530");
        assert_eq!((address.collection(), address.database()), ("wiki", Some("tenant")));
    }

    #[test]
    fn only_what_leaves_the_machine_unencrypted_is_clear() {
        let is_clear = |text: &str| text.parse::<MilvusAddress>().unwrap().is_clear();
        assert!(is_clear("milvus://db.example.org/a") && is_clear("milvus://10.0.0.1/a"));
        for text in [
            "milvus+tls://db.example.org/a",
            "milvus://localhost/a",
            "milvus://[::1]/a",
            "milvus://127.0.0.2/a",
        ] {
            assert!(!is_clear(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_the_reason() {
        for (text, part) in [
            ("http://localhost/a", "milvus://"),
            ("milvus://localhost", "collection"),
            ("milvus://localhost/", "collection"),
            ("milvus:///a", "host"),
            ("milvus://localhost:x/a", "port"),
            ("milvus://localhost:99999/a", "port"),
            ("milvus://localhost/a/b/c", "collection"),
            ("milvus://localhost/1a", "digit"),
            ("milvus://localhost/a-b", "letters"),
            ("milvus://localhost/a?ef=0", "ef=N"),
            ("milvus://localhost/a?M=3", "ef=N"),
        ] {
            let error = text.parse::<MilvusAddress>().unwrap_err().to_string();
            let place = text.split('?').next().unwrap();
            assert!(error.contains(part) && error.contains(place), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let error = "milvus://root:secret@localhost/a".parse::<MilvusAddress>().unwrap_err().to_string();
        assert!(error.contains("password") && error.contains("milvus://...@localhost/a"), "{error}");
        for text in [
            "milvus://root:secret@localhost/a",
            "milvus://root:secret@localhost/a?ef=0",
            "milvus://root:s?secret@localhost/a",
            "milvus://localhost/a?token=root:secret",
            "milvus://localhost/a?token=root@secret",
            "http://root:secret@localhost/a",
            "root:secret@localhost/a",
            "root:secret://x@localhost",
        ] {
            let error = text.parse::<MilvusAddress>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{text}: {error}");
        }
    }
}
