//! Nothing of keys, texts and vectors reaches a log, at any level: all routes are asked, rightly and wrongly, over
//! TLS and without, while every line of every crate is kept. Alone in its program, as the log is the program's.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
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
use dpr_serve::server::{self, Connections};
use dpr_serve::{
    Access, AppState, KeySources, Limits, NewKey, Options, Rate, Scope, ServedBlur, ServedReader, Serving,
    TextSearch, Tls, Updates, app,
};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing_subscriber::fmt::MakeWriter;

/// Every line that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Words and numbers that stand nowhere else.
const TEXT: &str = "Zebrafinken";
const QUESTION: &str = "Wiesenschaumkraut";
const TOKEN: &str = "Zwetschgenmus-Zwetschgenmus-Zwetschgenmus";
const GUESS: &str = "Quittengelee";
const NUMBER: f32 = 4711.25;

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

fn state(dir: &Path, keys: &NewKey) -> AppState {
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
    let state = AppState::new(Options { limits, access: access.unwrap(), rate, ..Options::default() });
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
fn requests() -> Vec<(&'static str, String, String)> {
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
    for path in ["/v1/model", "/v1/index", "/metrics", "/openapi.json", "/healthz", "/readyz", "/"] {
        all.push(("GET", path.into(), String::new()));
        all.push(("PUT", format!("{path}?q={QUESTION}"), TEXT.into()));
    }
    all.push(("GET", format!("/v1/model/files/{QUESTION}/{QUESTION}"), String::new()));
    all.push(("GET", format!("/v1/encrypted/files/{QUESTION}/{QUESTION}"), String::new()));
    all.push(("GET", "/v1/encrypted".into(), String::new()));
    all.push(("GET", format!("/{QUESTION}"), String::new()));
    all
}

/// A socket with or without TLS.
trait Socket: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static {}
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static> Socket for S {}

async fn connect(address: SocketAddr, pem: Option<&str>, protocol: &str) -> Box<dyn Socket> {
    let socket = TcpStream::connect(address).await.unwrap();
    let Some(pem) = pem else { return Box::new(socket) };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    Box::new(TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap())
}

fn request(base: &str, (method, path, body): &(&str, String, String), key: (&str, &str)) -> Request<Body> {
    let request = Request::builder().method(*method).uri(format!("{base}{path}"));
    let request = request.header("content-type", "application/json").header("x-request-id", "from-the-test");
    request.header("host", "localhost").header(key.0, key.1).body(Body::from(body.clone())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_text_or_vector_is_logged_at_any_level() {
    let log = Log::default();
    let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    lines.with_writer(log.clone()).init();
    let dir = tempfile::tempdir().unwrap();
    let key = NewKey::generate().unwrap();
    let state = state(&dir.path().join("index"), &key);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [certificate, private] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    fs_err::write(&certificate, made.cert.pem()).unwrap();
    fs_err::write(&private, made.signing_key.serialize_pem()).unwrap();
    let tls = Arc::new(Tls::open(&certificate, &private).unwrap());
    let pem = made.cert.pem();
    let bearer = format!("Bearer {}", key.secret());
    let (token, guess) = (format!("Bearer {TOKEN}"), format!("Bearer {GUESS}"));
    let sent = [
        ("authorization", bearer.as_str()),
        ("x-api-key", key.secret()),
        ("authorization", &token),
        ("authorization", &guess),
        ("x-api-key", GUESS),
    ];
    let mut statuses = Vec::new();
    for (tls, protocol) in [(None, "http/1.1"), (Some(&tls), "http/1.1"), (Some(&tls), "h2")] {
        let listener = server::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections { tls: tls.cloned(), ..Connections::default() };
        tokio::spawn(server::run(listener, app(state.clone()), std::future::pending(), connections));
        let pem = tls.map(|_| pem.as_str());
        for key in sent {
            for asked in requests() {
                let socket = TokioIo::new(connect(address, pem, protocol).await);
                let response = if protocol == "h2" {
                    let (mut client, connection) =
                        http2::handshake(TokioExecutor::new(), socket).await.unwrap();
                    tokio::spawn(connection);
                    client.send_request(request("https://localhost", &asked, key)).await.unwrap()
                } else {
                    let (mut client, connection) = http1::handshake(socket).await.unwrap();
                    tokio::spawn(connection);
                    client.send_request(request("", &asked, key)).await.unwrap()
                };
                statuses.push(response.status().as_u16());
                axum::body::to_bytes(Body::new(response.into_body()), usize::MAX).await.unwrap();
            }
        }
    }
    for status in [200, 400, 401, 403, 404, 405, 409, 413, 422] {
        assert!(statuses.contains(&status), "no request was answered {status}");
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for line in ["the index was changed", "dpr_audit", "id=\"from-the-test\"", "TRACE", "h2::"] {
        assert!(log.contains(line), "no `{line}` among {} bytes of log", log.len());
    }
    let audit = log.lines().find(|line| line.contains("the index was changed")).unwrap();
    for field in [
        "dpr_audit",
        "key=\"all\"",
        "address=\"127.0.0.1\"",
        "added=1 replaced=0 deleted=0 version=1 changes=1",
        "request_id=\"from-the-test\"",
    ] {
        assert!(audit.contains(field), "no `{field}` in {audit}");
    }
    let number = NUMBER.to_string();
    let base64 = Embedding::new(vec![NUMBER, 1.0], 2).unwrap().to_base64_f32();
    for secret in [TEXT, QUESTION, TOKEN, GUESS, &key.secret()[4..], &number, &base64] {
        if let Some(line) = log.lines().find(|line| line.contains(secret)) {
            panic!("`{secret}` stands in the log: {line}");
        }
    }
}
