//! `/healthz` and `/readyz`, for whoever starts and restarts the process.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::ApiError;
use super::error_answer::ErrorBody;
use super::state::AppState;
use dpr_index::Health;

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

/// Searches are answered from an index that is in order: the model and the index have been read and checked, updates
/// can be stored where they are taken, and the index is brought up to date.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses(
    (status = 200, description = "Ready", body = HealthBody),
    (status = 503, description = "`not_ready`: still reading the index; `unhealthy`: something is broken, and the message \
     says what", body = ErrorBody),
))]
pub(super) async fn readyz(State(state): State<AppState>) -> Result<Json<HealthBody>, ApiError> {
    let ready = state.ready()?;
    let health = ready.serving.search.health();
    let mut broken = reasons(&state, &health);
    if ready.updates_broken() {
        broken.push("the index has lost its lock, so updates are refused until a restart".to_owned());
    }
    if broken.is_empty() {
        return Ok(Json(HealthBody { status: "ok" }));
    }
    Err(ApiError::Unhealthy(broken.join("; ")))
}

/// Returns what is broken. Causes with their paths are in the log, not here: this route is open to everybody.
fn reasons(state: &AppState, health: &Health) -> Vec<String> {
    let mut reasons = Vec::new();
    if health.log_broken.is_some() {
        reasons.push(
            "the write-ahead log failed or an update panicked, so updates are refused until a restart or, where the \
             log failed, until a new version is built"
                .to_owned(),
        );
    }
    if health.damaged.is_some() {
        reasons.push("a file of the index is damaged: put a copy in its place and start again".to_owned());
    }
    if let (Some(stale), Some(most)) = (health.stale_for, state.options().max_stale)
        && stale > most
    {
        reasons.push(format!(
            "the index could not be brought up to date for {} s, at most {} are allowed",
            stale.as_secs(),
            most.as_secs()
        ));
    }
    if let Some(away) = health.away_for {
        reasons
            .push(format!("the service that holds the passages has not answered for {} s", away.as_secs()));
    }
    if !health.background_alive {
        reasons.push("the thread that keeps the index up to date has ended, or fails each time".to_owned());
    }
    reasons
}
