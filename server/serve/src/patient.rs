//! A socket whose peer has to read what it asked for.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::activity::{Activity, LEAST};

/// A socket that breaks when its peer takes too little, for so long, while there is something to write.
///
/// The system's buffers are large and ask for more only when a good part of them is free, so that a peer that reads a
/// byte now and then mostly takes nothing. One that takes more, but less than [`LEAST`] bytes a second, is no better.
#[derive(Debug)]
pub(super) struct Patient<S> {
    socket: S,
    patience: Duration,
    /// Runs from the first write that waits until everything is written, or its time is over.
    waiting: Option<Waiting>,
    /// The connection, which is told whether there is something to write.
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct Waiting {
    over: Pin<Box<Sleep>>,
    /// Bytes written since.
    written: u64,
}

impl<S: Unpin> Patient<S> {
    pub(super) fn new(socket: S, patience: Duration, activity: Arc<Activity>) -> Self {
        Self { socket, patience, waiting: None, activity }
    }

    fn socket(&mut self) -> Pin<&mut S> {
        Pin::new(&mut self.socket)
    }

    /// Returns what a write came to.
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_pending() {
            return self.wait(context);
        }
        if let (Poll::Ready(Ok(bytes)), Some(waiting)) = (&written, &mut self.waiting) {
            waiting.written += *bytes as u64;
        }
        written
    }

    /// Returns what a flush or a shutdown came to: everything is written then.
    fn finished(
        &mut self,
        context: &mut Context<'_>,
        finished: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if finished.is_pending() {
            return self.wait(context);
        }
        if self.waiting.take().is_some() {
            self.activity.set_writing(false);
        }
        finished
    }

    /// Waits for the peer, or returns an error when it has taken too little for too long.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let new = || Waiting { over: Box::pin(sleep(patience)), written: 0 };
        if self.waiting.is_none() {
            self.activity.set_writing(true);
        }
        let waiting = self.waiting.get_or_insert_with(new);
        if waiting.over.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let written = waiting.written;
        if written as f64 >= LEAST * patience.as_secs_f64() {
            // Another while; the new time has to be polled, so that it wakes this task.
            *waiting = new();
            if waiting.over.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the client has read {written} bytes in {} ms", patience.as_millis()),
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket().poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.socket().poll_write(context, bytes);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.socket().poll_write_vectored(context, pieces);
        self.wrote(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.socket().poll_flush(context);
        self.finished(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = self.socket().poll_shutdown(context);
        self.finished(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    /// Writes `bytes` to a peer that reads `part` of them each 20 ms, through a buffer of as much.
    async fn write_to(part: usize, bytes: usize) -> io::Result<()> {
        let (socket, mut peer) = duplex(part);
        let reading = tokio::spawn(async move {
            let mut part = vec![0; part];
            while let Ok(1..) = peer.read(&mut part).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let mut socket = Patient::new(socket, Duration::from_millis(300), Activity::new());
        let written = socket.write_all(&vec![7; bytes]).await;
        reading.abort();
        written
    }

    #[tokio::test]
    async fn a_peer_that_reads_a_byte_now_and_then_is_given_up() {
        assert_eq!(write_to(1, 1 << 20).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_is_idle_once_its_peer_has_taken_the_end_of_an_answer() {
        let (socket, mut peer) = duplex(16);
        let activity = Activity::new();
        drop(activity.begin());
        let mut socket = Patient::new(socket, Duration::from_secs(60), Arc::clone(&activity));
        let writing = tokio::spawn(async move {
            socket.write_all(&[7; 40]).await.unwrap();
            socket.flush().await.unwrap();
        });
        let waits = async {
            while activity.idle_for().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap();
        peer.read_exact(&mut [0; 40]).await.unwrap();
        writing.await.unwrap();
        assert!(activity.idle_for().is_some());
    }

    #[tokio::test]
    async fn a_peer_that_reads_steadily_gets_all() {
        write_to(4096, 100 * 4096).await.unwrap();
    }
}
