//! `POST /v1/search`: vectors in, passages out.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::json_body;
use super::error::{ApiError, ErrorBody};
use super::request::SearchRequest;
use super::respond::{Answered, respond, timed};
use super::state::AppState;
use crate::index::IndexError;
use crate::index::milvus::MilvusError;
use crate::search::{Hit, SearchError};

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

/// Finds the passages nearest to question vectors. There is no field for a question's text.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest, responses(
    (status = 200, description = "Passages, best first", body = SearchResponse),
    (status = 400, description = "`empty_body`, `invalid_json`", body = ErrorBody),
    (status = 403, description = "`text_search_disabled`: a question sent as text", body = ErrorBody),
    (status = 409, description = "`wrong_model`", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 422, description = "`invalid_vector`, `invalid_k`, `invalid_filter`", body = ErrorBody),
    (status = 429, description = "`overloaded`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn search(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    let body = json_body(&state, request).await?;
    let (ready, limits) = (state.ready()?, state.limits().clone());
    let search = move |body: &[u8]| {
        let asked = SearchRequest::read(body, ready.dim, &ready.fingerprint, &limits)?;
        let search = || ready.serving.search.search(&asked.vectors, asked.k, asked.filter.as_ref());
        let (found, took, took_ms) = timed(search, at_fault)?;
        let mut lists = found.into_iter().map(|hits| hits.into_iter().map(SearchHit::from).collect());
        let answer = match asked.batch {
            true => SearchResponse::Batch { results: lists.map(|hits| HitList { hits }).collect(), took_ms },
            false => SearchResponse::Single { hits: lists.next().unwrap_or_default(), took_ms },
        };
        Ok(Answered { answer, took })
    };
    respond(&state, body, search).await
}

/// A filter may allow no passage of the index as it is now. Numbers near the top of f32 are finite, as is checked before; their products need not be.
fn at_fault(error: &SearchError) -> Option<ApiError> {
    match error {
        SearchError::Index(IndexError::Overflow { .. }) => Some(ApiError::InvalidVector(error.to_string())),
        SearchError::NothingWanted => Some(ApiError::InvalidFilter(error.to_string())),
        SearchError::Milvus(MilvusError::Slow { .. }) => {
            tracing::error!("a search failed: {error}");
            Some(ApiError::NotReady("without an answer from the cluster that keeps the passages"))
        }
        _ => None,
    }
}

/// Ends a search request whose time is up, be it in its body, in the queue or in the search.
pub(super) async fn deadline(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let timeout = state.limits().timeout;
    match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::Timeout(timeout.as_millis()).into_response(),
    }
}
