//! The way of every search from a body to its answer: the gate, the search, JSON, the times it took.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use tracing::Span;

use super::body::json_body;
use super::body_kind::BodyKind;
use super::error::ApiError;
use super::file::accepts_gzip;
use super::gate::{Prepared, Run};
use super::metadata::WireValue;
use super::refusals::Refused;
use super::state::AppState;
use super::trace::Trace;
use dpr_data::Metadata;
use dpr_index::search::{Hit, SearchError};
use dpr_index::{CancelToken, Stopped};
use serde::Serialize;
use utoipa::ToSchema;

/// A passage found.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchHit {
    /// The passage's id in the corpus.
    pub id: String,
    /// Inner product of the question's and the passage's vector; for a question sent as text, the score of its
    /// `method`. Greater is better.
    pub score: f32,
    /// The passage's title.
    pub title: String,
    /// The passage's text.
    pub text: String,
    /// The passage's metadata, where it has any.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, WireValue>, required = false)]
    pub metadata: Metadata,
}

impl From<Hit> for SearchHit {
    fn from(hit: Hit) -> Self {
        let Hit { id, score, title, text, metadata } = hit;
        Self { id, score, title, text, metadata }
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

/// The result of a search, and the time that it took.
pub(super) struct Answered<T = SearchResponse> {
    pub(super) answer: T,
    pub(super) took: Duration,
    /// Passages asked for, for each vector.
    pub(super) k: usize,
}

/// A search's answer as it is sent.
struct Written {
    bytes: Vec<u8>,
    is_gzip: bool,
}

/// A search that was read from a body and checked.
pub(super) struct PreparedSearch<T = SearchResponse> {
    /// Vectors that are searched for.
    pub(super) vectors: usize,
    /// Passages that are searched.
    pub(super) rows: usize,
    /// See [`Prepared::cost`].
    pub(super) cost: u64,
    /// Searches, until the token says to stop.
    pub(super) search: Run<Result<Answered<T>, ApiError>>,
}

/// Returns the answer to a request with a JSON body of this kind, by the search that `read` makes of the body.
///
/// All work that grows with the body or the answer is done on a thread of the gate, by no more requests at once than the
/// gate lets in: reading JSON, searching, printing JSON, compressing it for a client that takes gzip. The search stops
/// when the returned future is dropped, and once its passages have more bytes than an answer may have: one that is too
/// large is neither read whole nor printed.
///
/// The header `server-timing` has the time in the queue and the time of the search.
pub(super) async fn respond<T: Serialize + 'static>(
    state: &AppState,
    request: Request,
    kind: BodyKind,
    read: impl FnOnce(&[u8]) -> Result<PreparedSearch<T>, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let takes_gzip = accepts_gzip(request.headers());
    let trace = Trace::of(&request);
    let body = json_body(state, request, kind).await?;
    let place = state.gate().enter().inspect_err(|_| state.metrics().rejected())?;
    let (span, limit, queue) = (Span::current(), state.limits().max_answer, trace.queue());
    let prepare = move || {
        drop(queue);
        let parse = trace.parse(body.len());
        let prepared = span.in_scope(|| parse.in_scope(|| read(&body)));
        drop((body, parse));
        let PreparedSearch { vectors, rows, cost, search } = prepared?;
        let run = move |cancel: &CancelToken| {
            let _in_request = span.enter();
            let Answered { answer, took, k } = trace.search(vectors, rows).in_scope(|| search(cancel))?;
            let write = trace.write_answer();
            Ok::<_, ApiError>((write.in_scope(|| written(&answer, kind, k, limit, takes_gzip))?, took))
        };
        Ok(Prepared { vectors, rows, cost, run: Box::new(run) })
    };
    let (outcome, waited) = state.gate().search(place, prepare).await?;
    let (Written { bytes, is_gzip }, took) = outcome?;
    let bytes = hold_answer(state, bytes)?;
    state.metrics().searched(waited, took);
    let timing =
        format!("queue;dur={:.3}, search;dur={:.3}", waited.as_secs_f64() * 1e3, took.as_secs_f64() * 1e3);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(timing) = HeaderValue::from_str(&timing) {
        headers.insert(HeaderName::from_static("server-timing"), timing);
    }
    Ok((headers, bytes).into_response())
}

/// Returns an answer in its part of the room that answers have until clients have read them.
pub(super) fn hold_answer(state: &AppState, bytes: Vec<u8>) -> Result<Bytes, ApiError> {
    let refused = |_: &ApiError| state.metrics().refusals().refused(Refused::Answers);
    state.answers().hold_answer(bytes).inspect_err(refused)
}

/// Sizes of answers that are compressed: smaller ones gain nothing, larger ones would hold their thread for long.
const COMPRESSED: RangeInclusive<usize> = 1024..=8 << 20;

/// Prints the answer to a body of this kind that asks for `k` passages, up to `limit` bytes.
fn written<T: Serialize>(
    answer: &T,
    kind: BodyKind,
    k: usize,
    limit: usize,
    takes_gzip: bool,
) -> Result<Written, ApiError> {
    let mut json = LimitedBuffer { bytes: Vec::new(), limit, is_full: false };
    if serde_json::to_writer(&mut json, answer).is_err() {
        return Err(match json.is_full {
            true => ApiError::AnswerTooLarge { kind, k, limit },
            false => ApiError::Internal("the answer could not be written as JSON"),
        });
    }
    if !takes_gzip || !COMPRESSED.contains(&json.bytes.len()) {
        return Ok(Written { bytes: json.bytes, is_gzip: false });
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed = encoder.write_all(&json.bytes).and_then(|()| encoder.finish());
    let bytes = compressed.map_err(|_| ApiError::Internal("the answer could not be compressed"))?;
    Ok(Written { bytes, is_gzip: true })
}

/// Bytes up to a limit.
struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Write for LimitedBuffer {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > self.limit - self.bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Searches for the `k` passages that a body of this kind asks for, and returns what was found with the time that took,
/// also in milliseconds for the answer.
pub(super) fn timed<T>(
    kind: BodyKind,
    k: usize,
    search: impl FnOnce() -> Result<T, SearchError>,
) -> Result<(T, Duration, f64), ApiError> {
    let start = Instant::now();
    let found = search().map_err(|error| match error {
        SearchError::Stopped(Stopped::TooManyBytes { max }) => {
            ApiError::AnswerTooLarge { kind, k, limit: max }
        }
        error => error.into(),
    })?;
    let took = start.elapsed();
    Ok((found, took, (took.as_secs_f64() * 1e6).round() / 1e3))
}
