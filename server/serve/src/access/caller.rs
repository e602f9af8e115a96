//! The sender of a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderName;

use super::key::Key;

/// The header beside `authorization` in which a key may come.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The sender of a request: its address where that is known, and the key it sent.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) address: Option<IpAddr>,
    pub(crate) key: Option<Arc<Key>>,
    /// `true` if it sent a key, known or not.
    pub(crate) has_sent: bool,
}

impl Caller {
    /// Returns whether it sent a key that the server does not know.
    pub(crate) fn is_guess(&self) -> bool {
        self.has_sent && self.key.is_none()
    }

    /// Returns the name for log lines: that of the key, or `-`.
    pub(crate) fn name(&self) -> &str {
        self.key.as_ref().map_or("-", |key| key.name())
    }
}
