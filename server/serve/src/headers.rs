//! Headers that every response gets, and those that keep a question inside the search page.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use super::state::AppState;

/// The page may load code and send requests to this server only: even a script that were slipped into it
/// could not send the question elsewhere. `wasm-unsafe-eval` allows WebAssembly and nothing else.
const PAGE_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
    worker-src 'self' blob:; connect-src 'self'; style-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Sets the headers common to all responses; what a handler set itself stays.
pub(super) async fn common(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    default(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    default(headers, header::REFERRER_POLICY, "no-referrer");
    default(headers, header::CACHE_CONTROL, "no-store");
    let readers = if state.origins().allows_others() { "cross-origin" } else { "same-origin" };
    default(headers, HeaderName::from_static("cross-origin-resource-policy"), readers);
    response
}

/// Sets the search page's policy, also on its scripts: a worker has the policy of its own file.
pub(super) fn protect_page(headers: &mut HeaderMap) {
    default(headers, header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
    // Together they make the page cross-origin isolated: exact timers and shared memory.
    default(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    default(headers, HeaderName::from_static("cross-origin-embedder-policy"), "require-corp");
}

fn default(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.entry(name).or_insert(HeaderValue::from_static(value));
}
