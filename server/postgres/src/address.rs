//! Address of a table: `postgres://user@host/database?table=passages`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use dpr_index::search::ServiceError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::options;
use crate::secret::Secret;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The form of an address, for errors.
const FORM: &str = "postgres://USER@HOST/DATABASE?table=NAME";

/// PostgreSQL's own port.
const DEFAULT_PORT: u16 = 5432;

/// The characters that are percent-encoded in a [`PostgresAddress`]; the rest is displayed as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// As [`ENCODED`], for the directory of a socket.
const PATH: AsciiSet = ENCODED.remove(b'/');

/// The address of a table: `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?OPTION=VALUE&...]`. What is not a letter
/// or a digit in a name is percent-encoded, as in every URL. `postgres://USER@/DATABASE?host=/DIRECTORY` connects to
/// a socket in that directory.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `table`, `schema` | the table | `passages`, `public` |
/// | `id`, `title`, `text`, `vector`, `metadata` | its columns | `id`, `title`, `text`, `embedding`, `metadata` |
/// | `type` | `vector` (32 bits a number) or `halfvec` (16), of a table to be made | `vector` |
/// | `ef_search` | candidates that a search of the HNSW graph keeps, 1 to 1000 | that of the table's comment |
/// | `sslmode` | `disable`, `require` (certificate not checked) or `verify-full` | `verify-full`, locally `disable` |
/// | `sslrootcert` | PEM file of the certificates that sign the server's | those of the system |
/// | `pool` | most connections | 16 |
/// | `connect_timeout`, `timeout` | seconds for a connection, and for each vector of a search | 10, 10 |
///
/// The title and the metadata may be missing from a table where the address does not name their columns. A password is
/// better kept in `PGPASSWORD` or `~/.pgpass`: command lines are seen by every process of a machine. It is not part of
/// what [`Display`](fmt::Display) and [`Debug`](fmt::Debug) write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresAddress {
    pub(crate) user: String,
    pub(crate) password: Option<Secret>,
    /// A name or an IP address, or the directory of a socket.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) columns: Columns,
    pub(crate) half: Option<bool>,
    pub(crate) ef_search: Option<usize>,
    pub(crate) tls: Tls,
    pub(crate) root: Option<PathBuf>,
    pub(crate) pool: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
}

/// The columns of a table, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) id: String,
    /// `None` where the address does not name it: then `title`, if the table has that.
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    pub(crate) vector: String,
    /// As for the title.
    pub(crate) metadata: Option<String>,
}

/// The encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// It is not.
    Disable,
    /// It is, with whoever answers.
    Require,
    /// It is, and the server's certificate is checked, its name too.
    VerifyFull,
}

