//! `POST` and `DELETE /v1/passages`: the index changed while it is searched. Refused unless the operator lets it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use dpr_core::Embedding;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

use super::body::json_body;
use super::body_room::HeldBody;
use super::error::{ApiError, ErrorBody};
use super::state::{AppState, Ready};
use super::updates::Updates;
use super::vector::{VectorInput, WireVector};
use dpr_data::Passage;
use dpr_encode::PassageUpdater;
use dpr_index::Put;

/// A passage to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassageBody {
    /// Its id; a passage that has it is replaced.
    id: String,
    /// Its title.
    #[serde(default)]
    title: String,
    /// Its text.
    text: String,
    /// Its vector, by the passage encoder of the index's model. Without one the server encodes it.
    #[schema(value_type = WireVector, required = false)]
    vector: Option<VectorInput>,
}

/// Passages to add, all or none of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// Fingerprint of the index's model, as GET /v1/model tells it.
    model: String,
    /// The passages, each id once.
    passages: Vec<NewPassageBody>,
}

/// Passages to delete, all or none of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Their ids, each once.
    ids: Vec<String>,
}

/// What was added. It is on the disk, and searches that begin now find it.
#[derive(Debug, Serialize, ToSchema)]
pub struct PutResponse {
    /// Passages whose ids were new.
    added: usize,
    /// Passages that took the place of others.
    replaced: usize,
}

/// What was deleted. That is on the disk, and searches that begin now do not find it.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeleteResponse {
    /// Passages deleted.
    deleted: usize,
}

/// Adds passages, or puts them in the place of those that have their ids. Only where the server was started with
/// `--allow-updates`.
#[utoipa::path(post, path = "/v1/passages", tag = "passages", request_body = PutRequest,
    security((), ("token" = [])), responses(
    (status = 200, description = "Done, all of it", body = PutResponse),
    (status = 400, description = "`empty_body`, `invalid_json`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without the operator's token", body = ErrorBody),
    (status = 403, description = "`updates_disabled`: the server does not take updates", body = ErrorBody),
    (status = 409, description = "`wrong_model`", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 422, description = "`invalid_vector`, `invalid_passage`; nothing was changed", body = ErrorBody),
    (status = 429, description = "`overloaded`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn put(
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<PutResponse>, ApiError> {
    let ready = state.ready()?;
    let (service, body) = admit(&state, &ready, request).await?;
    let put = move |body: &[u8]| {
        let passages = parse::<PutRequest>(body)?.passages(&ready)?;
        let count = passages.len();
        Ok((service.put(passages)?, count))
    };
    let (Put { added, replaced }, count) = run(&state, body, put).await?;
    state.metrics().updated(count);
    Ok(Json(PutResponse { added, replaced }))
}

impl PutRequest {
    /// The passages, with their vectors checked.
    fn passages(self, ready: &Ready) -> Result<Vec<(Passage, Option<Embedding>)>, ApiError> {
        if !self.model.eq_ignore_ascii_case(&ready.fingerprint) {
            return Err(ApiError::WrongModel { got: self.model, expected: ready.fingerprint.clone() });
        }
        let passages = self.passages.into_iter().enumerate().map(|(at, new)| {
            let name = format!("passages[{at}].vector");
            let vector = new.vector.map(|vector| vector.embedding(&name, ready.dim)).transpose()?;
            Ok((Passage { id: new.id, title: new.title, text: new.text }, vector))
        });
        passages.collect()
    }
}

/// Deletes passages. Only where the server was started with `--allow-updates`.
#[utoipa::path(delete, path = "/v1/passages", tag = "passages", request_body = DeleteRequest,
    security((), ("token" = [])), responses(
    (status = 200, description = "Done, all of it", body = DeleteResponse),
    (status = 400, description = "`empty_body`, `invalid_json`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without the operator's token", body = ErrorBody),
    (status = 403, description = "`updates_disabled`: the server does not take updates", body = ErrorBody),
    (status = 404, description = "`unknown_passage`: some are not there; nothing was deleted", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 422, description = "`invalid_passage`: no ids, or one twice", body = ErrorBody),
    (status = 429, description = "`overloaded`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn delete(
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<DeleteResponse>, ApiError> {
    let ready = state.ready()?;
    let (service, body) = admit(&state, &ready, request).await?;
    let delete = move |body: &[u8]| {
        let DeleteRequest { ids } = parse(body)?;
        Ok(service.delete(ids)?)
    };
    let deleted = run(&state, body, delete).await?;
    state.metrics().updated(deleted);
    Ok(Json(DeleteResponse { deleted }))
}

/// Admits a request and takes in its body; what is not let in is not looked at.
async fn admit(
    state: &AppState,
    ready: &Ready,
    request: Request,
) -> Result<(Arc<PassageUpdater>, HeldBody), ApiError> {
    let service = Updates::admit(ready.serving.updates.as_ref(), request.headers())?;
    // Only the body has a deadline: a change that has begun is done, and whoever asked for it is told.
    let timeout = state.limits().timeout;
    let body = tokio::time::timeout(timeout, json_body(state, request)).await;
    Ok((service, body.map_err(|_| ApiError::Timeout(timeout.as_millis()))??))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let text = error.to_string();
        // As in a search: serde_json has no other mark for a literal such as 1e999.
        if text.starts_with("number out of range") {
            ApiError::InvalidVector(format!("the body holds a number too large for a float: {text}"))
        } else {
            ApiError::InvalidUpdate(text)
        }
    })
}

/// Runs an update on the bytes of a body, on one of the threads for updates, where the body is read too.
async fn run<T: Send + 'static>(
    state: &AppState,
    body: HeldBody,
    update: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let place = state.update_gate().enter().inspect_err(|_| state.metrics().rejected())?;
    let (done, _) = state.update_gate().run(place, move || update(&body)).await?;
    done
}
