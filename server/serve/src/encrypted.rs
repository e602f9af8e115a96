//! `/v1/encrypted`: rankings and texts for questions that the server does not see.
//!
//! A message and its answer have one length for one version of the tables. Questions that wait together are answered
//! in one reading of a table. Nothing of a message is logged, and answers are neither compressed nor cached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dpr_core::private::encrypted::wire::Kind;
use dpr_index::CancelToken;
use dpr_index::search::Description;
use dpr_private::{AnswerError, MOST_FETCHES, Tables};
use tokio::sync::oneshot;

use super::answer::hold_answer;
use super::body::binary_body;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::file::{ServedFile, respond_by_content};
use super::gate::{Prepared, SearchGate};
use super::room::HeldBody;
use super::state::{AppState, Ready};

/// Questions that one reading of a table answers.
const BATCH: usize = 8;

/// Private tables, as they are served.
#[derive(Debug)]
pub struct ServedTables {
    tables: Tables,
    files: Vec<ServedFile>,
    tag: HeaderValue,
    gate: SearchGate,
    ranks: Waiting,
    fetches: Waiting,
}

/// Messages that wait for a thread, with the ways back of their answers.
type Waiting = Mutex<Vec<Message>>;

/// A message, and the way back of its answer.
type Message = (HeldBody, oneshot::Sender<Result<Vec<u8>, ApiError>>);

impl ServedTables {
    /// Prepares tables for serving: so many readings of them run at once, so many requests wait, and each has so much
    /// time.
    ///
    /// # Errors
    /// When a file cannot be described.
    pub fn new(tables: Tables, concurrency: usize, queue: usize, timeout: Duration) -> std::io::Result<Self> {
        let file = |(path, name, file): (std::path::PathBuf, &str, &dpr_core::model::FileEntry)| {
            ServedFile::new(path, name, file.bytes, &file.sha256)
        };
        let files = tables.public_files().map(file).collect::<Result<_, _>>()?;
        let tag = HeaderValue::from_str(&format!("\"{}\"", tables.version()));
        Ok(Self {
            files,
            tag: tag.map_err(std::io::Error::other)?,
            tables,
            gate: SearchGate::new(concurrency, queue).with_timeout(timeout),
            ranks: Waiting::default(),
            fetches: Waiting::default(),
        })
    }

    fn waiting(&self, kind: Kind) -> &Waiting {
        match kind {
            Kind::Rank => &self.ranks,
            Kind::Fetch => &self.fetches,
        }
    }

    /// Returns the bytes of the longest message of this kind.
    fn longest(&self, kind: Kind) -> usize {
        match kind {
            Kind::Rank => self.tables.rank_question_bytes(),
            Kind::Fetch => self.tables.fetch_question_bytes(MOST_FETCHES),
        }
    }

    /// Answers messages that wait, as many as one reading takes. Whoever gets a thread does this, for the others too;
    /// a message whose client has gone is passed over.
    fn answer_waiting(&self, kind: Kind) {
        let taken = {
            let mut waiting = self.waiting(kind).lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|(_, back)| !back.is_closed());
            // Together they are read in one time and computed one by one: no more than end in time.
            let count = waiting.len().min(BATCH).min(self.gate.fitting(self.cost(kind)));
            waiting.drain(..count).collect::<Vec<_>>()
        };
        match kind {
            Kind::Rank => {
                let read = |body: &[u8]| self.tables.read_rank(body);
                answer_all(taken, read, |all, is_wanted| self.tables.rank_while(all, is_wanted));
            }
            Kind::Fetch => {
                let read = |body: &[u8]| self.tables.read_fetch(body);
                answer_all(taken, read, |all, is_wanted| self.tables.fetch_while(all, is_wanted));
            }
        }
    }

    /// Returns the work of one question.
    fn cost(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Rank => self.tables.rank_cost(),
            Kind::Fetch => self.tables.fetch_cost(MOST_FETCHES),
        }
    }
}

/// Reads messages, answers those that are questions together, and the others with what is wrong. The reading of the
/// table ends early when all who asked have gone, or their time is over.
fn answer_all<Q>(
    taken: Vec<Message>,
    read: impl Fn(&[u8]) -> Result<Q, AnswerError>,
    answer: impl Fn(&[Q], &dyn Fn() -> bool) -> Option<Vec<Vec<u8>>>,
) {
    let (mut questions, mut backs) = (Vec::new(), Vec::new());
    for (body, back) in taken {
        match read(&body) {
            Ok(question) => {
                questions.push(question);
                backs.push(back);
            }
            // Nobody may be there any more.
            Err(error) => drop(back.send(Err(error.into()))),
        }
    }
    if questions.is_empty() {
        return;
    }
    let answers = answer(&questions, &|| backs.iter().any(|back| !back.is_closed()));
    for (answer, back) in answers.unwrap_or_default().into_iter().zip(backs) {
        let _ = back.send(Ok(answer));
    }
}

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Version { got, expected } => Self::WrongVersion { got, expected },
            AnswerError::Message(_) => Self::InvalidCiphertext(error.to_string()),
        }
    }
}