impl PostgresAddress {
    /// Returns `true` if a text is meant as an address of a table.
    pub fn is_meant(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// The name of the table, without its schema.
    pub fn table(&self) -> &str {
        &self.table
    }

    pub(crate) fn is_this_machine(&self) -> bool {
        is_this_machine(&self.host)
    }

    /// Candidates that a search keeps, where the address says so.
    pub fn ef_search(&self) -> Option<usize> {
        self.ef_search
    }
}

impl FromStr for PostgresAddress {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Self, ServiceError> {
        parse(text).map_err(|why| ServiceError::Address { got: shown(text), why, form: FORM })
    }
}

fn parse(text: &str) -> Result<PostgresAddress, String> {
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    let rest = rest.ok_or("it does not begin with postgres:// or postgresql://")?;
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let (authority, database) = rest.split_once('/').ok_or("it names no database")?;
    let (user, place) = authority.rsplit_once('@').ok_or("it names no user (USER@HOST)")?;
    let (user, password) =
        user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
    let user = options::decode("user", user)?;
    if user.is_empty() {
        return Err("it names no user (USER@HOST)".into());
    }
    let password = password.map(|password| options::decode("password", password)).transpose()?;
    let (host, port) = match place.rsplit_once(':') {
        // An IPv6 address has colons of its own, and brackets.
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().map_err(|_| "its port is not a number up to 65535")?)
        }
        _ => (place, DEFAULT_PORT),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = options::decode("host", host)?;
    let database = options::decode("database", database)?;
    if database.is_empty() {
        return Err("it names no database".into());
    }
    let mut options = options::Options::parse(query)?;
    let host = match (host.is_empty(), options.socket()?) {
        (false, None) => host,
        (true, Some(socket)) => socket,
        (false, Some(_)) => return Err("it names a host twice".into()),
        (true, None) => return Err("it names no host".into()),
    };
    let address = PostgresAddress {
        password: password.filter(|password| !password.is_empty()).map(Secret::new),
        schema: options.name("schema")?.unwrap_or_else(|| "public".into()),
        table: options.name("table")?.unwrap_or_else(|| "passages".into()),
        columns: Columns {
            id: options.name("id")?.unwrap_or_else(|| "id".into()),
            title: options.name("title")?,
            text: options.name("text")?.unwrap_or_else(|| "text".into()),
            vector: options.name("vector")?.unwrap_or_else(|| "embedding".into()),
            metadata: options.name("metadata")?,
        },
        half: options.one_of("type", &[("vector", false), ("halfvec", true)])?,
        ef_search: options.number("ef_search", 1..=1000)?.map(|ef| ef as usize),
        tls: options
            .one_of(
                "sslmode",
                &[("disable", Tls::Disable), ("require", Tls::Require), ("verify-full", Tls::VerifyFull)],
            )?
            .unwrap_or(if is_this_machine(&host) { Tls::Disable } else { Tls::VerifyFull }),
        root: options.take("sslrootcert").map(PathBuf::from),
        pool: options.number("pool", 1..=1000)?.unwrap_or(16) as usize,
        connect_timeout: Duration::from_secs(options.number("connect_timeout", 1..=3600)?.unwrap_or(10)),
        timeout: Duration::from_secs(options.number("timeout", 1..=3600)?.unwrap_or(10)),
        user,
        host,
        port,
        database,
    };
    options.end()?;
    if address.root.is_some() && address.tls != Tls::VerifyFull {
        return Err("sslrootcert is for sslmode=verify-full".into());
    }
    Ok(address)
}

fn is_this_machine(host: &str) -> bool {
    let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    host.starts_with('/') || host == "localhost" || is_loopback
}

