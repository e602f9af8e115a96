//! The way of every search from a body to its answer: the gate, the search, JSON, the times it took.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::body::HeldBody;
use super::error::ApiError;
use super::search::SearchResponse;
use super::state::AppState;
use crate::search::SearchError;

/// What a search found, and how long that took.
pub(super) struct Answered {
    pub(super) answer: SearchResponse,
    pub(super) took: Duration,
}

/// Runs `search` on the bytes of a body, on a thread of the gate's. All work that grows with the body or the answer is done
/// there, and by no more requests at once than the gate lets in: reading JSON, searching, printing JSON.
///
/// The header `server-timing` has the time in the queue and the time of the search.
pub(super) async fn respond(
    state: &AppState,
    body: HeldBody,
    search: impl FnOnce(&[u8]) -> Result<Answered, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let place = state.gate().enter().inspect_err(|_| state.metrics().rejected())?;
    let work = move || {
        let Answered { answer, took } = search(&body)?;
        drop(body);
        let answer = serde_json::to_vec(&answer)
            .map_err(|_| ApiError::Internal("the answer could not be written as JSON"))?;
        Ok((answer, took))
    };
    let (outcome, waited) = state.gate().run(place, work).await?;
    let (answer, took) = outcome?;
    state.metrics().searched(waited, took);
    let timing =
        format!("queue;dur={:.3}, search;dur={:.3}", waited.as_secs_f64() * 1e3, took.as_secs_f64() * 1e3);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(timing) = HeaderValue::from_str(&timing) {
        headers.insert(HeaderName::from_static("server-timing"), timing);
    }
    Ok((headers, answer).into_response())
}

/// Searches, and returns what was found with the time that took, also in milliseconds for the answer.
///
/// `at_fault` says which failures are the client's doing, and what to tell it; the others are logged and told as
/// `internal`.
pub(super) fn timed<T>(
    search: impl FnOnce() -> Result<T, SearchError>,
    at_fault: fn(&SearchError) -> Option<ApiError>,
) -> Result<(T, Duration, f64), ApiError> {
    let start = Instant::now();
    let found = search().map_err(|error| at_fault(&error).unwrap_or_else(|| internal(&error)))?;
    let took = start.elapsed();
    Ok((found, took, (took.as_secs_f64() * 1e6).round() / 1e3))
}

fn internal(error: &SearchError) -> ApiError {
    tracing::error!("a search failed: {error}");
    ApiError::Internal("the search failed")
}
