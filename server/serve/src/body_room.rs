//! Memory for the bodies of all requests together, bounded.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;

/// Room for the bodies of all requests: many that are each within their limit would fill the memory together.
#[derive(Debug)]
pub(super) struct BodyRoom {
    free: Arc<Semaphore>,
    bytes: usize,
}

impl BodyRoom {
    pub(super) fn new(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Takes room, without waiting: who waits would hold what it has.
    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let room =
            u32::try_from(bytes).ok().and_then(|n| Arc::clone(&self.free).try_acquire_many_owned(n).ok());
        room.ok_or(ApiError::BodiesFull { limit: self.bytes })
    }
}

/// A body in its part of the room, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    bytes: Vec<u8>,
    room: OwnedSemaphorePermit,
}

impl HeldBody {
    pub(super) fn new(room: &BodyRoom) -> Result<Self, ApiError> {
        Ok(Self { bytes: Vec::new(), room: room.take(0)? })
    }

    pub(super) fn push(&mut self, data: &[u8], limit: usize, room: &BodyRoom) -> Result<(), ApiError> {
        if self.bytes.len() + data.len() > limit {
            return Err(ApiError::BodyTooLarge { limit });
        }
        self.room.merge(room.take(data.len())?);
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
