//! The two checks of every request: whether its sender may send another one, and whether its key opens the route.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::access::{API_KEY, Access, Caller, Key};
use crate::error::ApiError;
use crate::forwarded::client_address;
use crate::refusals::Refused;
use crate::scope::Scope;
use crate::state::AppState;

/// Finds out who sent a request, and refuses senders of too many.
pub(crate) async fn admit(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let address = client_address(peer, request.headers(), state.trusted_proxies());
    let sent = sent_key(request.headers());
    let key = sent.and_then(|sent| state.access().find(sent));
    // Where there are no keys, one that is sent opens nothing and is no guess.
    let caller = Caller { address, key, has_sent: sent.is_some() && state.access().has_keys() };
    if let Err(error) = state.rates().take(&caller) {
        let limit = if caller.key.is_some() { Refused::KeyRate } else { Refused::AddressRate };
        state.metrics().refusals().refused(limit);
        return error.into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Lets a request pass whose key has the scope of its route, where one is needed.
pub(crate) async fn require(
    State((state, scope)): State<(AppState, Scope)>,
    request: Request,
    next: Next,
) -> Response {
    match state.access().check(request.extensions().get(), scope) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Lets a request pass whose key the server knows, whatever its scope, or any request where no keys are listed.
pub(crate) async fn require_any(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match state.access().check_any(request.extensions().get()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

impl Access {
    /// Refuses a caller without a known key where keys are listed; the scope of the key does not matter.
    fn check_any(&self, caller: Option<&Caller>) -> Result<(), ApiError> {
        // Listed keys are what `Scope::Admin` needs.
        if self.needs_key(Scope::Admin) { known(caller).map(drop) } else { Ok(()) }
    }

    fn check(&self, caller: Option<&Caller>, scope: Scope) -> Result<(), ApiError> {
        if !self.needs_key(scope) {
            return Ok(());
        }
        if known(caller)?.has(scope) { Ok(()) } else { Err(ApiError::MissingScope(scope)) }
    }
}

/// Returns the caller's key, if the server knows it.
fn known(caller: Option<&Caller>) -> Result<&Key, ApiError> {
    caller
        .and_then(|caller| caller.key.as_deref())
        .ok_or_else(|| ApiError::Unauthorized { has_sent: caller.is_some_and(|caller| caller.has_sent) })
}

/// Returns the key of a request: its bearer token, or else its `x-api-key`.
fn sent_key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &HeaderName| headers.get(name).map(HeaderValue::to_str)?.ok();
    let bearer = text(&header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token)
    });
    bearer.or_else(|| text(&API_KEY)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_either_header() {
        let sent = |headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            sent_key(&headers.collect()).map(str::to_owned)
        };
        let (bearer, key) = (header::AUTHORIZATION, API_KEY);
        assert_eq!(sent(&[(bearer.clone(), "bearer  a ")]).as_deref(), Some("a"));
        assert_eq!(sent(&[(key.clone(), "b")]).as_deref(), Some("b"));
        assert_eq!(sent(&[(bearer.clone(), "Basic a"), (key.clone(), "b")]).as_deref(), Some("b"));
        assert_eq!(sent(&[(bearer.clone(), "Bearer a"), (key, "b")]).as_deref(), Some("a"));
        assert_eq!(sent(&[(bearer, "a")]), None);
    }
}
