//! Reads the body of a request: media type, then size, each refused with its own error. What is in it is read by the
//! handler, on a thread of its own.

use std::pin::Pin;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use tracing::Instrument as _;

use super::body_kind::BodyKind;
use super::error::ApiError;
use super::refusals::Refused;
use super::room::{HeldBody, Room};
use super::state::AppState;
use super::trace::Trace;

/// The number of bytes of a body over the limit that are read and thrown away. A client that is still sending would
/// otherwise see a broken connection in place of the answer.
const DRAINED: usize = 8 << 20;

/// The bytes of a body of this kind that says it is JSON.
///
/// # Errors
/// [`ApiError`]: a query string, a body that is empty, over the limit or of another media type, no room for it.
pub(super) async fn json_body(
    state: &AppState,
    request: Request,
    kind: BodyKind,
) -> Result<HeldBody, ApiError> {
    let media_type = check_media_type(request.headers());
    let body = body_of(state, request, kind, state.limits().max_body).await?;
    if body.is_empty() {
        return Err(ApiError::EmptyBody(kind));
    }
    media_type?;
    Ok(body)
}

/// The bytes of a body of this kind and of at most `limit` bytes. One that finds no room is counted.
async fn body_of(
    state: &AppState,
    request: Request,
    kind: BodyKind,
    limit: usize,
) -> Result<HeldBody, ApiError> {
    // A question in the address would end up in logs and histories on the way here.
    if request.uri().query().is_some_and(|query| !query.is_empty()) {
        return Err(ApiError::UnexpectedQuery);
    }
    let declared = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > limit.saturating_add(DRAINED)) {
        return Err(ApiError::BodyTooLarge { kind, limit });
    }
    let span = Trace::of(&request).read_body();
    let body = read(request.into_body(), kind, limit, state.bodies()).instrument(span).await;
    body.inspect_err(|error| {
        if matches!(error, ApiError::BodiesFull { .. }) {
            state.metrics().refusals().refused(Refused::Bodies);
        }
    })
}

/// Returns what a JSON body of this kind says.
///
/// # Errors
/// [`ApiError::InvalidJson`]: it is not JSON, or of another form.
pub(super) fn parse_json<'a, T: Deserialize<'a>>(body: &'a [u8], kind: BodyKind) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::InvalidJson(kind, error.to_string()))
}

/// The bytes of an encrypted question: a body of at most `limit` bytes that says it is binary.
///
/// # Errors
/// As [`json_body`].
pub(super) async fn binary_body(
    state: &AppState,
    request: Request,
    limit: usize,
) -> Result<HeldBody, ApiError> {
    let kind = BodyKind::Encrypted;
    let media_type = essence(request.headers()).filter(|essence| essence == "application/octet-stream");
    let sent = essence(request.headers()).unwrap_or_else(|| "absent".into());
    let body = body_of(state, request, kind, limit).await?;
    match media_type {
        Some(_) if body.is_empty() => Err(ApiError::EmptyBody(kind)),
        Some(_) => Ok(body),
        None => Err(ApiError::InvalidCiphertext(format!(
            "the body's content type is {sent}, not application/octet-stream"
        ))),
    }
}

/// Returns the media type of a body without its parameters.
fn essence(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?;
    let text = String::from_utf8_lossy(value.as_bytes());
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(essence) = essence(headers) else {
        return Err(ApiError::UnsupportedMediaType("absent".into()));
    };
    let is_json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(ApiError::UnsupportedMediaType(essence)) }
}

/// Reads at most `limit` bytes of a body of this kind.
async fn read(mut body: Body, kind: BodyKind, limit: usize, room: &Room) -> Result<HeldBody, ApiError> {
    let mut held = HeldBody::new(room);
    let mut dropped = 0;
    while dropped <= DRAINED {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| ApiError::InvalidJson(kind, "the connection broke in the middle".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if let Ok(into) = &mut held
            && let Err(error) = into.push(&data, kind, limit, room)
        {
            held = Err(error);
        }
        if held.is_err() {
            dropped += data.len();
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_have_room_together_and_give_it_back() {
        let (room, kind) = (Room::new(10), BodyKind::Search);
        let first = read(Body::from("12345678"), kind, 8, &room).await.unwrap();
        assert_eq!(&*first, b"12345678");
        let _small = read(Body::from("12"), kind, 8, &room).await.unwrap();
        let full = read(Body::from("1"), kind, 8, &room).await.unwrap_err();
        assert_eq!(full, ApiError::BodiesFull { limit: 10 });
        assert_eq!(full.code().status(), 429);
        drop(first);
        assert_eq!(
            read(Body::from("123456789"), kind, 8, &room).await.unwrap_err(),
            ApiError::BodyTooLarge { kind, limit: 8 }
        );
        read(Body::from("12345678"), kind, 8, &room).await.unwrap();
    }
}
