//! Searches that nobody waits for any more: they stop, and their threads are free.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::Limits;
use crate::server::{self, Connections};
use dpr_index::{CancelToken, Stopped};

/// A backend whose searches go on until they are cancelled, and each of which costs so much.
#[derive(Debug)]
struct Endless {
    like: FakeSearch,
    cost: u64,
    begun: mpsc::Sender<()>,
    stopped: mpsc::Sender<Stopped>,
}

impl Backend for Endless {
    fn search_until(
        &self,
        _: &[Embedding],
        _: usize,
        _: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        self.begun.send(()).unwrap();
        loop {
            if let Err(stopped) = cancel.check() {
                self.stopped.send(stopped).unwrap();
                return Err(stopped.into());
            }
            std::thread::yield_now();
        }
    }

    fn cost(&self, vectors: usize, _: usize, _: Option<&Filter>) -> u64 {
        self.cost * vectors as u64
    }

    fn describe(&self) -> Description {
        self.like.describe()
    }

    fn passages(&self, _: &[String]) -> Result<Vec<Passage>, SearchError> {
        Ok(Vec::new())
    }
}

/// Notices of a server's searches, as they begin and stop.
struct Told {
    begun: mpsc::Receiver<()>,
    stopped: mpsc::Receiver<Stopped>,
    _dir: tempfile::TempDir,
}

/// A server with one search thread and no queue.
fn endless(timeout: Duration, cost: u64) -> (Router, Told) {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { concurrency: 1, queue: 0, timeout, ..Limits::default() };
    let state = AppState::new(Options { limits, ..Options::default() });
    let ((begun, has_begun), (stopped, has_stopped)) = (mpsc::channel(), mpsc::channel());
    let backend = Endless { like: FakeSearch { before: Box::new(|| {}) }, cost, begun, stopped };
    state.publish(Arc::new(backend), model(dir.path(), true));
    (app(state), Told { begun: has_begun, stopped: has_stopped, _dir: dir })
}

/// Waits for a message on a thread that may wait.
async fn next<T: Send + 'static>(from: mpsc::Receiver<T>) -> T {
    let received = tokio::task::spawn_blocking(move || from.recv_timeout(Duration::from_secs(20)));
    received.await.unwrap().expect("the search goes on")
}

#[tokio::test]
async fn a_search_past_its_time_stops() {
    let (app, told) = endless(Duration::from_millis(50), 0);
    assert_eq!(search(&app, &good()).await.error(), (503, "timeout".into()));
    assert_eq!(next(told.stopped).await, Stopped::Cancelled);
}

#[tokio::test]
async fn a_search_whose_client_has_gone_stops() {
    let (app, told) = endless(Duration::from_secs(3600), 0);
    let listener = server::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server::run(listener, app, async { drop(stopped.await) }, Connections::default()));
    let mut client = TcpStream::connect(address).await.unwrap();
    let body = good().to_string();
    let request = format!(
        "POST /v1/search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    next(told.begun).await;
    drop(client);
    assert_eq!(next(told.stopped).await, Stopped::Cancelled);
}

#[tokio::test]
async fn a_search_that_cannot_end_in_time_is_refused_before_it_begins() {
    // Each vector is more than one thread reads in ten seconds.
    let (app, told) = endless(Duration::from_secs(10), 50_000_000_000);
    let body = json!({"vectors": [[1, 0, 0, 0], [0, 1, 0, 0]], "model": fingerprint()});
    let reply = search(&app, &body).await;
    assert_eq!(reply.error(), (422, "too_costly".into()));
    let message = reply.message();
    assert!(
        message.contains("2 vectors among 0 passages")
            && message.contains("25 s")
            && message.contains("10000 ms"),
        "{message}"
    );
    assert!(told.begun.try_recv().is_err());
}
