//! `GET /v1/index`: what is searched.

use axum::Json;
use axum::extract::State;
use dpr_index::search::Description;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::state::AppState;

/// The index that answers searches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct IndexBody {
    /// Passages that are found: those built in and added, without those deleted.
    pub count: usize,
    /// Numbers in a vector.
    pub dim: usize,
    /// `exact`, `hnsw`, `postgres` or `milvus`.
    pub kind: String,
    /// Fingerprint of the model that made the vectors; a search must name the same.
    pub model: String,
    /// How vectors are compared.
    #[schema(example = "inner_product")]
    pub metric: String,
    /// Changes when another index is published in the same place.
    pub version: String,
    /// The number of that version, from 1.
    pub number: u64,
    /// Passages added or replaced since that version was built.
    pub added: usize,
    /// Passages of that version that were replaced or deleted since.
    pub removed: usize,
    /// Passages added, replaced or deleted since that version was built, one by one.
    pub changes: u64,
    /// `true` if `POST /v1/search` answers vectors. A server that answers private questions alone refuses them, and
    /// `GET /v1/private` lists its modes.
    pub plain: bool,
}

impl IndexBody {
    fn new(index: Description, plain: bool) -> Self {
        let Description { count, dim, kind, model, metric, version, number, added, removed, changes } = index;
        Self { count, dim, kind, model, metric, version, number, added, removed, changes, plain }
    }
}

/// The index in use.
#[utoipa::path(get, path = "/v1/index", tag = "search", security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The index", body = IndexBody),
    (status = 401, description = "`unauthorized`: without a key, where one is needed", body = ErrorBody),
    (status = 403, description = "`missing_scope`: needs `search`", body = ErrorBody),
    (status = 503, description = "Still being read", body = ErrorBody),
))]
pub(super) async fn index(State(state): State<AppState>) -> Result<Json<IndexBody>, ApiError> {
    let index = state.ready()?.serving.search.describe();
    Ok(Json(IndexBody::new(index, state.takes_plain_questions().is_ok())))
}
