//! `/v1/private`: what private modes of search this server offers, the projection, and the candidates for blurred
//! questions.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dpr_core::Embedding;
use dpr_core::model::sha256_hex;
use dpr_data::Metadata;
use dpr_index::CancelToken;
use dpr_index::private::{Candidate, Level, LevelEntry, candidates};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Answered, PreparedSearch, respond, timed};
use super::body::parse_json;
use super::body_kind::BodyKind;
use super::document::respond_tagged;
use super::encrypted::tables_of;
use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::file::{ServedFile, respond_by_content};
use super::metadata::WireValue;
use super::model::FileContent;
use super::served_blur::ServedBlur;
use super::served_model::FileBody;
use super::state::AppState;
use super::vector;
use super::vector_role::VectorRole;

/// The path of the description, where its routes are mounted.
const PATH: &str = "/v1/private";

/// The modes of search that a server offers, and what a client needs for blurred search.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PrivateBody {
    /// All modes: `plain`, where vectors are taken, `blurred` and `encrypted`.
    #[schema(value_type = Vec<String>)]
    pub modes: Vec<&'static str>,
    /// Blurred search. Absent where it is not offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub blurred: Option<BlurredBody>,
}

/// Blurred search: questions are projected on few directions, blurred, and sent as these coordinates.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BlurredBody {
    /// Fingerprint of the model whose vectors are projected.
    pub model: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// Directions of the projection; a candidate's code has as many bytes and 4 more.
    pub rank: usize,
    /// The projection: 16 bytes of head, the mean `[dim]` as f32, the directions `[rank, dim]` as f16.
    pub projection: FileBody,
    /// The levels by their names: `light`, `medium`, `strong`; those for which this index has enough candidates.
    pub levels: BTreeMap<String, LevelBody>,
}

/// A level of blurred search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct LevelBody {
    /// Coordinates that are sent.
    pub dims: usize,
    /// Length of the noise beside a question of length 1.
    pub noise: f32,
    /// Candidates that a search returns.
    pub candidates: usize,
    /// Mean share of exact search's 20 best among them, when the level was calibrated.
    pub recall: f64,
}

/// A search for the candidates of a blurred question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidatesRequest {
    /// Base64 of the level's `dims` coordinates as little-endian f16 (or f32).
    y: String,
    /// `light`, `medium` or `strong`.
    level: String,
    /// SHA-256 of the projection that the coordinates were made with.
    projection: String,
    /// Fingerprint of the model that made the vector.
    model: String,
}

/// A passage that may be among the best.
#[derive(Debug, Serialize, ToSchema)]
pub struct CandidateBody {
    /// The passage's id in the corpus.
    pub id: String,
    /// The passage's title.
    pub title: String,
    /// The passage's text.
    pub text: String,
    /// The passage's metadata, where it has any.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = BTreeMap<String, WireValue>, required = false)]
    pub metadata: Metadata,
    /// Base64 of the passage's vector in the projection's frame: a scale as f32 and `rank` signed bytes.
    pub code: String,
}

/// The candidates, best first by what was sent. The client ranks them by the question's own vector.
#[derive(Debug, Serialize, ToSchema)]
pub struct CandidatesResponse {
    /// As many as the level says, fewer when the index holds fewer.
    pub candidates: Vec<CandidateBody>,
    /// Milliseconds the search took on the server.
    pub took_ms: f64,
}

impl ServedBlur {
    fn body(&self, mounted_at: &str, max_k: usize) -> BlurredBody {
        let manifest = self.dir.manifest();
        let ServedFile { name, sha256, .. } = &self.file;
        let level = |(level, LevelEntry { blur, candidates, recall }): (Level, LevelEntry)| {
            (level.name().to_owned(), LevelBody { dims: blur.dims, noise: blur.noise, candidates, recall })
        };
        let url = format!("{mounted_at}{PATH}/files/{sha256}/{name}");
        BlurredBody {
            model: manifest.model_fingerprint.clone(),
            dim: manifest.dim,
            rank: manifest.rank,
            projection: FileBody { url, bytes: self.file.bytes(), sha256: sha256.clone(), chunks: None },
            levels: self.levels(max_k).map(level).collect(),
        }
    }
}

/// The modes of search that this server offers, where a private one is among them.
#[utoipa::path(get, path = "/v1/private", tag = "search", security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The modes, and what a client needs for them", body = PrivateBody),
    (status = 304, description = "Unchanged since the `if-none-match` sent"),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 404, description = "`no_private_search`: this server offers plain search alone", body = ErrorBody),
    (status = 503, description = "Still being read", body = ErrorBody),
))]
pub(super) async fn private(
    State(state): State<AppState>,
    OriginalUri(address): OriginalUri,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let mounted_at = address.path().strip_suffix(PATH).unwrap_or_default();
    let blurred = ready.serving.blur.as_ref().map(|blur| blur.body(mounted_at, state.limits().max_k));
    let offered = [
        ("plain", state.takes_plain_questions().is_ok()),
        ("blurred", blurred.is_some()),
        // While its tables are outdated, questions to them are refused.
        ("encrypted", tables_of(&ready).is_ok()),
    ];
    if blurred.is_none() && ready.serving.encrypted.is_none() {
        return Err(ApiError::NoPrivateSearch);
    }
    let modes = offered.into_iter().filter(|(_, is)| *is).map(|(mode, _)| mode).collect();
    let body = PrivateBody { modes, blurred };
    let digest = sha256_hex(&serde_json::to_vec(&body).unwrap_or_default());
    // Weak, as the document is compressed on the way.
    let tag = HeaderValue::from_str(&format!("W/\"{digest}\"")).unwrap_or(HeaderValue::from_static("W/\"\""));
    Ok(respond_tagged(&request, &tag, || Json(body)))
}

