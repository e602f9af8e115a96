//! Nothing of keys, texts and vectors reaches a log or a trace, at any level: all routes are asked, rightly and
//! wrongly, over TLS and without, while every line and every span of every crate is kept. Alone in its program, as the
//! subscriber is the program's.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use axum::body::Body;
use axum::http::Request;
use dpr_core::Embedding;
use dpr_serve::server::{self, Connections};
use dpr_serve::{NewKey, Tls, app};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use served::{GUESS, NUMBER, QUESTION, TEXT, TOKEN, requests, state};
use socket::connect;
use spans::Spans;

mod served;
mod socket;
mod spans;
mod traces;

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

/// A request that was answered.
struct Asked {
    /// The id that the client chose.
    id: String,
    method: &'static str,
    path: String,
    scheme: &'static str,
    /// The header `traceparent` as sent.
    caller: Option<String>,
    status: u16,
}

/// What was seen while all requests were answered.
struct Seen {
    log: String,
    spans: Vec<spans::Kept>,
    asked: Vec<Asked>,
    /// What nobody may see.
    secrets: Vec<String>,
}

/// The requests are sent once for all tests.
static SEEN: LazyLock<Seen> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(see())
});

/// Returns the header of a request's caller: well-formed, malformed and absent by turns.
fn caller(at: usize) -> Option<String> {
    match at % 3 {
        0 => Some(format!("00-{:032x}-{:016x}-01", at + 1, at + 7)),
        1 => Some(format!("00-{QUESTION}-{at:016x}-01")),
        _ => None,
    }
}

fn request(base: &str, body: &str, asked: &Asked, key: (&str, &str)) -> Request<Body> {
    let request = Request::builder().method(asked.method).uri(format!("{base}{}", asked.path));
    let request = request.header("content-type", "application/json").header("x-request-id", &asked.id);
    let request = match &asked.caller {
        Some(caller) => request.header("traceparent", caller),
        None => request,
    };
    request.header("host", "localhost").header(key.0, key.1).body(Body::from(body.to_owned())).unwrap()
}

async fn see() -> Seen {
    let (log, spans) = (Log::default(), Spans::default());
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log.clone());
    tracing_subscriber::registry().with(LevelFilter::TRACE).with(lines).with(spans.clone()).init();
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
    let mut all = Vec::new();
    for (tls, protocol) in [(None, "http/1.1"), (Some(&tls), "http/1.1"), (Some(&tls), "h2")] {
        let listener = server::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections { tls: tls.cloned(), ..Connections::default() };
        tokio::spawn(server::run(listener, app(state.clone()), std::future::pending(), connections));
        let pem = tls.map(|_| pem.as_str());
        for key in sent {
            for (method, path, body) in requests() {
                let (id, caller) = (format!("from-the-test-{}", all.len()), caller(all.len()));
                let scheme = if pem.is_some() { "https" } else { "http" };
                let mut asked = Asked { id, method, path, scheme, caller, status: 0 };
                let socket = TokioIo::new(connect(address, pem, protocol).await);
                let response = if protocol == "h2" {
                    let (mut client, connection) =
                        http2::handshake(TokioExecutor::new(), socket).await.unwrap();
                    tokio::spawn(connection);
                    client.send_request(request("https://localhost", &body, &asked, key)).await.unwrap()
                } else {
                    let (mut client, connection) = http1::handshake(socket).await.unwrap();
                    tokio::spawn(connection);
                    client.send_request(request("", &body, &asked, key)).await.unwrap()
                };
                asked.status = response.status().as_u16();
                axum::body::to_bytes(Body::new(response.into_body()), usize::MAX).await.unwrap();
                all.push(asked);
            }
        }
    }
    let base64 = Embedding::new(vec![NUMBER, 1.0], 2).unwrap().to_base64_f32();
    let key = key.secret()[4..].to_owned();
    let mut secrets: Vec<_> = [TEXT, QUESTION, TOKEN, GUESS].map(str::to_owned).into();
    secrets.extend([key, NUMBER.to_string(), base64]);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    Seen { log, spans: spans.closed(), asked: all, secrets }
}

#[test]
fn no_key_text_or_vector_is_logged_at_any_level() {
    let Seen { log, asked, secrets, .. } = &*SEEN;
    for status in [200, 400, 401, 403, 404, 405, 409, 413, 422] {
        assert!(asked.iter().any(|asked| asked.status == status), "no request was answered {status}");
    }
    for line in ["the index was changed", "dpr_audit", "id=\"from-the-test-0\"", "TRACE", "h2::"] {
        assert!(log.contains(line), "no `{line}` among {} bytes of log", log.len());
    }
    let audit = log.lines().find(|line| line.contains("the index was changed")).unwrap();
    for field in [
        "dpr_audit",
        "key=\"all\"",
        "address=\"127.0.0.1\"",
        "added=1 replaced=0 deleted=0 version=1 changes=1",
        "request_id=\"from-the-test-",
    ] {
        assert!(audit.contains(field), "no `{field}` in {audit}");
    }
    for secret in secrets {
        if let Some(line) = log.lines().find(|line| line.contains(secret.as_str())) {
            panic!("`{secret}` stands in the log: {line}");
        }
    }
}
