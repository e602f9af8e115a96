//! Memory for the bodies of all requests together, and for the answers that clients have not read yet, bounded.

use std::ops::Deref;
use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body_kind::BodyKind;
use super::error::ApiError;

/// A number of bytes that many share: bodies, or answers, that are each within their limit would fill the memory
/// together.
#[derive(Debug)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    bytes: usize,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Takes a part, without waiting: who waits would hold what it has.
    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    fn take_for_body(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        self.take(bytes).ok_or(ApiError::BodiesFull { limit: self.bytes })
    }

    /// Returns an answer that takes its part until the last of it was handed to the socket, or its client has gone.
    ///
    /// # Errors
    /// [`ApiError::AnswersFull`] at once where the answers of other clients leave too little.
    pub(super) fn hold_answer(&self, bytes: Vec<u8>) -> Result<Bytes, ApiError> {
        let room = self.take(bytes.len()).ok_or(ApiError::AnswersFull { limit: self.bytes })?;
        Ok(Bytes::from_owner(HeldAnswer { bytes, _room: room }))
    }
}

/// A body in its part of the room, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    bytes: Vec<u8>,
    room: OwnedSemaphorePermit,
}

impl HeldBody {
    pub(super) fn new(room: &Room) -> Result<Self, ApiError> {
        Ok(Self { bytes: Vec::new(), room: room.take_for_body(0)? })
    }

    /// Appends a part of a body of this kind, which has at most `limit` bytes.
    pub(super) fn push(
        &mut self,
        data: &[u8],
        kind: BodyKind,
        limit: usize,
        room: &Room,
    ) -> Result<(), ApiError> {
        if self.bytes.len() + data.len() > limit {
            return Err(ApiError::BodyTooLarge { kind, limit });
        }
        self.room.merge(room.take_for_body(data.len())?);
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

/// The part of the room that a body had, kept while what was read from it is in memory.
#[derive(Debug)]
pub(super) struct BodyShare {
    _room: OwnedSemaphorePermit,
}

impl From<HeldBody> for BodyShare {
    fn from(body: HeldBody) -> Self {
        Self { _room: body.room }
    }
}

impl Deref for HeldBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer in its part of the room.
struct HeldAnswer {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_room_together_and_give_it_back_with_their_last_part() {
        let room = Room::new(10);
        let mut first = room.hold_answer(b"12345678".to_vec()).unwrap();
        let full = room.hold_answer(b"123".to_vec()).unwrap_err();
        assert_eq!(full, ApiError::AnswersFull { limit: 10 });
        assert_eq!(full.code().status(), 429);
        // As HTTP/2 sends it: in parts, the last of which is still waiting.
        let last = first.split_off(4);
        drop(first);
        room.hold_answer(b"123".to_vec()).unwrap_err();
        drop(last);
        room.hold_answer(b"1234567890".to_vec()).unwrap();
    }
}
