//! `POST /v1/answer`: a question's text in, answers out, cut from the passages that a search finds. Refused unless the
//! operator let text in and gave a reader. Pages that keep questions private read passages by themselves.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use dpr_core::Answer;
use dpr_data::normalise_question;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::answer::{Answered, PreparedSearch, SearchHit, respond, timed};
use super::body::parse_json;
use super::body_kind::BodyKind;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::limits::Limits;
use super::request::{FilterBody, counted};
use super::state::AppState;
use super::text::{check_question, fusion, said};
use super::trace::Trace;
use dpr_index::CancelToken;
use dpr_index::search::{Hit, Method};

/// Passages that are read unless said otherwise.
const DEPTH: usize = 20;

/// Most passages that are read for one question.
const MAX_DEPTH: usize = 100;

/// Answers that are returned unless said otherwise.
const TOP: usize = 3;

/// A question to be answered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest<'a> {
    /// The question, up to 4,096 characters.
    question: String,
    /// How to rank the passages; unless said `hybrid`, or `dense` where the index has no words.
    #[schema(value_type = Method, required = false)]
    #[serde(default, deserialize_with = "said")]
    method: Option<Method>,
    /// Weight of the inner product beside BM25 in hybrid ranking, from 0 to a million; 1.1 unless said, as in the
    /// paper.
    #[schema(default = 1.1, minimum = 0, maximum = 1_000_000)]
    lambda: Option<f32>,
    /// Passages to read, the first of the ranking.
    #[schema(value_type = Option<usize>, minimum = 1, maximum = 100, default = 20)]
    #[serde(borrow)]
    depth: Option<&'a RawValue>,
    /// Answers to return, best first, one of each passage at most.
    #[schema(value_type = Option<usize>, minimum = 1, default = 3)]
    #[serde(borrow)]
    top: Option<&'a RawValue>,
    /// Reads only passages that this lets through, as for a search.
    #[schema(value_type = FilterBody, required = false)]
    #[serde(borrow)]
    filter: Option<&'a RawValue>,
}

/// A span of a passage.
#[derive(Debug, Serialize, ToSchema)]
pub struct FoundAnswer {
    /// The answer, cut from the passage's text.
    pub answer: String,
    /// Probability of the span within its passage, from 0 to 1.
    pub score: f64,
    /// Probability of the passage among those that were read, from 0 to 1.
    pub selection: f64,
    /// First character (Unicode scalar value) of the answer in the passage's text, from 0.
    pub start: usize,
    /// Character after the last.
    pub end: usize,
    /// Rank of the passage in the search, from 1.
    pub rank: usize,
    /// The passage; its `score` is that of the search.
    pub passage: SearchHit,
}

/// The answers to a question.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnswerResponse {
    /// Best first: that of the passage which the reader chooses before the others. None where no passage has a text.
    pub answers: Vec<FoundAnswer>,
    /// Passages that were read.
    pub read: usize,
    /// Fingerprint of the reader.
    pub reader: String,
    /// Milliseconds that the search and the reading took on the server.
    pub took_ms: f64,
}

/// Answers a question by spans of passages. Only where the server was started with `--allow-text` and `--reader`.
#[utoipa::path(post, path = "/v1/answer", tag = "search", request_body = AnswerRequest,
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Answers, best first", body = AnswerResponse),
    (status = 400, description = "`empty_body`, `invalid_json`, `unexpected_query`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`text_search_disabled`: the server does not take text; `answers_disabled`: it has no \
     reader; `plain_search_disabled`: it answers private questions alone; `missing_scope`: needs `search`",
     body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 421, description = "`unknown_host`", body = ErrorBody),
    (status = 422, description = "`invalid_question`, `invalid_k`, `invalid_filter`, `answer_too_large`, `too_costly`", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn answer(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    state.takes_plain_questions()?;
    let ready = state.ready()?;
    // Before the body is read: what must not be sent here is not looked at.
    let service = ready.serving.text.as_ref().map(Arc::clone).ok_or(ApiError::TextSearchDisabled)?;
    let reader = ready.serving.reader.as_ref().map(Arc::clone).ok_or(ApiError::AnswersDisabled)?;
    let (limits, trace) = (state.limits().clone(), Trace::of(&request));
    let read = move |body: &[u8]| -> Result<PreparedSearch<AnswerResponse>, ApiError> {
        let request: AnswerRequest<'_> = parse_json(body, BodyKind::Answer)?;
        check_question(&request.question)?;
        let fusion = fusion(request.lambda)?;
        let (depth, top) = request.counts(&limits)?;
        let filter = request.filter.map(FilterBody::parse).transpose()?.flatten();
        let method = request.method.unwrap_or_else(|| service.default_method());
        let question = normalise_question(&request.question);
        let cost = service.cost(&question, method, depth, filter.as_ref()).saturating_add(reader.cost(depth));
        let rows = ready.rows();
        let search = move |cancel: &CancelToken| -> Result<Answered<AnswerResponse>, ApiError> {
            let found = || {
                let hits = service.search_text(&question, method, fusion, depth, filter.as_ref(), cancel)?;
                let reading = trace.read_passages(hits.len());
                Ok((reading.in_scope(|| reader.answers(&question, &hits, top, cancel)), hits))
            };
            let ((answers, hits), took, took_ms) = timed(BodyKind::Answer, depth, found)?;
            let (read, fingerprint) = (hits.len(), reader.fingerprint().to_owned());
            let answers = found_answers(answers?, hits);
            let answer = AnswerResponse { answers, read, reader: fingerprint, took_ms };
            Ok(Answered { answer, took, k: depth })
        };
        Ok(PreparedSearch { vectors: 1, rows, cost, search: Box::new(search) })
    };
    respond(&state, request, BodyKind::Answer, read).await
}

impl AnswerRequest<'_> {
    /// Returns the passages to read and the answers to return.
    fn counts(&self, limits: &Limits) -> Result<(usize, usize), ApiError> {
        let max = limits.max_k.min(MAX_DEPTH);
        let outside = |name: &'static str, max: usize| move |got| ApiError::InvalidDepth { name, got, max };
        let depth = counted(self.depth, DEPTH, max).map_err(outside("depth", max))?;
        let top = counted(self.top, TOP, depth).map_err(outside("top", depth))?;
        Ok((depth, top))
    }
}

/// Answers with their passages; no passage has more than one.
fn found_answers(answers: Vec<Answer>, hits: Vec<Hit>) -> Vec<FoundAnswer> {
    let mut hits: Vec<_> = hits.into_iter().map(Some).collect();
    let found = answers.into_iter().filter_map(|answer| {
        let hit = hits.get_mut(answer.passage)?.take()?;
        let place = answer.chars(&hit.text);
        Some(FoundAnswer {
            score: answer.score,
            selection: answer.selection,
            start: place.start,
            end: place.end,
            rank: answer.passage + 1,
            answer: answer.text,
            passage: hit.into(),
        })
    });
    found.collect()
}
