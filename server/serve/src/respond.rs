//! The way of every search from checked request to answer: the gate, the search, JSON, the times it took.

use std::time::Instant;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::search::SearchResponse;
use super::state::AppState;
use dpr_index::search::SearchError;

/// Runs `search` on a thread of the gate's and makes what it found, with the milliseconds it took, the answer.
///
/// `at_fault` says which failures are the client's doing, and what to tell it; the others are logged and told as
/// `internal`. The header `server-timing` has the time in the queue and the time of the search.
pub(super) async fn respond<T>(
    state: &AppState,
    search: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
    answer: impl FnOnce(T, f64) -> SearchResponse + Send + 'static,
    at_fault: fn(&SearchError) -> Option<ApiError>,
) -> Result<Response, ApiError> {
    let place = state.gate().enter().inspect_err(|_| state.metrics().rejected())?;
    let work = move || {
        let start = Instant::now();
        let found = search().map_err(|error| at_fault(&error).unwrap_or_else(|| internal(&error)))?;
        let took = start.elapsed();
        let answer = answer(found, (took.as_secs_f64() * 1e6).round() / 1e3);
        // Thousands of passages take a while to print; that too stays off the socket threads.
        let body = serde_json::to_vec(&answer)
            .map_err(|_| ApiError::Internal("the answer could not be written as JSON"))?;
        Ok((body, took))
    };
    let (outcome, waited) = state.gate().run(place, work).await?;
    let (body, took) = outcome?;
    state.metrics().searched(waited, took);
    let timing =
        format!("queue;dur={:.3}, search;dur={:.3}", waited.as_secs_f64() * 1e3, took.as_secs_f64() * 1e3);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(timing) = HeaderValue::from_str(&timing) {
        headers.insert(HeaderName::from_static("server-timing"), timing);
    }
    Ok((headers, body).into_response())
}

fn internal(error: &SearchError) -> ApiError {
    tracing::error!("a search failed: {error}");
    ApiError::Internal("the search failed")
}
