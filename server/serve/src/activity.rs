//! What the requests of an HTTP/2 connection are at, so that one whose client does nothing can be closed.
//!
//! A client that answers pings keeps its connection open, and one that never opens the window of a stream keeps that
//! stream. Neither shows in the socket, so that each request is watched: from its head to the last part of its
//! answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::places::Place;

/// Most bytes of an answer that are handed on at once: the next part is asked for when the client has taken most of
/// this one.
const PART: usize = 64 << 10;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Activity(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    /// For each request since when its client has taken nothing of the answer; without a time while there is no
    /// answer yet.
    waiting: HashMap<u64, Option<Instant>>,
    next: u64,
    /// Since when there is no request.
    idle: Instant,
}

/// The reason why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// It has had no request for too long.
    Idle,
    /// Its client has taken nothing of an answer for too long.
    Unread,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Requests { waiting: HashMap::new(), next: 0, idle: Instant::now() })))
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request has begun. Returns it, and whether it is the only one.
    pub(super) fn begin(self: &Arc<Self>) -> (InProgress, bool) {
        let mut requests = self.requests();
        let id = requests.next;
        requests.next += 1;
        requests.waiting.insert(id, None);
        (InProgress { id, activity: Arc::clone(self) }, requests.waiting.len() == 1)
    }

    /// Waits until a connection without requests is older than `idle`, or an answer has not been read for `patience`.
    pub(super) async fn overdue(&self, idle: Duration, patience: Duration) -> Overdue {
        let pause = idle.min(patience) / 4;
        loop {
            tokio::time::sleep(pause).await;
            let requests = self.requests();
            if requests.waiting.is_empty() && requests.idle.elapsed() >= idle {
                return Overdue::Idle;
            }
            if requests.waiting.values().flatten().any(|since| since.elapsed() >= patience) {
                return Overdue::Unread;
            }
        }
    }
}

/// A request of a connection, until this is dropped.
#[derive(Debug)]
pub(super) struct InProgress {
    id: u64,
    activity: Arc<Activity>,
}

impl InProgress {
    /// Notes that the client is ready for a part of the answer.
    fn is_reading(&self) {
        self.activity.requests().waiting.insert(self.id, Some(Instant::now()));
    }

    /// Returns the answer's body, watched; `place` is given back with its end.
    pub(super) fn watch(self, body: Body, place: Option<Place>) -> Body {
        self.is_reading();
        Body::new(Watched { body, rest: Bytes::new(), request: self, _place: place })
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut requests = self.activity.requests();
        requests.waiting.remove(&self.id);
        requests.idle = Instant::now();
    }
}

/// A body in parts, each of which is noted when it is asked for.
struct Watched {
    body: Body,
    /// What is left of the part that the body gave.
    rest: Bytes,
    request: InProgress,
    _place: Option<Place>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.request.is_reading();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()? {
                None => return Poll::Ready(None),
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
        let part = self.rest.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_connection_is_overdue_when_it_has_no_request_or_an_answer_is_not_read() {
        let activity = Activity::new();
        assert_eq!(activity.overdue(SHORT, LONG).await, Overdue::Idle);
        // A handler may take its time.
        let (request, is_only) = activity.begin();
        assert!(is_only && !activity.begin().1);
        let waiting = tokio::time::timeout(SHORT * 5, activity.overdue(SHORT, SHORT));
        assert!(waiting.await.is_err());
        let body = request.watch(Body::from("text"), None);
        assert_eq!(activity.overdue(LONG, SHORT).await, Overdue::Unread);
        drop(body);
        assert_eq!(activity.overdue(SHORT, LONG).await, Overdue::Idle);
    }

    #[tokio::test]
    async fn a_body_comes_in_parts_and_whole() {
        let bytes: Vec<u8> = (0..PART * 2 + 5).map(|at| at as u8).collect();
        let (request, _) = Activity::new().begin();
        let mut body = request.watch(Body::from(bytes.clone()), None);
        let (mut parts, mut got) = (Vec::new(), Vec::new());
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            let data = frame.unwrap().into_data().unwrap();
            parts.push(data.len());
            got.extend_from_slice(&data);
            assert_eq!(body.size_hint().exact(), Some((bytes.len() - got.len()) as u64));
        }
        assert_eq!((parts, got == bytes), (vec![PART, PART, 5], true));
        assert!(body.is_end_stream());
    }
}
