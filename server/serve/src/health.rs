//! `/healthz` and `/readyz`, for whoever starts and restarts the process.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use super::state::AppState;

/// A server that is alive, or ready.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthBody {
    /// `ok`
    pub status: &'static str,
}

/// The process is alive. Always 200, also while the index is being read.
#[utoipa::path(get, path = "/healthz", tag = "operation",
    responses((status = 200, description = "Alive", body = HealthBody)))]
pub(super) async fn healthz() -> Json<HealthBody> {
    Json(HealthBody { status: "ok" })
}

/// Searches are answered: the model and the index have been read and checked.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses(
    (status = 200, description = "Ready", body = HealthBody),
    (status = 503, description = "Still reading the index", body = ErrorBody),
))]
pub(super) async fn readyz(State(state): State<AppState>) -> Result<Json<HealthBody>, ApiError> {
    state.ready()?;
    Ok(Json(HealthBody { status: "ok" }))
}
