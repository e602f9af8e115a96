//! Reads the body of a search: media type, size, then JSON, each refused with its own error.

use std::pin::Pin;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};

use super::error::ApiError;
use super::request::SearchRequest;
use super::state::AppState;

/// How much of a body over the limit is read and thrown away. A client that is still sending would otherwise
/// see a broken connection in place of the answer.
const DRAINED: usize = 8 << 20;

impl FromRequest<AppState> for SearchRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        Self::parse(&json_body(request, state.limits().max_body).await?)
    }
}

/// The bytes of a body that says it is JSON.
///
/// # Errors
/// [`ApiError`]: a query string, a body that is empty, over `limit` or of another media type.
pub(super) async fn json_body(request: Request, limit: usize) -> Result<Vec<u8>, ApiError> {
    // A question in the address would end up in logs and histories on the way here.
    if request.uri().query().is_some_and(|query| !query.is_empty()) {
        return Err(ApiError::TextSearchDisabled);
    }
    let declared = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > limit.saturating_add(DRAINED)) {
        return Err(ApiError::BodyTooLarge { limit });
    }
    let media_type = check_media_type(request.headers());
    let body = read(request.into_body(), limit).await?;
    if body.is_empty() {
        return Err(ApiError::EmptyBody);
    }
    media_type?;
    Ok(body)
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Err(ApiError::UnsupportedMediaType("absent".into()));
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(ApiError::UnsupportedMediaType(essence)) }
}

/// Reads at most `limit` bytes.
async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let mut dropped = 0;
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| ApiError::InvalidJson("the connection broke in the middle".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if dropped == 0 && bytes.len() + data.len() <= limit {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
            dropped += data.len();
            if dropped > DRAINED {
                break;
            }
        }
    }
    if dropped > 0 { Err(ApiError::BodyTooLarge { limit }) } else { Ok(bytes) }
}
