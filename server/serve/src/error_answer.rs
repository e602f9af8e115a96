//! The response that a refused request gets: status, headers and JSON body.

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::ApiError;
use super::error_code::ErrorCode;

/// The body of every response that is not a success.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// One error, for programs (`code`) and for people.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// Stable; programs decide by it.
    pub code: ErrorCode,
    /// What was wrong, with the value and the limit.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.code();
        let body = ErrorBody { error: ErrorDetail { code, message: self.to_string(), fix: self.fix() } };
        let mut response = (code.status(), Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.challenge() {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl ApiError {
    /// Returns the whole seconds after which the same request may succeed.
    fn retry_after(&self) -> Option<u64> {
        match (self, self.code()) {
            (Self::RateLimited { seconds }, _) => Some(*seconds),
            // Building a new version takes minutes, a search less than a second.
            (Self::IndexFull(_), _) => Some(60),
            (_, ErrorCode::Overloaded | ErrorCode::NotReady | ErrorCode::Timeout | ErrorCode::Unhealthy) => {
                Some(1)
            }
            _ => None,
        }
    }

    /// Returns what is said of the key that is needed (RFC 6750).
    fn challenge(&self) -> Option<HeaderValue> {
        match self {
            Self::Unauthorized { has_sent: false } => Some(HeaderValue::from_static("Bearer")),
            Self::Unauthorized { has_sent: true } => {
                Some(HeaderValue::from_static("Bearer error=\"invalid_token\""))
            }
            Self::MissingScope(scope) => {
                HeaderValue::from_str(&format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"")).ok()
            }
            _ => None,
        }
    }
}
