//! The request handler of `POST /v1/search`: vectors in, passages out.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::{Answered, HitList, PreparedSearch, SearchHit, SearchResponse, respond, timed};
use super::body_kind::BodyKind;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::request::SearchRequest;
use super::state::AppState;
use dpr_index::CancelToken;

/// Finds the passages nearest to question vectors. There is no field for a question's text.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Passages, best first", body = SearchResponse),
    (status = 400, description = "`empty_body`, `invalid_json`, `unexpected_query`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`text_search_disabled`: a question sent as text; `plain_search_disabled`: the server \
     answers private questions alone; `missing_scope`: needs `search`", body = ErrorBody),
    (status = 409, description = "`wrong_model`", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 421, description = "`unknown_host`", body = ErrorBody),
    (status = 422, description = "`invalid_vector`, `invalid_k`, `invalid_filter`, `answer_too_large`, `too_costly`", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn search(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    state.takes_plain_questions()?;
    let served = state.clone();
    let read = move |body: &[u8]| -> Result<PreparedSearch, ApiError> {
        // After the body has come, so that it is answered from the newest index.
        let ready = served.ready()?;
        let request = SearchRequest::read(body, ready.dim, &ready.fingerprint, served.limits())?;
        let (vectors, rows) = (request.vectors.len(), ready.rows());
        let cost = ready.serving.search.cost(vectors, request.k, request.filter.as_ref());
        let search = move |cancel: &CancelToken| -> Result<Answered, ApiError> {
            let backend = &ready.serving.search;
            let search =
                || backend.search_until(&request.vectors, request.k, request.filter.as_ref(), cancel);
            let (found, took, took_ms) = timed(BodyKind::Search, request.k, search)?;
            let mut lists = found.into_iter().map(|hits| hits.into_iter().map(SearchHit::from).collect());
            let answer = match request.batch {
                true => {
                    SearchResponse::Batch { results: lists.map(|hits| HitList { hits }).collect(), took_ms }
                }
                false => SearchResponse::Single { hits: lists.next().unwrap_or_default(), took_ms },
            };
            Ok(Answered { answer, took, k: request.k })
        };
        Ok(PreparedSearch { vectors, rows, cost, search: Box::new(search) })
    };
    respond(&state, request, BodyKind::Search, read).await
}

/// Answers 503 to a search whose time is up, while its body arrives, it waits or it is searched; the search then stops.
pub(super) async fn deadline(
    State((state, kind)): State<(AppState, BodyKind)>,
    request: Request,
    next: Next,
) -> Response {
    let timeout = state.limits().timeout;
    match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::Timeout { kind, ms: timeout.as_millis() }.into_response(),
    }
}