/// The projection, by its content.
#[utoipa::path(get, path = "/v1/private/files/{sha256}/{name}", tag = "search",
    security((), ("bearer" = []), ("api_key" = [])),
    params(
        ("sha256" = String, Path, description = "As GET /v1/private tells it"),
        ("name" = String, Path, description = "As GET /v1/private tells it"),
    ),
    responses(
        (status = 200, description = "The file", body = FileContent, content_type = "application/octet-stream"),
        (status = 206, description = "The range asked for", body = FileContent,
         content_type = "application/octet-stream"),
        (status = 304, description = "Unchanged, as always"),
        (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
        (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
        (status = 404, description = "`not_found`, `no_private_search`: not a file of a mode", body = ErrorBody),
        (status = 416, description = "A range beyond the end"),
        (status = 503, description = "Still being read", body = ErrorBody),
    ))]
pub(super) async fn projection(
    State(state): State<AppState>,
    Path((sha256, name)): Path<(String, String)>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let blur = ready.serving.blur.as_ref().ok_or(ApiError::NoPrivateSearch)?;
    let file = Some(&blur.file).filter(|file| file.sha256 == sha256 && file.name == name);
    respond_by_content(file, PATH, [&sha256, &name], &request, state.access()).await
}

/// Finds candidates for a blurred question. The server sees coordinates with noise, and never which candidates are read.
#[utoipa::path(post, path = "/v1/private/candidates", tag = "search", request_body = CandidatesRequest,
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "Candidates, best first by what was sent", body = CandidatesResponse),
    (status = 400, description = "`empty_body`, `invalid_json`, `unexpected_query`", body = ErrorBody),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 404, description = "`no_private_search`: this server offers none", body = ErrorBody),
    (status = 409, description = "`wrong_model`, `wrong_projection`", body = ErrorBody),
    (status = 413, description = "`body_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 421, description = "`unknown_host`", body = ErrorBody),
    (status = 422, description = "`invalid_vector`, `invalid_level`, `answer_too_large`, `too_costly`", body = ErrorBody),
    (status = 429, description = "`overloaded`, `rate_limited`; see the header retry-after", body = ErrorBody),
    (status = 503, description = "`not_ready`, `timeout`", body = ErrorBody),
))]
pub(super) async fn candidates_of(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let blur = ready.serving.blur.as_ref().map(Arc::clone).ok_or(ApiError::NoPrivateSearch)?;
    let max_k = state.limits().max_k;
    let read = move |body: &[u8]| -> Result<PreparedSearch<CandidatesResponse>, ApiError> {
        let request: CandidatesRequest = parse_json(body, BodyKind::Blurred)?;
        let (sent, count) = request.checked(&blur, &ready.fingerprint, max_k)?;
        let cost = ready.serving.search.cost(1, count, None);
        let rows = ready.rows();
        let search = move |cancel: &CancelToken| -> Result<Answered<CandidatesResponse>, ApiError> {
            let backend = ready.serving.search.as_ref();
            let search = || candidates(backend, blur.dir.projection(), sent.as_slice(), count, cancel);
            let (found, took, took_ms) = timed(BodyKind::Blurred, count, search).map_err(of_blurred)?;
            let candidates = found.into_iter().map(CandidateBody::from).collect();
            Ok(Answered { answer: CandidatesResponse { candidates, took_ms }, took, k: count })
        };
        Ok(PreparedSearch { vectors: 1, rows, cost, search: Box::new(search) })
    };
    respond(&state, request, BodyKind::Blurred, read).await
}

/// Returns an error of the search as one of the coordinates that were sent, where a vector is at fault.
fn of_blurred(error: ApiError) -> ApiError {
    match error {
        ApiError::InvalidVector(_, text) => ApiError::InvalidVector(VectorRole::Blurred, text),
        error => error,
    }
}

impl CandidatesRequest {
    /// Returns the coordinates and the number of candidates, once everything was checked.
    fn checked(
        self,
        blur: &ServedBlur,
        fingerprint: &str,
        max_k: usize,
    ) -> Result<(Embedding, usize), ApiError> {
        let Self { y, level, projection, model } = self;
        if !model.eq_ignore_ascii_case(fingerprint) {
            return Err(ApiError::WrongModel { got: model, expected: fingerprint.to_owned() });
        }
        if !projection.eq_ignore_ascii_case(&blur.file.sha256) {
            let got = projection.chars().take(64).collect();
            return Err(ApiError::WrongProjection { got, expected: blur.file.sha256.clone() });
        }
        let Some((_, entry)) = blur.level(&level, max_k) else {
            let offered: Vec<&str> = blur.levels(max_k).map(|(level, _)| level.name()).collect();
            let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
            return Err(ApiError::InvalidLevel { got: level.chars().take(40).collect(), offered });
        };
        let sent = Embedding::from_base64(&y, entry.blur.dims)
            .map_err(|error| vector::invalid(VectorRole::Blurred, "y", &error))?;
        Ok((sent, entry.candidates))
    }
}

impl From<Candidate> for CandidateBody {
    fn from(Candidate { hit, code }: Candidate) -> Self {
        let code = STANDARD.encode(code);
        Self { id: hit.id, title: hit.title, text: hit.text, metadata: hit.metadata, code }
    }
}
