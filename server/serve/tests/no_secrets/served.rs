//! A server with everything on, and requests of every kind, right and wrong.

use std::path::Path;
use std::sync::Arc;

use dpr_core::device::Device;
use dpr_core::model::sha256_hex;
use dpr_core::private::projection::Projection;
use dpr_core::{Embedding, EncoderBytes, Reader};
use dpr_data::Passage;
use dpr_encode::PassageUpdater;
use dpr_files::progress::Silent;
use dpr_index::private::{BlurDir, BlurManifest};
use dpr_index::search::{Filter, Fusion, Hit, Method, SearchError};
use dpr_index::vectors::VectorSet;
use dpr_index::{CancelToken, IndexOptions, IndexWriter, LiveIndex, build_index};
use dpr_serve::{
    Access, AppState, KeySources, Limits, NewKey, Options, Rate, Scope, ServedBlur, ServedReader, Serving,
    TextSearch, Updates,
};
use serde_json::{Value, json};

use crate::spans::keep_parent;

/// Words and numbers that stand nowhere else.
pub(crate) const TEXT: &str = "Zebrafinken";
pub(crate) const QUESTION: &str = "Wiesenschaumkraut";
pub(crate) const TOKEN: &str = "Zwetschgenmus-Zwetschgenmus-Zwetschgenmus";
pub(crate) const GUESS: &str = "Quittengelee";
pub(crate) const NUMBER: f32 = 4711.25;

/// A search by text whose answers and errors hold what was asked.
struct Echo;

impl TextSearch for Echo {
    fn search_text(
        &self,
        question: &str,
        _: Method,
        _: Fusion,
        k: usize,
        _: Option<&Filter>,
        _: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        match k {
            1 => Err(SearchError::NoSparse),
            _ => Ok(vec![Hit {
                id: "p".into(),
                score: 1.0,
                title: question.into(),
                text: question.into(),
                metadata: dpr_data::Metadata::default(),
            }]),
        }
    }
}

fn fingerprint() -> String {
    sha256_hex(b"a model")
}

pub(crate) fn state(dir: &Path, keys: &NewKey) -> AppState {
    let passage = |n: usize| Passage::new(format!("p{n}"), TEXT, format!("{TEXT} {n}"));
    let rows = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let set = VectorSet::new(fingerprint(), 2, (0..3).map(passage).collect(), rows);
    build_index(&set, dir, &IndexOptions::default(), &Silent).unwrap();
    let writer = Arc::new(IndexWriter::open(dir, "a test").unwrap());
    let list = keys.entry("all", &[Scope::Search, Scope::Write, Scope::Admin]);
    let access = Access::new(KeySources {
        list: Some(list),
        update_token: Some(TOKEN.into()),
        ..KeySources::default()
    });
    let limits = Limits { max_body: 10_000, ..Limits::default() };
    let rate = Rate::new(1e6, 1000);
    let state = AppState::new(Options {
        limits,
        access: access.unwrap(),
        rate,
        trace_parent: Some(keep_parent),
        ..Options::default()
    });
    let search = Arc::<LiveIndex>::clone(writer.live());
    state.publish_all(Serving {
        text: Some(Arc::new(Echo)),
        updates: Some(Updates::new(Arc::new(PassageUpdater::new(writer, None)))),
        blur: Some(Arc::new(ServedBlur::new(blur(dir)))),
        reader: Some(Arc::new(reader())),
        ..Serving::new(search)
    });
    state
}

/// A reader of random weights.
fn reader() -> ServedReader {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/readers/dpr");
    let read = |name: &str| fs_err::read(format!("{dir}/{name}")).unwrap();
    let (config, tokenizer, weights) =
        (read("config.json"), read("tokenizer.json"), read("model.safetensors"));
    let weights = [("model.safetensors", weights.as_slice())];
    let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
    ServedReader::new(Reader::load(&files, None, &Device::Kernel).unwrap(), sha256_hex(b"a reader"))
}

/// Both directions of two numbers.
fn projection() -> Projection {
    Projection::new(vec![0.0; 2], &[1.0, 0.0, 0.0, 1.0]).unwrap()
}

/// A blur directory that offers no level, so that what is sent is read and refused.
fn blur(dir: &Path) -> BlurDir {
    let manifest = BlurManifest::new(&fingerprint(), &projection(), 3, (1, "passages"), &[]);
    BlurDir::write(&dir.join("blur"), manifest, projection()).unwrap()
}

