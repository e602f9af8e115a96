//! The names under which requests reach this server.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use super::error::ApiError;

/// The names under which this server may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Every name.
    #[default]
    Any,
    /// `localhost` and loopback addresses, and these.
    Listed {
        /// In lower case, without ports.
        names: Vec<String>,
        /// `true` if every address counts that is written in numbers: such a request was not sent through a name.
        addresses: bool,
    },
}

/// A name that no request can carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a host: write a name or an address without scheme, port and path, such as search.example.org"
)]
pub struct HostError(String);

impl Hosts {
    /// Returns the hosts of a server that listens on `listen` and is known under `names`.
    ///
    /// # Errors
    /// [`HostError`] for the first name that is not one.
    pub fn new(listen: SocketAddr, names: &[String]) -> Result<Self, HostError> {
        let mut names = names
            .iter()
            .map(|name| host_of(name).ok_or_else(|| HostError(name.clone())))
            .collect::<Result<Vec<_>, _>>()?;
        names.push(listen.ip().to_string());
        Ok(Self::Listed { names, addresses: listen.ip().is_unspecified() })
    }

    fn allows(&self, host: &str) -> bool {
        let Self::Listed { names, addresses } = self else { return true };
        let is_address = || host.parse::<IpAddr>().is_ok();
        is_local(host) || names.iter().any(|name| name == host) || *addresses && is_address()
    }

    /// Refuses a request whose target or `host` names another server. One without either was not sent by a browser.
    pub(super) fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        if *self == Self::Any {
            return Ok(());
        }
        // HTTP/2 has its `:authority` in the target, as requests to a proxy have.
        let named = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
        for text in target.authority().map(Authority::as_str).into_iter().chain(named) {
            if !host_named_by(text).is_some_and(|host| self.allows(&host)) {
                return Err(ApiError::UnknownHost(text.chars().take(100).collect()));
            }
        }
        Ok(())
    }
}

/// Returns the host of an authority (`host`, or `:authority` of HTTP/2) in the form of [`host_of`].
pub(super) fn host_named_by(authority: &str) -> Option<String> {
    host_of(authority.parse::<Authority>().ok()?.host())
}

/// Returns whether a host in the form of [`host_of`] names the machine that a request was sent on.
pub(super) fn is_local(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_loopback)
}

/// Returns a name or an address in the one form that is compared, or `None` for what is neither.
fn host_of(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!text.is_empty() && text.bytes().all(is_name)).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn allowed(hosts: &Hosts, target: &str, host: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert(header::HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        hosts.check(&target.parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn a_server_answers_to_its_own_names_alone() {
        let hosts = Hosts::new("127.0.0.1:7878".parse().unwrap(), &["Search.Example.org".into()]).unwrap();
        for host in [
            "",
            "127.0.0.1:7878",
            "127.0.0.1",
            "127.8.8.8:1",
            "[::1]:7878",
            "localhost:80",
            "LOCALHOST",
            "localhost.",
            "app.localhost:7878",
            "search.example.org",
            "search.EXAMPLE.org.:443",
        ] {
            assert!(allowed(&hosts, "/v1/search", host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7878",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "user@evil.example",
            "search.example.org.evil.example",
            "0.0.0.0:7878",
            "[2001:db8::1]:7878",
            "a b",
            "é",
        ] {
            assert!(!allowed(&hosts, "/v1/search", host), "{host}");
        }
        assert!(allowed(&hosts, "https://search.example.org/v1/search", ""), "HTTP/2");
        assert!(!allowed(&hosts, "https://evil.example/v1/search", ""));
        assert!(!allowed(&hosts, "https://evil.example/v1/search", "localhost"), "one of two is not enough");
        assert!(!allowed(&hosts, "https://localhost/v1/search", "evil.example"));
        assert!(allowed(&Hosts::Any, "/", "evil.example"));
    }

    #[test]
    fn a_server_on_all_addresses_answers_to_addresses_but_to_no_name() {
        for listen in ["0.0.0.0:7878", "[::]:7878"] {
            let hosts = Hosts::new(listen.parse().unwrap(), &[]).unwrap();
            for host in ["10.0.0.1:7878", "[2001:db8::1]:7878", "localhost"] {
                assert!(allowed(&hosts, "/", host), "{host}");
            }
            assert!(!allowed(&hosts, "/", "evil.example"));
        }
        let hosts = Hosts::new("192.0.2.1:7878".parse().unwrap(), &[]).unwrap();
        assert!(allowed(&hosts, "/", "192.0.2.1:7878") && !allowed(&hosts, "/", "192.0.2.2"));
    }

    #[test]
    fn a_host_is_a_name_without_scheme_port_and_path() {
        for name in ["https://example.org", "example.org:443", "example.org/", "", "*", "a b"] {
            let error = Hosts::new("127.0.0.1:1".parse().unwrap(), &[name.to_owned()]).unwrap_err();
            assert_eq!(error, HostError(name.to_owned()));
        }
    }
}
