//! `POST` and `DELETE /v1/passages`: the index changed while it is searched. Refused unless the operator lets it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::{Request, State};
use dpr_core::Embedding;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tracing::Span;
use utoipa::ToSchema;

use super::audit::{Author, Change};
use super::body::{json_body, parse_json};
use super::body_kind::BodyKind;
use super::bounded::Bounded;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::metadata::WireValue;
use super::nested;
use super::refusals::Refused;
use super::room::{BodyShare, HeldBody};
use super::served_model::ServedModel;
use super::state::{AppState, Ready};
use super::trace::Trace;
use super::updates::Updates;
use super::vector::{VectorInput, WireVector};
use super::vector_role::VectorRole;
use crate::scope::Scope;
use dpr_data::Passage;
use dpr_index::limits::{self, TooLong};
use dpr_index::{ChangeError, NewPassage, Put};

/// A passage to add.
//
// Its fields are read one by one, so that errors can name them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object with `id` and `text`")]
pub struct NewPassageBody<'a> {
    /// Its id; a passage that has it is replaced.
    #[schema(value_type = String)]
    #[serde(borrow)]
    id: &'a RawValue,
    /// Its title.
    #[schema(value_type = String, required = false)]
    #[serde(borrow, default, deserialize_with = "present")]
    title: Option<&'a RawValue>,
    /// Its text.
    #[schema(value_type = String)]
    #[serde(borrow)]
    text: &'a RawValue,
    /// What searches are filtered by: at most 64 fields, with names of at most 64 bytes, of 64 KiB together.
    #[schema(value_type = std::collections::BTreeMap<String, WireValue>, required = false)]
    #[serde(borrow, default, deserialize_with = "present")]
    metadata: Option<&'a RawValue>,
    /// Its vector, by the passage encoder of the index's model. Without one the server encodes it.
    #[schema(value_type = WireVector, required = false)]
    #[serde(borrow)]
    vector: Option<&'a RawValue>,
}

/// Reads a field that is there, be it null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Passages to add, all or none of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRequest<'a> {
    /// Fingerprint of the index's model, as GET /v1/model tells it.
    model: String,
    /// The passages, each id once.
    #[schema(value_type = Vec<NewPassageBody>)]
    #[serde(borrow)]
    passages: &'a RawValue,
}

