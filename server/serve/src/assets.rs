//! The search page: static files of a directory, and 404 for whatever else has no route.

use std::path::Path;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tower::ServiceExt;
use tower_http::services::ServeDir;

use super::error::ApiError;
use super::headers::protect_page;
use super::state::AppState;

/// Answers every path without a route. A `.gz` file beside an asset is sent to browsers that take gzip.
pub(super) async fn page(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    let path = request.uri().path().to_owned();
    let not_found = || ApiError::NotFound(path.chars().take(100).collect());
    let Some(directory) = state.web().filter(|_| !is_private(&path)) else { return Err(not_found()) };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Err(ApiError::MethodNotAllowed { method: request.method().to_string(), path: path.clone() });
    }
    let outcome = ServeDir::new(directory).precompressed_gzip().oneshot(request).await;
    let Ok(response) = outcome;
    match response.status() {
        StatusCode::NOT_FOUND => return Err(not_found()),
        StatusCode::INTERNAL_SERVER_ERROR => {
            tracing::error!("cannot read a file of {}", directory.display());
            return Err(ApiError::Internal("a file of the page cannot be read"));
        }
        _ => {}
    }
    let mut response = response.map(Body::new).into_response();
    let headers = response.headers_mut();
    let is_html =
        headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/html"));
    let caching = if is_html {
        "no-store"
    } else if is_hashed(&path) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if is_html {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    }
    protect_page(headers);
    Ok(response)
}

/// Returns whether the path belongs to the interface, or to a file that was never meant to be served: one with a hidden
/// part, or with a part that no file of a page has. It is decoded first, as it is before a file is opened.
fn is_private(path: &str) -> bool {
    let Ok(path) = percent_decode_str(path).decode_utf8() else { return true };
    let is_odd = |part: &str| part.starts_with('.') || part.contains(['\0', '\\']);
    path.starts_with("/v1/") || path == "/v1" || path.split('/').any(is_odd)
}

/// Returns whether the name ends in a hash of its content, as Vite writes them: `assets/main-Bx3kQ9_a.js`.
fn is_hashed(path: &str) -> bool {
    let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.starts_with("/assets/") && stem.len() > 9 && stem.as_bytes()[stem.len() - 9] == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_are_cached_for_good() {
        for path in ["/assets/main-Bx3kQ9_a.js", "/assets/dpr_wasm_bg-DX-3ab9Q.wasm"] {
            assert!(is_hashed(path), "{path}");
        }
        for path in ["/", "/index.html", "/main-Bx3kQ9_a.js", "/assets/logo.svg", "/assets/my-logo.svg"] {
            assert!(!is_hashed(path), "{path}");
        }
    }

    #[test]
    fn hidden_files_and_the_interface_are_not_the_page() {
        for path in [
            "/.git/config",
            "/../secret",
            "/a/.env",
            "/v1/other",
            "/v1",
            "/%2eenv",
            "/%2Egit/config",
            "/a/..%2f.env",
            "/a%2f%2Eenv",
            "/.%00env",
            "/a%00b",
            "/a%5c.env",
            "/%761/other",
            "/%ff",
        ] {
            assert!(is_private(path), "{path}");
        }
        for path in ["/v1x.js", "/a%20b.js", "/a.b.js", "/%C3%A9.js"] {
            assert!(!is_private(path), "{path}");
        }
    }
}
