//! `GET /metrics`: the counters for Prometheus, and the middleware that counts requests.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::counters::RequestLabels;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::state::AppState;

/// The middleware that counts. Its log line has the route's pattern, never the address as sent.
pub(super) async fn track(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let metrics = state.metrics();
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let route = request.extensions().get::<MatchedPath>().map_or("page", MatchedPath::as_str).to_owned();
    let counted = metrics.in_flight();
    let start = std::time::Instant::now();
    let response = next.run(request).await;
    counted.answered();
    let status = response.status().as_u16();
    let ms = start.elapsed().as_secs_f64() * 1e3;
    tracing::debug!(target: "dpr_serve", "{method} {route} {status} {ms:.1} ms");
    metrics.answered(&RequestLabels { method, route, status });
    response
}

/// Counters in the OpenMetrics text format.
///
/// `dpr_recall_sample_found_total` over `dpr_recall_sample_wanted_total` is recall@20 as served: of the best 20
/// passages (or `k`, if that is less) of some searches, repeated exactly, the share that the graph had found.
#[utoipa::path(get, path = "/metrics", tag = "operation", security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Counters for Prometheus", body = String,
     content_type = "application/openmetrics-text"),
    (status = 401, description = "`unauthorized`", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `admin`, where there are keys", body = ErrorBody),
))]
pub(super) async fn metrics(State(state): State<AppState>) -> Result<Response, ApiError> {
    if let Ok(ready) = state.ready() {
        state.metrics().set_index(&ready.serving.search.describe());
        state.metrics().health().set(&ready.serving.search.health(), ready.updates_broken());
    }
    let text = state.metrics().text().map_err(|_| ApiError::Internal("the counters cannot be written"))?;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, media_type)], text).into_response())
}
