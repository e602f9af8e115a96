//! `/v1/encrypted`: rankings and texts for questions that the server does not see.
//!
//! A message and its answer have one length for one version of the tables. Questions that wait together are answered
//! in one reading of a table. Nothing of a message is logged, and answers are neither compressed nor cached.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use dpr_core::private::encrypted::wire::Kind;
use dpr_index::CancelToken;
use dpr_private::{DeltaError, Tables};

use super::answer::hold_answer;
use super::body::binary_body;
use super::document::respond_tagged;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::file::respond_by_content;
use super::gate::Prepared;
use super::served_tables::TablesOfVersion;
use super::state::{AppState, Ready};
use super::trace::Trace;

/// Returns the tables, if they are of the version that is searched and a delta can tell what has changed since, and the
/// number of those changes.
pub(super) fn tables_of(ready: &Ready) -> Result<(Arc<TablesOfVersion>, u64), ApiError> {
    let served = ready.serving.encrypted.as_ref().ok_or(ApiError::NoEncryptedSearch)?;
    let index = ready.serving.search.describe();
    let tables = served.of(&index).filter(|_| Tables::takes(index.added, index.removed));
    Ok((tables.ok_or(ApiError::OutdatedTables)?, index.changes))
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
    let (served, _) = tables_of(state.ready()?.as_ref())?;
    let json = || {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (kind, Bytes::copy_from_slice(served.tables.json()))
    };
    Ok(respond_tagged(&request, &served.tag, json))
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
    let (served, _) = tables_of(state.ready()?.as_ref())?;
    let file = served.files.iter().find(|file| file.name == name && file.sha256 == sha256);
    respond_by_content(file, PATH, [&sha256, &name], &request, state.access()).await
}

/// What has changed in the index since the tables were made of it.
#[utoipa::path(get, path = "/v1/encrypted/delta/{version}", tag = "search",
    security((), ("bearer" = []), ("api_key" = [])),
    params(("version" = String, Path, description = "The version of the tables: the SHA-256 of GET /v1/encrypted")),
    responses(
        (status = 200, description = "Passages that were removed and added: docs/formats.md has the layout",
         body = String, content_type = "application/octet-stream"),
        (status = 304, description = "Unchanged since the `if-none-match` sent"),
        (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
        (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
        (status = 404, description = "`no_encrypted_search`", body = ErrorBody),
        (status = 409, description = "`wrong_version`: other tables are served", body = ErrorBody),
        (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
        (status = 503, description = "`not_ready`, `outdated_tables`", body = ErrorBody),
    ))]
pub(super) async fn delta(
    State(state): State<AppState>,
    Path(version): Path<String>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let (served, _) = tables_of(ready.as_ref())?;
    let expected = served.tables.version();
    if version != expected {
        let got = version.chars().take(64).collect();
        return Err(ApiError::WrongVersion { got, expected });
    }
    let snapshot = ready.serving.search.snapshot().ok_or(ApiError::OutdatedTables)?;
    let tag = HeaderValue::from_str(&format!("\"{expected}-{}\"", snapshot.changes()));
    let tag = tag.map_err(|_| ApiError::Internal("the delta could not be named"))?;
    let place = served.gate.enter().inspect_err(|_| state.metrics().rejected())?;
    let gate = served.gate.clone();
    let (made, _) = gate.run(place, move || served.tables.delta(&snapshot)).await?;
    let delta = made.map_err(|error| match error {
        DeltaError::OtherVersion | DeltaError::TooLarge { .. } => ApiError::OutdatedTables,
        error => {
            tracing::error!("the delta of the private tables could not be made: {error}");
            ApiError::Internal("the delta could not be made")
        }
    })?;
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))];
    Ok(respond_tagged(&request, &tag, || (kind, Bytes::from_owner(delta))))
}

/// Scores of all passages for an encrypted question.
#[utoipa::path(post, path = "/v1/encrypted/rank", tag = "search",
    request_body(content = String, content_type = "application/octet-stream",
     description = "A head of 40 bytes, then packed numbers: docs/formats.md"),
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The same head, the number of changes since the tables were made (u64), then a byte for \
     each passage", body = String,
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
    let (served, changes) = tables_of(state.ready()?.as_ref())?;
    let trace = Trace::of(&request);
    let body = binary_body(state, request, served.longest(kind)).await?;
    let place = served.gate.enter().inspect_err(|_| state.metrics().rejected())?;
    let cost = served.cost(kind);
    let mut asked = served.ask(kind, body, changes);
    let own = asked.number;
    let rows = served.tables.checked().manifest.passages;
    let reading = Arc::clone(&served);
    let queue = trace.queue();
    let prepare = move || {
        drop(queue);
        let run = move |_: &CancelToken| trace.search(1, rows).in_scope(|| reading.answer_waiting(kind, own));
        Ok(Prepared { vectors: 1, rows, cost, run: Box::new(run) })
    };
    let thread = served.gate.search(place, prepare);
    let answer = tokio::select! {
        // Somebody else's thread may have taken this message along.
        answer = &mut asked.answer => answer,
        ran = thread => {
            ran?;
            (&mut asked.answer).await
        }
    };
    let answer = answer.map_err(|_| ApiError::Internal("the search failed"))??;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, hold_answer(state, answer)?).into_response())
}
