//! Host checking: the names under which requests reach this server.
//!
//! A page of another site can let its own name lead to an address of this machine (DNS rebinding). A browser then
//! takes this server for a part of that site, and lets the page read every answer. The name still stands in the
//! request.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::host_names::Hosts;

/// Answers requests for other hosts with 421.
pub(super) async fn check(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    match hosts.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
