//! The way of every search from a body to its answer: the gate, the search, JSON, the times it took.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::body_room::HeldBody;
use super::error::ApiError;
use super::state::AppState;
use dpr_index::search::{Hit, SearchError};
use serde::Serialize;
use utoipa::ToSchema;

/// A passage found.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchHit {
    /// The passage's id in the corpus.
    pub id: String,
    /// Inner product of the question's and the passage's vector; greater is better.
    pub score: f32,
    /// The passage's title.
    pub title: String,
    /// The passage's text.
    pub text: String,
}

impl From<Hit> for SearchHit {
    fn from(hit: Hit) -> Self {
        Self { id: hit.id, score: hit.score, title: hit.title, text: hit.text }
    }
}

/// The passages for one vector.
#[derive(Debug, Serialize, ToSchema)]
pub struct HitList {
    /// Best first; fewer than `k` when the index holds fewer.
    pub hits: Vec<SearchHit>,
}

/// The answer to `vector`, or to `vectors`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum SearchResponse {
    /// To `vector`.
    Single {
        /// Best first; fewer than `k` when the index holds fewer.
        hits: Vec<SearchHit>,
        /// Milliseconds the search took on the server.
        took_ms: f64,
    },
    /// To `vectors`.
    Batch {
        /// One for each vector, in their order.
        results: Vec<HitList>,
        /// Milliseconds the searches took on the server, together.
        took_ms: f64,
    },
}

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
        Ok::<_, ApiError>((answer, took))
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
pub(super) fn timed<T>(
    search: impl FnOnce() -> Result<T, SearchError>,
) -> Result<(T, Duration, f64), ApiError> {
    let start = Instant::now();
    let found = search()?;
    let took = start.elapsed();
    Ok((found, took, (took.as_secs_f64() * 1e6).round() / 1e3))
}
