//! Documents that clients keep, and ask for again before they use them.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::file::lists;

/// Answers a request for a document that has this tag now: 200, or 304 where the client has it (RFC 9110 §13.1.2).
pub(super) fn respond_tagged<T: IntoResponse>(
    request: &HeaderMap,
    tag: &HeaderValue,
    document: impl FnOnce() -> T,
) -> Response {
    let headers =
        [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    let opaque = tag.to_str().map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).unwrap_or_default();
    let known = request.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|tags| lists(tags, &[opaque])) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, document()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_the_client_has_is_not_sent_again() {
        let tag = HeaderValue::from_static("W/\"b\"");
        let status = |known: Option<&'static str>| {
            let known = known.map(|tags| (header::IF_NONE_MATCH, HeaderValue::from_static(tags)));
            let response = respond_tagged(&known.into_iter().collect(), &tag, || "{}");
            assert_eq!(
                (&response.headers()[header::ETAG], &response.headers()["cache-control"]),
                (&tag, &HeaderValue::from_static("no-cache"))
            );
            response.status().as_u16()
        };
        for known in ["W/\"b\"", "\"b\"", "\"a\", W/\"b\"", "*"] {
            assert_eq!(status(Some(known)), 304, "{known}");
        }
        for known in [None, Some("\"a\""), Some("b"), Some("")] {
            assert_eq!(status(known), 200, "{known:?}");
        }
    }
}
