//! The progress of a connection's requests, so that a connection whose client does nothing can be closed.
//!
//! A client that answers the pings of HTTP/2 keeps its connection open, and one that never opens the window of a stream
//! keeps that stream. Neither shows in the socket, so that each request is watched: from its head to the last part of
//! its answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use dpr_files::lock;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// Most bytes of an answer that are handed on at once: the next part is asked for when the client has taken most of
/// this one.
const PART: usize = 64 << 10;

/// Bytes that a peer has to take in a second, over the time that a connection is patient. The slowest lines that pages
/// are read over, of 2G, are faster; a file of 22 MB takes 23 minutes at most.
pub(super) const LEAST: f64 = 16_384.0;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    requests: Mutex<Requests>,
    closing: Notify,
}

#[derive(Debug)]
struct Requests {
    /// For each request what its client takes of the answer; `None` while there is no answer yet.
    waiting: HashMap<u64, Option<Taken>>,
    next: u64,
    /// `true` while the socket has bytes that its peer has not taken yet: the end of an answer is written after its
    /// request has ended.
    is_writing: bool,
    /// The time at which the connection became idle: without a request and with nothing to write.
    idle: Instant,
}

impl Requests {
    fn are_none(&self) -> bool {
        self.waiting.is_empty() && !self.is_writing
    }
}

/// Bytes that a client has taken of an answer, and since when.
#[derive(Debug)]
struct Taken {
    since: Instant,
    bytes: u64,
}

impl Taken {
    fn nothing() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }

    /// Returns whether the client has taken too little in `patience`. Where it took enough, another while begins.
    fn is_too_little(&mut self, patience: Duration) -> bool {
        if self.since.elapsed() < patience {
            return false;
        }
        if (self.bytes as f64) < LEAST * patience.as_secs_f64() {
            return true;
        }
        *self = Self::nothing();
        false
    }
}

/// The reason why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// It has had no request for too long.
    Idle,
    /// Its client has taken too little of an answer for too long.
    Unread,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let requests = Requests { waiting: HashMap::new(), next: 0, is_writing: false, idle: Instant::now() };
        Arc::new(Self { requests: Mutex::new(requests), closing: Notify::new() })
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        lock(&self.requests)
    }

    /// Notes that a request has begun. Returns it, and whether it is the only one.
    pub(super) fn begin(self: &Arc<Self>) -> (InProgress, bool) {
        let mut requests = self.requests();
        let id = requests.next;
        requests.next += 1;
        requests.waiting.insert(id, None);
        (InProgress { id, activity: Arc::clone(self) }, requests.waiting.len() == 1)
    }

    /// Returns for how long there has been no request; `None` while there is one.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        let requests = self.requests();
        requests.are_none().then(|| requests.idle.elapsed())
    }

    /// Notes whether the socket waits for its peer to take what is written to it.
    pub(super) fn set_writing(&self, is_writing: bool) {
        let mut requests = self.requests();
        requests.is_writing = is_writing;
        requests.idle = Instant::now();
    }

    /// Asks for the end of the connection.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    /// Waits until [`close`](Self::close) was called.
    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }

    /// Waits until a connection without requests is older than `idle`, or too little of an answer has been read for
    /// `patience`.
    pub(super) async fn overdue(&self, idle: Duration, patience: Duration) -> Overdue {
        let pause = idle.min(patience) / 4;
        loop {
            tokio::time::sleep(pause).await;
            let mut requests = self.requests();
            if requests.are_none() && requests.idle.elapsed() >= idle {
                return Overdue::Idle;
            }
            if requests.waiting.values_mut().flatten().any(|taken| taken.is_too_little(patience)) {
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
    /// Notes that the client took so many bytes more of the answer.
    fn took(&self, bytes: usize) {
        let mut requests = self.activity.requests();
        let taken = requests.waiting.entry(self.id).or_default().get_or_insert_with(Taken::nothing);
        taken.bytes += bytes as u64;
    }

    /// Returns the answer's body, watched; `place` is dropped with its end.
    pub(super) fn watch<P: Send + Unpin + 'static>(self, body: Body, place: P) -> Body {
        self.took(0);
        Body::new(Watched { body, rest: Bytes::new(), part: 0, request: self, _place: place })
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
struct Watched<P> {
    body: Body,
    /// The rest of the part that the body gave.
    rest: Bytes,
    /// Bytes of the last part: taken when the next one is asked for.
    part: usize,
    request: InProgress,
    _place: P,
}

impl<P: Unpin> HttpBody for Watched<P> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.request.took(self.part);
        self.part = 0;
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
        self.part = part;
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
        let body = request.watch(Body::from("text"), ());
        assert_eq!(activity.overdue(LONG, SHORT).await, Overdue::Unread);
        drop(body);
        assert_eq!(activity.overdue(SHORT, LONG).await, Overdue::Idle);
    }

    #[tokio::test]
    async fn a_client_that_takes_a_part_now_and_then_takes_too_little() {
        // In 20 s a client has to take 320 KiB; a part is 64 KiB.
        let patience = Duration::from_secs(20);
        let before = |parts: u64| Taken {
            since: Instant::now().checked_sub(patience).unwrap(),
            bytes: parts * PART as u64,
        };
        assert!(before(4).is_too_little(patience));
        let mut enough = before(6);
        assert!(!enough.is_too_little(patience));
        assert_eq!(enough.bytes, 0, "another while has begun");
        assert!(!Taken { bytes: 0, ..Taken::nothing() }.is_too_little(patience), "it has time left");
    }

    #[tokio::test]
    async fn a_body_comes_in_parts_and_whole() {
        let bytes: Vec<u8> = (0..PART * 2 + 5).map(|at| at as u8).collect();
        let (request, _) = Activity::new().begin();
        let mut body = request.watch(Body::from(bytes.clone()), ());
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