/// Returns an address as errors show it: without what stands before `@` or, in one that is broken, before the database,
/// and without options. A password may be in any of those: of an `@` behind a `?` nobody can tell whether it ends a
/// password or is in an option.
fn shown(text: &str) -> String {
    let scheme = SCHEMES.iter().find(|scheme| text.starts_with(**scheme)).unwrap_or(&SCHEMES[0]);
    let rest = text.strip_prefix(scheme).unwrap_or_default();
    if rest.split_once('?').is_some_and(|(_, options)| options.contains('@')) {
        return format!("{scheme}...");
    }
    let rest = rest.rsplit_once('@').or_else(|| rest.split_once('/')).map_or("", |(_, rest)| rest);
    let rest = rest.split('?').next().unwrap_or_default();
    format!("{scheme}...{}", rest.escape_debug())
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = |text| utf8_percent_encode(text, ENCODED);
        let Self { user, host, port, database, schema, table, .. } = self;
        write!(f, "{}{}@", SCHEMES[0], encoded(user))?;
        match host {
            socket if socket.starts_with('/') => {
                let socket = utf8_percent_encode(socket, &PATH);
                write!(f, ":{port}/{}?host={socket}&", encoded(database))?;
            }
            ip if ip.contains(':') => write!(f, "[{ip}]:{port}/{}?", encoded(database))?,
            name => write!(f, "{}:{port}/{}?", encoded(name), encoded(database))?,
        }
        if schema != "public" {
            write!(f, "schema={}&", encoded(schema))?;
        }
        write!(f, "table={}", encoded(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> PostgresAddress {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_names_a_table_its_columns_and_how_to_connect() {
        let address = parsed("postgres://web@db.example.org/shop");
        assert_eq!(
            (address.host.as_str(), address.port, address.tls),
            ("db.example.org", 5432, Tls::VerifyFull)
        );
        assert_eq!((address.schema.as_str(), address.table()), ("public", "passages"));
        assert_eq!(address.to_string(), "postgres://web@db.example.org:5432/shop?table=passages");
        let address = parsed(
            "postgresql://web@127.0.0.1:5433/shop?schema=s&table=articles&id=key&title=headline&text=body\
             &vector=v&metadata=tags&type=halfvec&ef_search=80&pool=3&timeout=5&connect_timeout=2&sslmode=require",
        );
        assert_eq!((address.ef_search(), address.half, address.tls), (Some(80), Some(true), Tls::Require));
        assert_eq!(
            (address.columns.title.as_deref(), address.columns.vector.as_str()),
            (Some("headline"), "v")
        );
        assert_eq!(address.to_string(), "postgres://web@127.0.0.1:5433/shop?schema=s&table=articles");
        let socket = parsed("postgres://web@:5433/shop?host=/run/postgresql");
        assert_eq!((socket.host.as_str(), socket.tls), ("/run/postgresql", Tls::Disable));
        assert_eq!(parsed(&socket.to_string()), socket);
        assert_eq!(parsed("postgres://web@[::1]/shop").tls, Tls::Disable);
    }

    #[test]
    fn names_may_hold_anything_when_they_are_encoded() {
        let address = parsed(
            "postgres://a%40b:p%3Aw@localhost/d%2Fb?table=%22%3B%20DROP%20TABLE%20x%3B--&id=%F0%9F%98%80",
        );
        assert_eq!((address.user.as_str(), address.database.as_str()), ("a@b", "d/b"));
        assert_eq!((address.table(), address.columns.id.as_str()), ("\"; DROP TABLE x;--", "😀"));
        let shown = address.to_string();
        assert_eq!(shown, "postgres://a%40b@localhost:5432/d%2Fb?table=%22%3B%20DROP%20TABLE%20x%3B--");
        assert_eq!(parsed(&shown).table, address.table);
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_the_reason() {
        let long = format!("postgres://u@localhost/d?table={}", "x".repeat(64));
        for (text, part) in [
            ("milvus://localhost/a", "postgres://"),
            ("postgres://u@localhost", "database"),
            ("postgres://u@localhost/", "database"),
            ("postgres://localhost/d", "user"),
            ("postgres://@localhost/d", "user"),
            ("postgres://u@/d", "host"),
            ("postgres://u@localhost/d?host=/tmp", "twice"),
            ("postgres://u@/d?host=tmp", "begin with /"),
            ("postgres://u@localhost:x/d", "port"),
            ("postgres://u@localhost/d?tabel=a", "tabel"),
            ("postgres://u@localhost/d?table", "OPTION=VALUE"),
            ("postgres://u@localhost/d?table=a&table=b", "twice"),
            ("postgres://u@localhost/d?table=", "table"),
            ("postgres://u@localhost/d?table=%00", "NUL"),
            ("postgres://u@localhost/d?table=%FF", "UTF-8"),
            (&long, "63 bytes"),
            ("postgres://u@localhost/d?ef_search=1001", "1 to 1000"),
            ("postgres://u@localhost/d?pool=0", "1 to 1000"),
            ("postgres://u@localhost/d?sslmode=prefer", "verify-full"),
            ("postgres://u@localhost/d?sslmode=require&sslrootcert=a.pem", "verify-full"),
            ("postgres://u@localhost/d?type=bit", "halfvec"),
        ] {
            let error = text.parse::<PostgresAddress>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let address = parsed("postgres://u:secret@localhost/d");
        assert!(!format!("{address} {address:?}").contains("secret"));
        for text in [
            "postgres://u:secret@localhost/d?ef=1",
            "postgres://u:secret/d",
            "postgres://u:sec/secret@localhost/d?x=1",
            "postgres://u:s?secret@localhost/d?x=1",
            "postgres://u@localhost/d?password=secret",
            "postgres://u@localhost/d?password=a@secret",
            "postgres://u:a?b@secret@localhost/d?x=1",
            "postgres://localhost/d?user=u@secret&x",
            "postgres://u:secret%FF@localhost/d",
            "u:secret@localhost",
        ] {
            let error = text.parse::<PostgresAddress>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{text}: {error}");
        }
    }
}
