//! `POST /v1/search/text`: a question's text in, passages out. Refused unless the operator let text in.
//!
//! Words can only be compared where the words are, so sparse and hybrid ranking need the text. Pages that keep
//! questions private send vectors to `/v1/search` instead, and a server is started without this by default.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::answer::{Answered, PreparedSearch, SearchHit, SearchResponse, respond, timed};
use super::body::parse_json;
use super::body_kind::BodyKind;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::request::{FilterBody, checked_k};
use super::state::AppState;
use dpr_index::CancelToken;
use dpr_index::search::{Fusion, Method};

/// Characters of a question: more than any encoder reads.
pub(super) const MAX_CHARACTERS: usize = 4096;

/// Greatest weight of the inner product. Far greater ones would make scores infinite, which JSON cannot say.
const MAX_LAMBDA: f32 = 1e6;

/// A search by text.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TextSearchRequest<'a> {
    /// The question, up to 4,096 characters.
    question: String,
    /// How to rank; unless said `hybrid`, or `dense` where the index has no words.
    #[schema(value_type = Method, required = false)]
    #[serde(default, deserialize_with = "said")]
    method: Option<Method>,
    /// Weight of the inner product beside BM25 in hybrid ranking, from 0 to a million; 1.1 unless said, as in the
    /// paper.
    #[schema(default = 1.1, minimum = 0, maximum = 1_000_000)]
    lambda: Option<f32>,
    /// Passages to return, best first.
    #[schema(value_type = Option<usize>, minimum = 1, default = 10)]
    #[serde(borrow)]
    k: Option<&'a RawValue>,
    /// Finds only passages with one of these titles and one of these ids, where any are given, and with metadata for
    /// which the condition holds, whatever the method.
    #[schema(value_type = FilterBody, required = false)]
    #[serde(borrow)]
    filter: Option<&'a RawValue>,
}

/// Reads a method that is there: `null` is none.
pub(super) fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Method>, D::Error> {
    Method::deserialize(deserializer).map(Some)
}

/// Finds passages for a question's text, by words, by vector, or both. Only where the server was started with
/// `--allow-text`.
#[utoipa::path(post, path = "/v1/search/text", tag = "search", request_body = TextSearchRequest,
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Passages, best first; scores in the method's units", body = SearchResponse),
    (status = 400, description = "`empty_body`, `invalid_json`, `unexpected_query`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`text_search_disabled`: the server does not take text; `plain_search_disabled`: it \
     answers private questions alone; `missing_scope`: needs `search`",
     body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 421, description = "`unknown_host`", body = ErrorBody),
    (status = 422, description = "`invalid_question`, `invalid_k`, `invalid_filter`, `answer_too_large`, `too_costly`", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn search_text(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, ApiError> {
    state.takes_plain_questions()?;
    let ready = state.ready()?;
    // Before the body is read: what must not be sent here is not looked at.
    let service = ready.serving.text.as_ref().map(Arc::clone).ok_or(ApiError::TextSearchDisabled)?;
    let limits = state.limits().clone();
    let read = move |body: &[u8]| -> Result<PreparedSearch, ApiError> {
        let request: TextSearchRequest<'_> = parse_json(body, BodyKind::TextSearch)?;
        check_question(&request.question)?;
        let fusion = fusion(request.lambda)?;
        let k = checked_k(request.k, &limits)?;
        let filter = request.filter.map(FilterBody::parse).transpose()?.flatten();
        let method = request.method.unwrap_or_else(|| service.default_method());
        let question = request.question;
        let cost = service.cost(&question, method, k, filter.as_ref());
        let rows = ready.rows();
        let search = move |cancel: &CancelToken| -> Result<Answered, ApiError> {
            let search = || service.search_text(&question, method, fusion, k, filter.as_ref(), cancel);
            let (found, took, took_ms) = timed(BodyKind::TextSearch, k, search)?;
            let hits = found.into_iter().map(SearchHit::from).collect();
            Ok(Answered { answer: SearchResponse::Single { hits, took_ms }, took, k })
        };
        Ok(PreparedSearch { vectors: 1, rows, cost, search: Box::new(search) })
    };
    respond(&state, request, BodyKind::TextSearch, read).await
}

/// Refuses a question that is blank or too long.
pub(super) fn check_question(question: &str) -> Result<(), ApiError> {
    let length = question.chars().count();
    if length > MAX_CHARACTERS {
        return Err(ApiError::InvalidQuestion(format!(
            "`question` has {length} characters; at most {MAX_CHARACTERS} are taken"
        )));
    }
    if question.trim().is_empty() {
        return Err(ApiError::InvalidQuestion("`question` is blank".into()));
    }
    Ok(())
}

/// Returns the fusion of hybrid ranking by this weight of the inner product.
pub(super) fn fusion(lambda: Option<f32>) -> Result<Fusion, ApiError> {
    match lambda {
        None => Ok(Fusion::PAPER),
        Some(lambda) if (0.0..=MAX_LAMBDA).contains(&lambda) => Ok(Fusion::Linear { lambda }),
        Some(got) => Err(ApiError::InvalidLambda { got, max: MAX_LAMBDA }),
    }
}
