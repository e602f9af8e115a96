//! The interface from outside: requests in, responses out, most of them without a socket.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use dpr_core::model::sha256_hex;
use dpr_core::{Embedding, Family, ModelManifest, Pooling, Prompts, Similarity, TitleJoin};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{AppState, EncoderFiles, Options, ServedFile, ServedModel, app};
use dpr_data::Passage;
use dpr_index::search::{Backend, Description, Filter, Hit, SearchError};
use dpr_index::{CancelToken, QueryError};

mod answers;
mod cancelled;
mod encoding;
mod encrypted;
mod files;
mod filter;
mod health;
mod keys;
mod metrics;
mod overload;
mod page;
mod private;
mod reading;
mod recall;
mod refused_updates;
mod routes;
mod searching;
mod socket;
mod text;
mod tls;
mod updates;

const DIM: usize = 4;
const PASSAGES: usize = 20;
const WEIGHTS: &[u8] = b"0123456789abcdef";

fn fingerprint() -> String {
    sha256_hex(b"the model")
}

/// Twenty passages; passage `i` scores the vector's first number divided by `i + 1`. Each search first calls
/// `before`, on its own thread.
struct FakeSearch {
    before: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for FakeSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSearch").finish_non_exhaustive()
    }
}

/// The first number of a vector that makes the search panic.
const PANICS: f32 = 13.0;

impl Backend for FakeSearch {
    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        _filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        cancel.check()?;
        (self.before)();
        assert!(vectors[0].as_slice()[0] != PANICS, "a panic on purpose");
        if vectors[0].as_slice()[0] > 1e38 {
            return Err(QueryError::Overflow { norm: 1e38 }.into());
        }
        let hit = |vector: &Embedding, i: usize| {
            let text = "A passage of some length, so that an answer is worth compressing. ".repeat(4);
            let passage = Passage::new(format!("p{i}"), format!("Title {i}"), text);
            Hit::new(passage, vector.as_slice()[0] / (i + 1) as f32)
        };
        Ok(vectors.iter().map(|vector| (0..k.min(PASSAGES)).map(|i| hit(vector, i)).collect()).collect())
    }

    fn passages(&self, _: &[String]) -> Result<Vec<Passage>, SearchError> {
        Ok(Vec::new())
    }

    fn describe(&self) -> Description {
        Description {
            count: PASSAGES,
            dim: DIM,
            kind: "exact".into(),
            model: fingerprint(),
            metric: "inner_product".into(),
            version: "v-1".into(),
            number: 1,
            added: 0,
            removed: 0,
            changes: 0,
        }
    }
}

/// A model directory's files in `directory`, but for config.json, with or without weights for browsers.
fn model(directory: &Path, with_weights: bool) -> ServedModel {
    model_of(directory, with_weights.then_some(WEIGHTS))
}

/// As [`model`], with these weights for browsers.
fn model_of(directory: &Path, content: Option<&[u8]>) -> ServedModel {
    model_from(directory, content, false)
}

/// As [`model_of`], with vectors of length 1 where `normalize`.
fn model_from(directory: &Path, content: Option<&[u8]>, normalize: bool) -> ServedModel {
    let file = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        fs_err::write(&path, content).unwrap();
        ServedFile::new(path, name, content.len() as u64, &sha256_hex(content)).unwrap()
    };
    let manifest = ModelManifest {
        format_version: 1,
        name: "fake".into(),
        fingerprint: fingerprint(),
        family: Family::Bert,
        pooling: Pooling::Cls,
        normalize,
        similarity: Similarity::Dot,
        dim: DIM,
        max_question_tokens: 64,
        max_passage_tokens: 256,
        shared: true,
        space: None,
        prompts: Prompts::default(),
        title_join: TitleJoin::default(),
        matryoshka: false,
        files: BTreeMap::new(),
    };
    let mut weights = BTreeMap::new();
    if let Some(content) = content {
        weights.insert("q8".to_owned(), file("question_encoder.q8.safetensors", content));
    }
    let files = EncoderFiles {
        config: ServedFile::of_json("config.json", br#"{"model_type":"bert"}"#.to_vec()).unwrap(),
        tokenizer: file("tokenizer.json", &br#"{"vocab":"a b c d e f g h"}"#.repeat(100)),
        vocabulary: Some(file("vocabulary.bin", b"DPRVOCA1")),
        weights,
        reader: None,
        reranker: None,
    };
    ServedModel::new(&manifest, files)
}

/// A ready server and the directory it lives from.
fn ready(options: Options) -> (Router, tempfile::TempDir) {
    ready_with(options, || {})
}

/// A ready server each of whose searches calls `before`.
fn ready_with(options: Options, before: impl Fn() + Send + Sync + 'static) -> (Router, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let state = AppState::new(options);
    state.publish(Arc::new(FakeSearch { before: Box::new(before) }), model(directory.path(), true));
    (app(state), directory)
}

/// A server whose searches each wait for a message.
fn gated(options: Options) -> (Router, mpsc::Sender<()>, tempfile::TempDir) {
    let (open, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let (app, directory) = ready_with(options, move || gate.lock().unwrap().recv().unwrap());
    (app, open, directory)
}

/// A response, read to its end.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status and code of an error; fails when a part of it is missing.
    fn error(&self) -> (u16, String) {
        let error = &self.json()["error"];
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert!(!error["fix"].as_str().unwrap().is_empty());
        (self.status.as_u16(), error["code"].as_str().unwrap().to_owned())
    }

    fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }

    fn fix(&self) -> String {
        self.json()["error"]["fix"].as_str().unwrap().to_owned()
    }
}

async fn send(app: &Router, request: Request<Body>) -> Reply {
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    Reply { status: parts.status, headers: parts.headers, body }
}

async fn get(app: &Router, path: &str) -> Reply {
    get_with(app, path, &[]).await
}

async fn get_with(app: &Router, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(app, request.body(Body::empty()).unwrap()).await
}

fn post(body: impl Into<Body>) -> Request<Body> {
    Request::post("/v1/search").header("content-type", "application/json").body(body.into()).unwrap()
}

async fn search(app: &Router, body: &Value) -> Reply {
    send(app, post(body.to_string())).await
}

/// A search that nothing is wrong with.
fn good() -> Value {
    json!({"vector": [1.0, 0.0, 0.5, -2.0], "k": 3, "model": fingerprint()})
}
