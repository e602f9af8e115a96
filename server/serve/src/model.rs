//! `GET /v1/model` and its files.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use utoipa::ToSchema;

use super::document::respond_tagged;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::file::respond_by_content;
use super::served_model::{ModelBody, SMALL_PATH, ServedModel};
use super::state::AppState;

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a response to OpenAPI")]
pub(super) struct FileContent(Vec<u8>);

/// The path of the description, where its routes are mounted.
const PATH: &str = "/v1/model";

/// The question encoder of the index's model.
#[utoipa::path(get, path = "/v1/model", tag = "model", security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The model and where its files are", body = ModelBody),
    (status = 304, description = "Unchanged since the `if-none-match` sent"),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 404, description = "`no_model`: vectors for this server are made elsewhere", body = ErrorBody),
    (status = 503, description = "Still being read", body = ErrorBody),
))]
pub(super) async fn model(
    State(state): State<AppState>,
    OriginalUri(address): OriginalUri,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    respond(&state, PATH, &address, &request, |model| Ok(model))
}

/// Answers with the description at `path` of the model that `choose` takes.
fn respond(
    state: &AppState,
    path: &str,
    address: &Uri,
    request: &HeaderMap,
    choose: fn(&ServedModel) -> Result<&ServedModel, ApiError>,
) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let model = choose(ready.serving.model.as_ref().ok_or(ApiError::NoModel)?)?;
    // An application that nests these routes has them under a path of its own.
    let mounted_at = address.path().strip_suffix(path).unwrap_or_default();
    Ok(respond_tagged(request, model.tag(), || Json(model.body(mounted_at))))
}

/// The smaller question encoder, which makes vectors for the same index.
#[utoipa::path(get, path = "/v1/model/small", tag = "model", security((), ("bearer" = []), ("api_key" = [])),
    responses(
        (status = 200, description = "The encoder and where its files are", body = ModelBody),
        (status = 304, description = "Unchanged since the `if-none-match` sent"),
        (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
        (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
        (status = 404, description = "`no_small_model`, `no_model`: this server has none", body = ErrorBody),
        (status = 503, description = "Still being read", body = ErrorBody),
    ))]
pub(super) async fn small(
    State(state): State<AppState>,
    OriginalUri(address): OriginalUri,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    respond(&state, SMALL_PATH, &address, &request, |model| model.small().ok_or(ApiError::NoSmallModel))
}

/// One file of the question encoders, by its content.
#[utoipa::path(get, path = "/v1/model/files/{sha256}/{name}", tag = "model",
    security((), ("bearer" = []), ("api_key" = [])),
    params(
        ("sha256" = String, Path, description = "As GET /v1/model tells it"),
        ("name" = String, Path, description = "As GET /v1/model tells it"),
    ),
    responses(
        (status = 200, description = "The file", body = FileContent, content_type = "application/octet-stream"),
        (status = 206, description = "The range asked for", body = FileContent,
         content_type = "application/octet-stream"),
        (status = 304, description = "Unchanged, as always"),
        (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
        (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
        (status = 404, description = "`not_found`, `no_model`: not a file of the model in use", body = ErrorBody),
        (status = 416, description = "A range beyond the end"),
        (status = 503, description = "Still being read", body = ErrorBody),
    ))]
pub(super) async fn file(
    State(state): State<AppState>,
    Path((sha256, name)): Path<(String, String)>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let model = ready.serving.model.as_ref().ok_or(ApiError::NoModel)?;
    respond_by_content(model.file(&sha256, &name), PATH, [&sha256, &name], &request, state.access()).await
}
