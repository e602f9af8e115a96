//! Who may change the index.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use dpr_core::model::sha256_hex;

use super::error::ApiError;
use dpr_encode::PassageUpdater;

/// The writing side of a server, and who may use it.
#[derive(Clone)]
pub struct Updates {
    service: Arc<PassageUpdater>,
    /// Sha256 of the token that every update must carry, if one must.
    token: Option<String>,
}

impl Updates {
    /// Lets in updates that carry `token` as their bearer token, or without one all of them.
    pub fn new(service: Arc<PassageUpdater>, token: Option<&str>) -> Self {
        Self { service, token: token.map(|token| sha256_hex(token.as_bytes())) }
    }

    /// The service, for a request with these headers.
    pub(super) fn admit(
        updates: Option<&Self>,
        headers: &HeaderMap,
    ) -> Result<Arc<PassageUpdater>, ApiError> {
        let updates = updates.ok_or(ApiError::UpdatesDisabled)?;
        if let Some(expected) = &updates.token {
            let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let (scheme, token) = sent.and_then(|value| value.split_once(' ')).unwrap_or_default();
            if !scheme.eq_ignore_ascii_case("bearer") || !same(expected, &sha256_hex(token.trim().as_bytes()))
            {
                return Err(ApiError::Unauthorized);
            }
        }
        Ok(Arc::clone(&updates.service))
    }
}

/// Whether two digests are equal, in a time that does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