/// Passages to delete, all or none of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest<'a> {
    /// Their ids, each once.
    #[schema(value_type = Vec<String>)]
    #[serde(borrow)]
    ids: &'a RawValue,
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
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Done, all of it", body = PutResponse),
    (status = 400, description = "`empty_body`, `invalid_json`, `unexpected_query`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without a key, where there are keys", body = ErrorBody),
    (status = 403, description = "`updates_disabled`: the server does not take updates; `missing_scope`: needs `write`",
     body = ErrorBody),
    (status = 409, description = "`wrong_model`", body = ErrorBody),
    (status = 413, description = "`body_too_large`, `update_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 421, description = "`unknown_host`", body = ErrorBody),
    (status = 422, description = "`invalid_vector`, `invalid_passage`; nothing was changed", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn put(
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<PutResponse>, ApiError> {
    let ready = state.ready()?;
    let (author, trace) = (Author::of(&request), Trace::of(&request));
    let (updates, body) = admit(&state, &ready, request, BodyKind::Put).await?;
    let (max, index) = (state.limits().max_passages, Arc::clone(&ready));
    let parsing = trace.clone();
    let read = move |body: HeldBody| {
        let _parse = parsing.parse(body.len()).entered();
        let passages = parse_json::<PutRequest<'_>>(&body, BodyKind::Put)?.passages(&index, max)?;
        // The room that the body had is that of its passages now.
        Ok((passages, BodyShare::from(body)))
    };
    let (passages, share) = run(&state, Stage::Update, move || read(body)).await?;
    let passages = with_vectors(&state, &updates, passages, &trace).await?;
    let written = state.clone();
    let put = move || {
        let (_share, count) = (share, passages.len());
        let Put { added, replaced } = trace.update(count).in_scope(|| updates.put(passages))?;
        // Here, since a change that has begun is done even if its client has gone.
        written.metrics().updated(count);
        author.log(&ready, Change::Put { added, replaced });
        Ok(PutResponse { added, replaced })
    };
    run(&state, Stage::Update, put).await.map(Json)
}

/// Returns these passages with a vector each. Those without one are encoded in a queue of their own, so that other
/// updates pass them by, and given up when the client is gone: the future of its request is dropped then.
async fn with_vectors(
    state: &AppState,
    updates: &Updates,
    passages: Vec<(Passage, Option<Embedding>)>,
    trace: &Trace,
) -> Result<Vec<NewPassage>, ApiError> {
    let (updates, stop) = (updates.clone(), Arc::new(AtomicBool::new(false)));
    if passages.iter().all(|(_, vector)| vector.is_some()) {
        return updates.encode(passages, &stop);
    }
    let _is_wanted = StopOnDrop(Arc::clone(&stop));
    let (trace, count) = (trace.clone(), passages.len());
    let encode = move || trace.encode(count).in_scope(|| updates.encode(passages, &stop));
    run(state, Stage::Encoding, encode).await
}

/// Sets a flag when it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PutRequest<'_> {
    /// Returns the passages, at most `max`, with their vectors checked.
    fn passages(self, ready: &Ready, max: usize) -> Result<Vec<(Passage, Option<Embedding>)>, ApiError> {
        let passages = elements::<NewPassageBody<'_>>(self.passages, BodyKind::Put, "passages", max)?;
        if !self.model.eq_ignore_ascii_case(&ready.fingerprint) {
            return Err(ApiError::WrongUpdateModel { got: self.model, expected: ready.fingerprint.clone() });
        }
        let max_length = ready.serving.model.as_ref().and_then(ServedModel::max_length);
        let passages = passages.into_iter().enumerate();
        let passages = passages.map(|(position, new)| new.passage(position, ready.dim, max_length));
        let passages = passages.collect::<Result<Vec<_>, _>>()?;
        if ready.serving.encrypted.is_some() {
            for (position, (passage, _)) in passages.iter().enumerate() {
                dpr_private::check_passage(passage)
                    .map_err(|error| ApiError::PassageNotPacked { position, reason: error.to_string() })?;
            }
        }
        Ok(passages)
    }
}

impl NewPassageBody<'_> {
    /// Returns the passage at `position` of the body, with its vector `[dim]` if it has one, of `max_length` at most.
    fn passage(
        self,
        position: usize,
        dim: usize,
        max_length: Option<f32>,
    ) -> Result<(Passage, Option<Embedding>), ApiError> {
        let id: String = field(self.id, position, "id")?;
        let title: Option<String> = self.title.map(|json| field(json, position, "title")).transpose()?;
        let text: String = field(self.text, position, "text")?;
        let metadata = self.metadata.map(|json| field(json, position, "metadata")).transpose()?;
        let passage = Passage::new(id, title.unwrap_or_default(), text);
        let passage = passage.with_metadata(metadata.unwrap_or_default());
        // Here, as encoding would take its time to say so.
        ChangeError::check_fields(position, &passage)
            .map_err(|error| ApiError::InvalidPassage(error.to_string()))?;
        limits::check(&passage).map_err(|TooLong { what, bytes, max, .. }| {
            let field = match what {
                "an id" => "id",
                "a title" => "title",
                _ => "text",
            };
            ApiError::PassageTooLong { position, field, bytes, max }
        })?;
        let vector = self.vector.map(|json| vector(json, position, dim)).transpose()?;
        if let (Some(vector), Some(max)) = (&vector, max_length) {
            check_length(vector, position, max)?;
        }
        Ok((passage, vector))
    }
}

/// Refuses a vector that is longer than any of the model's: it would be found first by every question, and its score
/// would leave those of others no digits where scores are combined.
fn check_length(vector: &Embedding, position: usize, max: f32) -> Result<(), ApiError> {
    /// Tolerance of the length: the rounding of vectors that were stored in bf16.
    const ROUNDING: f32 = 0.01;
    let length = vector.as_slice().iter().map(|number| number * number).sum::<f32>().sqrt();
    if length <= max + ROUNDING {
        return Ok(());
    }
    let text = format!(
        "`passages[{position}].vector` has length {length}, vectors of this model have {max} at most"
    );
    Err(ApiError::InvalidVector(VectorRole::Passage, text))
}

/// Returns the field `name` of the passage at `position`.
fn field<'a, T: Deserialize<'a>>(json: &'a RawValue, position: usize, name: &str) -> Result<T, ApiError> {
    nested::value(json).map_err(|text| {
        ApiError::InvalidJson(BodyKind::Put, format!("`passages[{position}].{name}`: {text}"))
    })
}

/// Returns the vector `[dim]` of the passage at `position`.
fn vector(json: &RawValue, position: usize, dim: usize) -> Result<Embedding, ApiError> {
    let name = format!("passages[{position}].vector");
    match nested::value::<VectorInput>(json) {
        Ok(vector) => vector.embedding(&name, dim, VectorRole::Passage),
        // As in a search: serde_json has no other mark for a literal such as 1e999.
        Err(text) if text.starts_with("number out of range") => {
            let text = format!("`{name}` holds a number too large for a float: {text}");
            Err(ApiError::InvalidVector(VectorRole::Passage, text))
        }
        Err(text) => Err(ApiError::InvalidJson(BodyKind::Put, format!("`{name}`: {text}"))),
    }
}

/// Deletes passages. Only where the server was started with `--allow-updates`.
#[utoipa::path(delete, path = "/v1/passages", tag = "passages", request_body = DeleteRequest,
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Done, all of it", body = DeleteResponse),
    (status = 400, description = "`empty_body`, `invalid_json`, `unexpected_query`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without a key, where there are keys", body = ErrorBody),
    (status = 403, description = "`updates_disabled`: the server does not take updates; `missing_scope`: needs `write`",
     body = ErrorBody),
    (status = 404, description = "`unknown_passage`: some are not there; nothing was deleted", body = ErrorBody),
    (status = 413, description = "`body_too_large`, `update_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 421, description = "`unknown_host`", body = ErrorBody),
    (status = 422, description = "`invalid_passage`: no ids, or one twice", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn delete(
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<DeleteResponse>, ApiError> {
    let ready = state.ready()?;
    let (author, trace) = (Author::of(&request), Trace::of(&request));
    let (updates, body) = admit(&state, &ready, request, BodyKind::Delete).await?;
    let (max, written) = (state.limits().max_ids, state.clone());
    let delete = move || {
        let ids = parse_json::<DeleteRequest<'_>>(&body, BodyKind::Delete)?.ids(max)?;
        let deleted = trace.update(ids.len()).in_scope(|| updates.delete(ids))?;
        written.metrics().updated(deleted);
        author.log(&ready, Change::Deleted { deleted });
        Ok(DeleteResponse { deleted })
    };
    run(&state, Stage::Update, delete).await.map(Json)
}

impl DeleteRequest<'_> {
    /// Returns the ids, at least one and at most `max`, each once.
    fn ids(self, max: usize) -> Result<Vec<String>, ApiError> {
        let ids = elements::<String>(self.ids, BodyKind::Delete, "ids", max)?;
        if ids.is_empty() {
            return Err(ApiError::InvalidIds("`ids` is empty: there is nothing to delete".into()));
        }
        let mut places = HashMap::with_capacity(ids.len());
        for (second, id) in ids.iter().enumerate() {
            if let Some(first) = places.insert(id.as_str(), second) {
                let shown: String = id.chars().take(100).collect();
                let text = format!("the id `{shown}` is given twice, as ids[{first}] and ids[{second}]");
                return Err(ApiError::InvalidIds(text));
            }
        }
        Ok(ids)
    }
}

/// Admits a request and takes in its body; what is not let in is not looked at.
async fn admit(
    state: &AppState,
    ready: &Ready,
    request: Request,
    kind: BodyKind,
) -> Result<(Updates, HeldBody), ApiError> {
    let is_keyed = state.access().needs_key(Scope::Write);
    let updates = Updates::admit(ready.serving.updates.as_ref(), is_keyed, &request)?;
    // Only the body has a deadline: a change that has begun is done, and whoever asked for it is told.
    let timeout = state.limits().timeout;
    let body = tokio::time::timeout(timeout, json_body(state, request, kind)).await;
    let late = |_| ApiError::Timeout { kind, ms: timeout.as_millis() };
    Ok((updates, body.map_err(late)??))
}

/// Returns the elements of the array `json`, the field `name` of the body; more than `max` are counted and refused.
fn elements<'a, T: Deserialize<'a>>(
    json: &'a RawValue,
    kind: BodyKind,
    name: &'static str,
    max: usize,
) -> Result<Vec<T>, ApiError> {
    let read = nested::array(json, name, max).map_err(|text| ApiError::InvalidJson(kind, text));
    let Bounded { kept, count } = read?;
    if count > max {
        return Err(ApiError::UpdateTooLarge { what: name, got: count, max });
    }
    Ok(kept)
}

/// The threads on which a part of an update runs.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Those that read bodies and write changes.
    Update,
    /// The one that encodes passages.
    Encoding,
}

/// Runs a part of an update on a thread of its stage.
async fn run<T: Send + 'static>(
    state: &AppState,
    stage: Stage,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let (gate, limit) = match stage {
        Stage::Update => (state.update_gate(), Refused::Updates),
        Stage::Encoding => (state.encode_gate(), Refused::Encoding),
    };
    let place = gate.enter().inspect_err(|_| state.metrics().refusals().refused(limit))?;
    let span = Span::current();
    let (done, _) = gate.run(place, move || span.in_scope(work)).await?;
    done
}
