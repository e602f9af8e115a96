//! Who may change the index: whoever has the operator's token or, where there is none, programs of this machine.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, header};
use dpr_core::model::sha256_hex;

use super::error::ApiError;
use super::service::PassageUpdates;

/// The writing side of a server, and who may use it.
#[derive(Clone)]
pub struct Updates {
    service: Arc<dyn PassageUpdates>,
    /// Sha256 of the token that every update must carry, if one must.
    token: Option<String>,
}

impl Updates {
    /// Lets in updates that carry `token` as their bearer token, or without one those that a page of another site cannot
    /// have sent. The second is for a server that only its own machine reaches.
    pub fn new(service: Arc<dyn PassageUpdates>, token: Option<&str>) -> Self {
        Self { service, token: token.map(|token| sha256_hex(token.as_bytes())) }
    }

    /// The service, for a request with these headers.
    pub(super) fn admit(
        updates: Option<&Self>,
        headers: &HeaderMap,
    ) -> Result<Arc<dyn PassageUpdates>, ApiError> {
        let updates = updates.ok_or(ApiError::UpdatesDisabled)?;
        let Some(expected) = &updates.token else {
            refuse_foreign(headers)?;
            return Ok(Arc::clone(&updates.service));
        };
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, token) = sent.and_then(|value| value.split_once(' ')).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") || !same(expected, &sha256_hex(token.trim().as_bytes())) {
            return Err(ApiError::Unauthorized);
        }
        Ok(Arc::clone(&updates.service))
    }
}

/// Refuses what a browser sends for a page that is not this machine's own: a page whose name was made to lead to this
/// machine says so in `host`, and one of another site in `origin`.
fn refuse_foreign(headers: &HeaderMap) -> Result<(), ApiError> {
    let host = texts(headers, &header::HOST)?;
    if let Some(host) = host.iter().find(|host| !is_of_this_machine(host)) {
        return Err(foreign(&header::HOST, host));
    }
    let is_own = |origin: &str| {
        let (scheme, at) = origin.split_once("://").unwrap_or_default();
        matches!(scheme, "http" | "https") && host.iter().any(|host| host.eq_ignore_ascii_case(at))
    };
    match texts(headers, &header::ORIGIN)?.into_iter().find(|origin| !is_own(origin)) {
        Some(origin) => Err(foreign(&header::ORIGIN, origin)),
        None => Ok(()),
    }
}

/// All values of a header.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Vec<&'a str>, ApiError> {
    let values =
        headers.get_all(name).iter().map(|value| value.to_str().map_err(|_| foreign(name, "no text")));
    values.collect()
}

fn foreign(name: &HeaderName, value: &str) -> ApiError {
    let value: String = value.chars().take(100).collect();
    ApiError::ForeignUpdate(format!("the header `{name}` is `{value}`"))
}

/// Whether a `host` names the machine that the request was sent on.
fn is_of_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// Whether two digests are equal, in a time that does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