/// Returns the tables, if they are of the passages that are searched: what was deleted since must not be found.
fn tables_of(ready: &Ready) -> Result<Arc<ServedTables>, ApiError> {
    let served = ready.serving.encrypted.as_ref().ok_or(ApiError::NoEncryptedSearch)?;
    let Description { version, changes, .. } = ready.serving.search.describe();
    match version == served.tables.checked().manifest.index_version && changes == 0 {
        true => Ok(Arc::clone(served)),
        false => Err(ApiError::OutdatedTables),
    }
}

/// The path of the description, where its routes are mounted.
const PATH: &str = "/v1/encrypted";

/// The private tables: parameter sets, sizes, and the files that everybody downloads.
#[utoipa::path(get, path = "/v1/encrypted", tag = "search", security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The manifest of the private tables; its SHA-256 is their version. A file `NAME` of \
     its `files` is at /v1/encrypted/files/SHA256/NAME", body = Object),
    (status = 304, description = "Unchanged since the `if-none-match` sent"),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 404, description = "`no_encrypted_search`", body = ErrorBody),
    (status = 503, description = "`not_ready`, `outdated_tables`", body = ErrorBody),
))]
pub(super) async fn manifest(
    State(state): State<AppState>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let served = tables_of(state.ready()?.as_ref())?;
    let headers = [
        (header::ETAG, served.tag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ];
    if request.get(header::IF_NONE_MATCH) == Some(&served.tag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, Bytes::copy_from_slice(served.tables.json())).into_response())
}

/// One file of the private tables, by its content.
#[utoipa::path(get, path = "/v1/encrypted/files/{sha256}/{name}", tag = "search",
    security((), ("bearer" = []), ("api_key" = [])),
    params(
        ("sha256" = String, Path, description = "As GET /v1/encrypted tells it"),
        ("name" = String, Path, description = "As GET /v1/encrypted tells it"),
    ),
    responses(
        (status = 200, description = "The file", body = String, content_type = "application/octet-stream"),
        (status = 206, description = "The range asked for", body = String,
         content_type = "application/octet-stream"),
        (status = 304, description = "Unchanged, as always"),
        (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
        (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
        (status = 404, description = "`not_found`, `no_encrypted_search`", body = ErrorBody),
        (status = 416, description = "A range beyond the end"),
        (status = 503, description = "`not_ready`, `outdated_tables`", body = ErrorBody),
    ))]
pub(super) async fn file(
    State(state): State<AppState>,
    Path((sha256, name)): Path<(String, String)>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let served = tables_of(state.ready()?.as_ref())?;
    let file = served.files.iter().find(|file| file.name == name && file.sha256 == sha256);
    respond_by_content(file, PATH, [&sha256, &name], &request).await
}

/// Scores of all passages for an encrypted question.
#[utoipa::path(post, path = "/v1/encrypted/rank", tag = "search",
    request_body(content = String, content_type = "application/octet-stream",
     description = "A head of 40 bytes, then packed numbers: docs/formats.md"),
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The same head, then a byte for each passage", body = String,
     content_type = "application/octet-stream"),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 404, description = "`no_encrypted_search`", body = ErrorBody),
    (status = 409, description = "`wrong_version`: for other tables than those that are served", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 422, description = "`invalid_ciphertext`: another head, length or media type; `too_costly`", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`, `outdated_tables`", body = ErrorBody),
))]
pub(super) async fn rank(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    answer(&state, request, Kind::Rank).await
}

/// Columns of compressed passages for encrypted column numbers.
#[utoipa::path(post, path = "/v1/encrypted/fetch", tag = "search",
    request_body(content = String, content_type = "application/octet-stream",
     description = "A head of 40 bytes, then packed numbers: docs/formats.md"),
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The same head, then 16 bits for each byte of each column", body = String,
     content_type = "application/octet-stream"),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 404, description = "`no_encrypted_search`", body = ErrorBody),
    (status = 409, description = "`wrong_version`: for other tables than those that are served", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 422, description = "`invalid_ciphertext`: another head, length or media type; `too_costly`", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`, `outdated_tables`", body = ErrorBody),
))]
pub(super) async fn fetch(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    answer(&state, request, Kind::Fetch).await
}

async fn answer(state: &AppState, request: Request, kind: Kind) -> Result<Response, ApiError> {
    let served = tables_of(state.ready()?.as_ref())?;
    let body = binary_body(state, request, served.longest(kind)).await?;
    let place = served.gate.enter().inspect_err(|_| state.metrics().rejected())?;
    let (back, mut answered) = oneshot::channel();
    let cost = served.cost(kind);
    served.waiting(kind).lock().unwrap_or_else(PoisonError::into_inner).push((body, back));
    let rows = served.tables.checked().manifest.passages;
    let reading = Arc::clone(&served);
    let prepare = move || {
        let run = move |_: &CancelToken| reading.answer_waiting(kind);
        Ok(Prepared { vectors: 1, rows, cost, run: Box::new(run) })
    };
    let thread = served.gate.search(place, prepare);
    let answer = tokio::select! {
        // Somebody else's thread may have taken this message along.
        answer = &mut answered => answer,
        ran = thread => {
            ran?;
            answered.await
        }
    };
    let answer = answer.map_err(|_| ApiError::Internal("the search failed"))??;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, hold_answer(state, answer)?).into_response())
}
