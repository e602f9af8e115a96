//! Request ids: each request has one, in its answer and in every log line about it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use super::trace::Trace;

/// The header of a request and of its answer.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a client.
const LONGEST: usize = 64;

/// The id of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the id that the client chose, if it can stand in a log line as it is, else one made here.
    fn of(headers: &HeaderMap) -> Self {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
        let is_short = |value: &&HeaderValue| (1..=LONGEST).contains(&value.len());
        let chosen = headers.get(REQUEST_ID).filter(is_short);
        match chosen.filter(|value| value.as_bytes().iter().all(is_plain)) {
            Some(value) => Self(value.clone()),
            None => Self::made(),
        }
    }

    /// Returns an id that no other request of this process has, and hardly one of another.
    fn made() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let text = format!("{:012x}-{:08x}", *PROCESS >> 16, NEXT.fetch_add(1, Ordering::Relaxed));
        Self(HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("-")))
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or("-")
    }
}

/// Gives a request its id, which all log lines about it carry, and its answer the same.
pub(super) async fn assign(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    // An error's span, so that lines have the id at every level that is logged.
    let span = tracing::error_span!(target: "dpr_serve", "request", id = id.as_str());
    Trace::of(&request).record_id(id.as_str());
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id.0);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_client_is_taken_if_it_is_short_and_plain() {
        let of = |value: &str| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            RequestId::of(&HeaderMap::from_iter([(REQUEST_ID, value)])).as_str().to_owned()
        };
        for plain in ["a", "4bf92f35-77b3.4da6_a3ce", &"a".repeat(64)] {
            assert_eq!(of(plain), plain);
        }
        for odd in ["", " ", "a b", "a\tb", "a=b", "\"a\"", "é", "a{b}", &"a".repeat(65)] {
            let made = of(odd);
            assert!(made != odd && made.len() == 21, "{odd}: {made}");
        }
        assert_ne!(of(""), of(""));
    }
}
