//! Bodies of requests, sent to the routes without a socket.

use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use dpr_core::device::Device;
use dpr_core::{Embedding, EncoderBytes, Pooling, Reader};
use dpr_encode::PassageUpdater;
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_files::lock;
use dpr_index::search::{Backend as _, Filter, Fusion, Hit, Method, SearchError};
use dpr_index::{CancelToken, IndexWriter, LiveIndex};
use dpr_serve::{
    AppState, Limits, Options, ServedBlur, ServedModel, ServedReader, Serving, TextSearch, Updates, app,
};
use serde_json::json;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::index::{self, DIM, fingerprint, vector};
use crate::{named, private};

/// Requests after which the server is made anew: updates that are taken would fill the index.
const LIFE: usize = 2000;

/// A server, and what it lives in.
struct Server {
    routes: Router,
    runtime: Runtime,
    requests: usize,
    _dir: tempfile::TempDir,
}

impl Server {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (index, model) = (dir.path().join("index"), dir.path().join("model"));
        fs_err::create_dir(&index).expect("a new directory");
        index::build(&index, index::Chosen::Graph);
        let encoder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/dpr-tiny/question");
        let options = ImportOptions { pooling: Some(Pooling::Mean), ..ImportOptions::default() };
        import(encoder.as_ref(), None, &model, &options).expect("a model of the fixtures");
        let model = ModelDir::open(&model).expect("a model that was just imported");
        let writer = Arc::new(IndexWriter::open(&index, "fuzzing").expect("an index that was just made"));
        let updates = PassageUpdater::new(Arc::<IndexWriter>::clone(&writer), None);
        let limits = Limits { concurrency: 1, max_k: 50, max_batch: 4, ..Limits::default() };
        let state = AppState::new(Options { limits, ..Options::default() });
        let blur = private::write(&dir.path().join("blur"), &fingerprint(), DIM);
        state.publish_all(Serving {
            model: Some(ServedModel::open(&model).expect("a model that was just imported")),
            updates: Some(Updates::new(Arc::new(updates))),
            blur: Some(Arc::new(ServedBlur::new(blur))),
            text: Some(Arc::new(SameVector(Arc::clone(writer.live())))),
            reader: Some(Arc::new(reader())),
            ..Serving::new(Arc::<LiveIndex>::clone(writer.live()))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { routes: app(state), runtime, requests: 0, _dir: dir }
    }

    fn send(&mut self, method: &str, path: &str, body: Vec<u8>) -> u16 {
        self.requests += 1;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("a request");
        let routes = self.routes.clone();
        self.runtime.block_on(async move {
            let Ok(response) = routes.oneshot(request).await;
            let status = response.status().as_u16();
            // A handler that panics is answered 500 by the layer that catches it.
            let body = to_bytes(response.into_body(), 16 << 20).await.unwrap_or_default();
            assert!(status != 500, "{}", String::from_utf8_lossy(&body));
            status
        })
    }
}

/// Sends a body, and returns the status.
fn send(method: &str, path: &str, body: Vec<u8>) -> u16 {
    static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Mutex::new(Server::new()));
    let mut server = lock(server);
    if server.requests >= LIFE {
        *server = Server::new();
    }
    server.send(method, path, body)
}

/// A search by text that encodes nothing: what reads the question is the reader.
struct SameVector(Arc<LiveIndex>);

impl TextSearch for SameVector {
    fn search_text(
        &self,
        _: &str,
        _: Method,
        _: Fusion,
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        let vector = Embedding::new(vector(1), DIM).expect("finite numbers");
        Ok(self.0.search_until(&[vector], k, filter, cancel)?.pop().unwrap_or_default())
    }
}

/// The reader of the fixtures, of random weights.
fn reader() -> ServedReader {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/readers/dpr");
    let read = |name: &str| fs_err::read(format!("{dir}/{name}")).expect("a file of the fixtures");
    let (config, tokenizer, weights) =
        (read("config.json"), read("tokenizer.json"), read("model.safetensors"));
    let weights = [("model.safetensors", weights.as_slice())];
    let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
    let reader = Reader::load(&files, None, &Device::Kernel).expect("a reader of the fixtures");
    ServedReader::new(reader, fingerprint())
}

/// A body of a search by text if the first byte is even, else of a question that is answered.
pub(crate) fn question(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    let path = if kind % 2 == 0 { "/v1/search/text" } else { "/v1/answer" };
    send("POST", path, body.to_vec());
}

pub(crate) fn valid_question() -> Vec<(String, Vec<u8>)> {
    let body = |kind: &str, value: serde_json::Value| format!("{kind}{value}");
    let filter = json!({ "metadata": { "field": "lang", "eq": "en" } });
    vec![
        named("text", body("0", json!({ "question": "who?", "method": "dense", "k": 3, "filter": filter }))),
        named("hybrid", body("0", json!({ "question": "Öl, 東京?", "lambda": 1.1 }))),
        named("answer", body("1", json!({ "question": "who?", "depth": 3, "top": 2 }))),
    ]
}

/// A body of a search.
pub(crate) fn search(bytes: &[u8]) {
    send("POST", "/v1/search", bytes.to_vec());
    send("POST", "/v1/private/candidates", bytes.to_vec());
}

pub(crate) fn valid_search() -> Vec<(String, Vec<u8>)> {
    let (vector, model) = (vector(1), fingerprint());
    vec![
        named("vector", json!({ "vector": vector, "k": 3, "model": model }).to_string()),
        named("vectors", json!({ "vectors": [vector, vector], "model": model }).to_string()),
        named(
            "base64",
            json!({ "vector": "AACAPwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "model": model }).to_string(),
        ),
        named(
            "blurred",
            json!({ "y": "AAA=", "level": "light", "projection": private::made(DIM).sha256(), "model": model })
                .to_string(),
        ),
        named("filter", json!({ "vector": vector, "model": model, "filter": { "ids": ["p1"] } }).to_string()),
    ]
}

/// The value of `filter`, in a search that is right otherwise.
pub(crate) fn filter(bytes: &[u8]) {
    let start = format!(r#"{{"vector":{},"k":5,"model":"{}","filter":"#, json!(vector(2)), fingerprint());
    send("POST", "/v1/search", [start.as_bytes(), bytes, b"}"].concat());
}

pub(crate) fn valid_filter() -> Vec<(String, Vec<u8>)> {
    vec![
        named("titles", r#"{"titles":["Title 0","Title 1"]}"#),
        named("ids", r#"{"ids":["p1","p2"],"titles":["Title 0"]}"#),
        named("all", "{}"),
        named("metadata", r#"{"metadata":{"field":"lang","eq":"en"}}"#),
        named(
            "nested",
            r#"{"metadata":{"and":[{"field":"year","gte":2001},{"not":{"field":"draft","eq":true}}]}}"#,
        ),
    ]
}

/// A body that adds passages if its first byte is even, else one that deletes some.
pub(crate) fn updates(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    let method = if kind % 2 == 0 { "POST" } else { "DELETE" };
    send(method, "/v1/passages", body.to_vec());
}

pub(crate) fn valid_updates() -> Vec<(String, Vec<u8>)> {
    let put = json!({ "model": fingerprint(), "passages": [
        { "id": "p1", "title": "T", "text": "x", "vector": vector(3) }
    ] });
    let body = |kind: &str, value: String| format!("{kind}{value}");
    assert_eq!(vector(3).len(), DIM);
    vec![
        named("put", body("0", put.to_string())),
        named("delete", body("1", json!({ "ids": ["p2"] }).to_string())),
    ]
}
