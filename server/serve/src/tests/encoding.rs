//! Updates whose passages the server encodes: bounded, passed by the others, given up with their clients.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::updates::{adding, build, change, clusters};
use super::*;
use crate::{Limits, Serving, Updates};
use dpr_encode::{EncodePassages, EncodingError, PassageUpdater};
use dpr_index::{IndexKind, IndexWriter, LiveIndex};

/// An encoder that waits for a message before each request, and tells how far it is.
#[derive(Debug, Clone)]
struct SlowEncoder {
    go: Arc<Mutex<mpsc::Receiver<()>>>,
    begun: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

impl EncodePassages for SlowEncoder {
    fn encode(&self, passages: &[Passage], stop: &AtomicBool) -> Result<Vec<Embedding>, EncodingError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        loop {
            if stop.load(Ordering::SeqCst) {
                self.stopped.fetch_add(1, Ordering::SeqCst);
                return Err(EncodingError::Stopped { done: 0, total: passages.len() });
            }
            if self.go.lock().unwrap().recv_timeout(Duration::from_millis(1)).is_ok() {
                let vector = || Embedding::new(vec![1.0, 2.0, 3.0, 4.0], DIM).unwrap();
                return Ok(passages.iter().map(|_| vector()).collect());
            }
        }
    }
}

struct Bench {
    app: Router,
    writer: Arc<IndexWriter>,
    encoder: SlowEncoder,
    go: mpsc::Sender<()>,
    _dir: tempfile::TempDir,
}

fn bench(limits: Limits) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    build(&index, clusters(20, DIM, 1), DIM, IndexKind::Exact);
    let writer = Arc::new(IndexWriter::open(&index, "a test").unwrap());
    let (go, told) = mpsc::channel();
    let encoder =
        SlowEncoder { go: Arc::new(Mutex::new(told)), begun: Arc::default(), stopped: Arc::default() };
    let updater = PassageUpdater::with_encoder(Arc::<IndexWriter>::clone(&writer), encoder.clone());
    let state = AppState::new(Options { limits, ..Options::default() });
    assert!(state.publish_all(Serving {
        updates: Some(Updates::new(Arc::new(updater))),
        ..Serving::new(Arc::<LiveIndex>::clone(writer.live()))
    }));
    Bench { app: app(state), writer, encoder, go, _dir: dir }
}

impl Bench {
    /// Sends a passage that has to be encoded.
    fn start(&self, id: &str) -> tokio::task::JoinHandle<Reply> {
        let (app, body) = (self.app.clone(), adding(&[json!({"id": id, "text": "Slow."})]));
        tokio::spawn(async move { send(&app, change("POST", &body)).await })
    }

    async fn until(&self, is_so: impl Fn(&SlowEncoder) -> bool) {
        for _ in 0..5000 {
            if is_so(&self.encoder) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("it never was: {:?}", self.encoder);
    }

    async fn in_flight(&self, count: usize) {
        for _ in 0..5000 {
            // The request for the metrics is in flight too.
            let line = format!("dpr_http_requests_in_flight {}", count + 1);
            if get(&self.app, "/metrics").await.text().lines().any(|found| found == line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("never {count} in flight");
    }
}

#[tokio::test]
async fn a_delete_is_done_while_more_updates_than_there_are_places_wait_for_the_encoder() {
    let bench = bench(Limits::default());
    let slow: Vec<_> = (0..20).map(|n| bench.start(&format!("slow{n}"))).collect();
    bench.until(|encoder| encoder.begun.load(Ordering::SeqCst) == 1).await;
    bench.in_flight(20).await;
    // No message was sent, so that none of them is done.
    let reply = send(&bench.app, change("DELETE", &json!({"ids": ["p0"]}))).await;
    assert_eq!(reply.json(), json!({"deleted": 1}), "{}", reply.text());
    let ready = adding(&[json!({"id": "ready", "text": "Ready.", "vector": [1, 0, 0, 0]})]);
    assert_eq!(send(&bench.app, change("POST", &ready)).await.json(), json!({"added": 1, "replaced": 0}));
    assert!(slow.iter().all(|slow| !slow.is_finished()));
    assert_eq!(bench.encoder.begun.load(Ordering::SeqCst), 1, "one at a time");
    (0..20).for_each(|_| bench.go.send(()).unwrap());
    for slow in slow {
        assert_eq!(slow.await.unwrap().json(), json!({"added": 1, "replaced": 0}));
    }
    assert_eq!(bench.writer.live().snapshot().changes(), 22);
}

#[tokio::test]
async fn the_queue_of_the_encoder_is_bounded() {
    let bench = bench(Limits::default());
    // One is encoded, 32 wait, and one is too many: whichever comes last.
    let mut slow: Vec<_> = (0..34).map(|n| bench.start(&format!("slow{n}"))).collect();
    let refused = loop {
        if let Some(at) = slow.iter().position(tokio::task::JoinHandle::is_finished) {
            break slow.swap_remove(at).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(refused.error(), (429, "overloaded".into()));
    assert_eq!(refused.header("retry-after"), "1");
    let text = get(&bench.app, "/metrics").await.text();
    assert!(text.contains(r#"dpr_requests_refused_total{limit="encoding"} 1"#), "{text}");
    (0..33).for_each(|_| bench.go.send(()).unwrap());
    for slow in slow {
        assert_eq!(slow.await.unwrap().status, StatusCode::OK);
    }
}

#[tokio::test]
async fn encoding_is_given_up_when_the_client_has_gone() {
    let bench = bench(Limits::default());
    let gone = bench.start("gone");
    bench.until(|encoder| encoder.begun.load(Ordering::SeqCst) == 1).await;
    gone.abort();
    bench.until(|encoder| encoder.stopped.load(Ordering::SeqCst) == 1).await;
    // The next one is not held up, and nothing of the first was written.
    bench.go.send(()).unwrap();
    assert_eq!(bench.start("next").await.unwrap().json(), json!({"added": 1, "replaced": 0}));
    assert_eq!(bench.writer.live().snapshot().changes(), 1);
}

#[tokio::test]
async fn an_update_of_too_much_is_refused_before_anything_is_encoded() {
    let bench = bench(Limits { max_passages: 2, max_ids: 2, ..Limits::default() });
    let passages = |count: usize| {
        let passage = |n| json!({"id": format!("n{n}"), "text": "Slow."});
        adding(&(0..count).map(passage).collect::<Vec<_>>())
    };
    let ids = |count: usize| json!({"ids": (0..count).map(|n| format!("p{n}")).collect::<Vec<_>>()});
    for (method, body, what) in [("POST", passages(3), "3 passages"), ("DELETE", ids(3), "3 ids")] {
        let reply = send(&bench.app, change(method, &body)).await;
        assert_eq!(reply.error(), (413, "update_too_large".into()));
        assert!(
            reply.message().contains(what) && reply.message().contains("at most 2"),
            "{}",
            reply.message()
        );
    }
    assert_eq!(bench.encoder.begun.load(Ordering::SeqCst), 0);
    assert_eq!(bench.writer.live().snapshot().changes(), 0);
    bench.go.send(()).unwrap();
    assert_eq!(send(&bench.app, change("POST", &passages(2))).await.status, StatusCode::OK);
    assert_eq!(send(&bench.app, change("DELETE", &ids(2))).await.status, StatusCode::OK);
}
