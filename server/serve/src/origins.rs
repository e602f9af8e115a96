//! Whose pages may call this server (CORS).

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::access::API_KEY;
use super::request_id::REQUEST_ID;

/// The origins besides the server's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origins {
    /// No other: only the page this server serves.
    #[default]
    Own,
    /// These.
    Listed(Vec<HeaderValue>),
    /// All.
    Any,
}

/// An `--allow-origin` that is not one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not an origin: write scheme, host and port as in https://example.org, without a path, or `*`"
)]
pub struct OriginError(String);

impl Origins {
    /// Reads origins as a browser sends them (`https://example.org`, `http://localhost:5173`), or `*`.
    ///
    /// # Errors
    /// For text that no `Origin` header could equal.
    pub fn parse(texts: &[String]) -> Result<Self, OriginError> {
        if texts.is_empty() {
            return Ok(Self::Own);
        }
        if texts.iter().any(|text| text == "*") {
            return Ok(Self::Any);
        }
        let parse = |text: &String| {
            let host = text.split_once("://").map_or("", |(_, host)| host);
            let valid = !host.is_empty() && !host.contains(['/', '?', '#', ' ', '@']);
            let value = HeaderValue::from_str(&text.to_ascii_lowercase()).ok();
            value.filter(|_| valid).ok_or_else(|| OriginError(text.clone()))
        };
        texts.iter().map(parse).collect::<Result<_, _>>().map(Self::Listed)
    }

    /// Returns whether pages of other origins may read model files and answers.
    pub(super) fn allows_others(&self) -> bool {
        *self != Self::Own
    }

    /// The layer that answers preflights and marks responses; `None` when there is nothing to allow.
    pub(super) fn layer(&self) -> Option<CorsLayer> {
        let origin = match self {
            Self::Own => return None,
            Self::Any => AllowOrigin::any(),
            Self::Listed(list) => AllowOrigin::list(list.iter().cloned()),
        };
        Some(
            CorsLayer::new()
                .allow_origin(origin)
                .allow_methods([Method::GET, Method::HEAD, Method::POST])
                .allow_headers([
                    header::CONTENT_TYPE,
                    header::RANGE,
                    header::IF_NONE_MATCH,
                    header::IF_RANGE,
                    header::AUTHORIZATION,
                    API_KEY,
                    REQUEST_ID,
                ])
                .expose_headers([
                    header::ETAG,
                    header::CONTENT_RANGE,
                    header::CONTENT_LENGTH,
                    header::ACCEPT_RANGES,
                    header::RETRY_AFTER,
                    header::WWW_AUTHENTICATE,
                    HeaderName::from_static("server-timing"),
                    REQUEST_ID,
                ])
                .max_age(Duration::from_secs(24 * 60 * 60)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_send_them() {
        let parse = |text: &str| Origins::parse(&[text.to_owned()]);
        assert_eq!(
            parse("http://Localhost:5173").unwrap(),
            Origins::Listed(vec![HeaderValue::from_static("http://localhost:5173")])
        );
        assert_eq!(parse("*").unwrap(), Origins::Any);
        assert_eq!(Origins::parse(&[]).unwrap(), Origins::Own);
        for bad in ["example.org", "https://example.org/", "https://", "https://a b", ""] {
            assert_eq!(parse(bad).unwrap_err(), OriginError(bad.into()), "{bad}");
        }
    }
}