/// Requests of every kind: method, path, body.
pub(crate) fn requests() -> Vec<(&'static str, String, String)> {
    let model = fingerprint();
    let vector = [NUMBER, 1.0];
    let base64 = Embedding::new(vector.to_vec(), 2).unwrap().to_base64_f32();
    let blur = projection().sha256().to_owned();
    let passage = |id: &str, vector: Value| json!({"id": id, "title": TEXT, "text": TEXT, "vector": vector});
    let put = |passages: Value| json!({"model": model, "passages": passages});
    let bodies: Vec<(&str, &str, Value)> = vec![
        ("POST", "/v1/search", json!({"vector": vector, "model": model})),
        ("POST", "/v1/search", json!({"vector": base64, "model": model, "filter": {"titles": [TEXT]}})),
        ("POST", "/v1/search", json!({"vectors": [vector, vector], "model": model})),
        ("POST", "/v1/search", json!({"vector": [NUMBER], "model": model})),
        ("POST", "/v1/search", json!({"vector": [NUMBER, null], "model": QUESTION})),
        ("POST", "/v1/search", json!({"vector": vector, "model": model, "filter": {"titles": [QUESTION]}})),
        ("POST", "/v1/search", json!({"vector": vector, "model": model, "question": QUESTION})),
        ("POST", "/v1/search", json!({"vector": vector, "model": model, QUESTION: NUMBER})),
        ("POST", "/v1/search", json!({"vector": vec![NUMBER; 5000], "model": model})),
        ("POST", "/v1/search", json!(QUESTION)),
        ("POST", "/v1/search/text", json!({"question": QUESTION})),
        ("POST", "/v1/search/text", json!({"question": QUESTION, "k": 1})),
        ("POST", "/v1/search/text", json!({"question": QUESTION, "method": QUESTION})),
        ("POST", "/v1/answer", json!({"question": QUESTION})),
        ("POST", "/v1/answer", json!({"question": QUESTION, "depth": 1})),
        ("POST", "/v1/answer", json!({"question": QUESTION.repeat(100), "top": 1})),
        ("POST", "/v1/answer", json!({"question": QUESTION, QUESTION: NUMBER})),
        ("POST", "/v1/passages", put(json!([passage("a", json!(vector))]))),
        ("POST", "/v1/passages", put(json!([passage("a", json!([NUMBER]))]))),
        ("POST", "/v1/passages", put(json!([passage("b", Value::Null)]))),
        ("POST", "/v1/passages", put(json!([passage("c", json!(vector)), passage("c", json!(vector))]))),
        ("POST", "/v1/passages", json!({"model": TEXT, "passages": [passage("a", json!(vector))]})),
        (
            "POST",
            "/v1/private/candidates",
            json!({"y": base64, "level": "light", "projection": blur, "model": model}),
        ),
        (
            "POST",
            "/v1/private/candidates",
            json!({"y": QUESTION, "level": QUESTION, "projection": blur, "model": model}),
        ),
        ("POST", "/v1/private/candidates", json!({"question": QUESTION, QUESTION: NUMBER})),
        ("POST", "/v1/encrypted/rank", json!(QUESTION)),
        ("POST", "/v1/encrypted/fetch", json!([NUMBER, QUESTION])),
        ("DELETE", "/v1/passages", json!({"ids": ["a"]})),
        ("DELETE", "/v1/passages", json!({"ids": [TEXT]})),
    ];
    let mut all: Vec<_> =
        bodies.into_iter().map(|(method, path, body)| (method, path.to_owned(), body.to_string())).collect();
    all.push(("POST", "/v1/search".into(), format!("{{\"vector\":[{NUMBER}, {QUESTION}")));
    all.push(("POST", format!("/v1/search?q={QUESTION}"), "{}".into()));
    for path in
        ["/v1/model", "/v1/model/small", "/v1/index", "/metrics", "/openapi.json", "/healthz", "/readyz", "/"]
    {
        all.push(("GET", path.into(), String::new()));
        all.push(("PUT", format!("{path}?q={QUESTION}"), TEXT.into()));
    }
    all.push(("GET", format!("/v1/model/files/{QUESTION}/{QUESTION}"), String::new()));
    all.push(("GET", format!("/v1/encrypted/files/{QUESTION}/{QUESTION}"), String::new()));
    all.push(("GET", format!("/v1/encrypted/delta/{QUESTION}"), String::new()));
    all.push(("GET", "/v1/encrypted".into(), String::new()));
    all.push(("GET", format!("/{QUESTION}"), String::new()));
    all
}
