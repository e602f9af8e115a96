//! Requests that found no place beside the others of their connection, within the time that they wait for one.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::busy;
use super::state::AppState;

/// The mark of such a request, among its extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowded;

/// Answers such requests with 429, as those over connections above the limit are.
pub(super) async fn refuse(state: State<AppState>, request: Request, next: Next) -> Response {
    let is_crowded = request.extensions().get::<Crowded>().is_some();
    if is_crowded { busy(state).await.into_response() } else { next.run(request).await }
}
